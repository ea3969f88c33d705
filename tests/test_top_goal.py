"""The goal of a top: who is among it, what is asked, when it stops, whether the promise is kept."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import done, fault, invoke
from collection_helpers import made_items
from hypothesis import given
from hypothesis import strategies as st
from result_helpers import value_of
from test_rule import posterior_of

from sortnet.preference import Judgement
from sortnet.preference.groups import Groups
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal, Standing, group_standings, overall
from sortnet.preference.study import Decision, study_of
from store import open_store
from store.service.labelling import LabellingService


@st.composite
def drawn(draw):
    """Draws of a posterior, and the groups of its items; some of one item."""
    of = [0, 0, *draw(st.lists(st.integers(0, 2), max_size=10))]
    seed = draw(st.integers(0, 1000))
    scores = np.random.default_rng(seed).standard_normal((draw(st.integers(2, 9)), len(of)))
    return posterior_of(scores), Groups(of, len(of))


def test_an_item_that_is_as_good_as_those_of_the_top_is_not_wrong():
    draws = np.array([[3.0, 2.0, 2.4, 0.0], [3.0, 2.0, 1.9, 0.0]])
    for tie_odds, wrong in ((0.0, 0.25), (2.0, 0.0)):
        posterior = posterior_of(draws)
        posterior = replace(
            posterior, scores=draws[1], prior=replace(posterior.prior, tie_odds=tie_odds)
        )
        (standing,) = group_standings(posterior, Groups(None, 4), Goal(top=2), seed=0)
        assert standing.wrong == wrong


@given(drawn(), st.integers(1, 4), st.integers(0, 2))
def test_the_goal_is_reached_if_in_nine_of_ten_draws_no_more_are_wrong_in_any_group(
    made, top, allowed
):
    posterior, groups = made
    goal = Goal(max(allowed, 0.5) / top, top)
    share, _, reached = overall(group_standings(posterior, groups, goal, seed=0), goal)
    shares, sure = [], []
    for members in groups.members:
        k = min(top, len(members))
        best = sorted(members, key=lambda item: -posterior.scores[item])[:k]
        wrong = [
            len(set(best) - set(sorted(members, key=lambda item: -row[item])[:k]))
            for row in posterior.draws
        ]
        shares.append(np.mean(wrong) / k)
        sure.append(np.mean(np.array(wrong) <= goal.allowed(k)))
    assert share == pytest.approx(np.mean(shares))
    assert reached == (min(sure) >= 0.9)


def test_each_group_has_a_top_and_must_reach_the_goal():
    session = Session(None, 9, groups=[0] * 4 + [1] * 4 + [2], goal=Goal(0.2, top=1), seed=1)
    for who in ("ana", "ben", "cleo", "dan"):
        for i in range(4):
            for j in range(i):
                session.tell(Judgement.of(who, (i, j), "left"))
    remaining = session.remaining()
    a, b, c = remaining.groups
    assert not remaining.reached and not remaining.stop
    assert a.wrong < 0.1 and b.wrong > 0.3 and c.wrong == 0
    assert not any(group.stop for group in remaining.groups)
    assert remaining.wrong == pytest.approx((a.wrong + b.wrong + c.wrong) / 3)
    ranking = session.ranking()
    assert ranking.among_top[:4].sum() == pytest.approx(1)
    assert ranking.among_top[4:8] == pytest.approx(0.25, abs=0.1)
    assert ranking.among_top[8] == 1


def test_a_top_with_room_for_all_is_known_before_anything_is_asked():
    for groups, top in ((None, 4), ([0, 0, 1, 1], 2)):
        remaining = Session(None, 4, groups=groups, goal=Goal(top=top)).remaining()
        assert remaining.stop and remaining.questions == 0
        assert remaining.standing is Standing.ALL_TOP
    assert not Session(None, 4, goal=Goal(top=3)).remaining().stop


def test_decisions_make_the_goal():
    assert study_of([]).wanted() == Goal(0.1, top=0)
    top = [Decision("goal", amount=0.2), Decision("top", amount=10.0)]
    assert study_of(top).wanted() == Goal(0.2, top=10)
    assert study_of([*top, Decision("top", amount=0)]).wanted() == Goal(0.2)
    assert not study_of(top).asks_alike(study_of(top[:1]))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        store.add_items("c", made_items(12, d=1))
        store.add_items("g", made_items(6, groups=("x",) * 3 + ("y",) * 3))
    Path("judge.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    sides = json.loads(line)\n"
        "    left, right = (int(sides[side]['id'][1:]) for side in ('left', 'right'))\n"
        "    print(json.dumps({'answer': 'left' if left > right else 'right'}), flush=True)\n"
    )
    return tmp_path


def test_a_goal_is_asked_for_shown_and_taken_back(home):
    for typed, shown in (
        ("top 10, 2 wrong", "the top 10, at most 2 of them wrong"),
        ("TOP 5", "the top 5, at most 0 of them wrong"),
        ("top10,1 wrong", "the top 10, at most 1 of them wrong"),
        ("0.075", "at most 7.5% of the pairs in the wrong order"),
    ):
        assert f"goal          {shown}\n" in done("ask", "c", "--goal", typed)
    (asked,) = value_of(done("ask", "c", "--json"))
    assert (asked["goal"], asked["top"]) == (0.075, None)


@pytest.mark.parametrize("typed", ["top 0", "top 10, 9 wrong", "top", "top -1", "0", "0.5", "nan"])
def test_what_is_no_goal_is_refused_with_its_words(home, typed):
    refused = f"{typed!r} is neither a share of pairs above 0 and below 0.5 nor"
    assert refused in fault("ask", "c", "--goal", typed)
    assert refused in fault("label", "c", "--until", typed)


def test_a_top_that_all_items_are_of_is_refused_and_said(home):
    assert "top 3 of 3 items in the largest group" in fault("ask", "g", "--goal", "top 3")
    for item in ("i3", "i4", "i5"):
        done("items", "retire", "c", item)
    refused = "--goal: top 9 of 9 items: all of them are the top"
    assert refused in fault("ask", "c", "--criterion", "a", "--goal", "top 9")
    assert [asked["criterion"] for asked in value_of(done("ask", "c", "--json"))] == [None]
    done("ask", "c", "--goal", "top 8")
    done("items", "retire", "c", "i6")
    shown = done("label", "c", "--judge", "python judge.py")
    assert "all items are of the top 8" in shown


@pytest.mark.slow
def test_a_program_answers_until_the_top_is_known_and_the_ranking_says_how_probably(home):
    with open_store("s.db") as store:
        store.add_items("d", made_items(20, d=1))
    done("ask", "d", "--goal", "top 3, 1 wrong")
    shown = done("label", "d", "--judge", "python judge.py", "--as", "robot")
    assert "the goal is reached, the top 3, at most 1 of them wrong (--until sets another)" in shown
    verbose = invoke("ranking", "d", "--verbose").stderr
    assert "of the top 3 are expected not to belong there" in verbose
    frame = pd.read_csv(StringIO(done("ranking", "d", "--format", "csv")))
    assert frame.columns.tolist()[-1] == "among_top"
    assert frame["among_top"].sum() == pytest.approx(3)
    assert set(frame["id"][:3]) == {"i17", "i18", "i19"}
    assert [row["among_top"] for row in value_of(done("ranking", "d", "--json"))] == (
        pytest.approx(frame["among_top"].tolist())
    )
    head, first, *_ = done("ranking", "d").splitlines()
    assert head.split()[5:8] == ["judged", "in", "top"]
    assert f"{frame['among_top'][0]:.0%}" in first.split()


def test_the_ranking_of_a_group_says_how_far_its_top_is(home):
    done("ask", "g", "--goal", "top 1")
    with open_store("s.db") as store:
        store.collection("g").append([Judgement.of("ana", (0, 1), "left")])
        service = LabellingService(store.collection("g"))
        service.settle()
        share = service.remaining.groups[1].wrong
    said = invoke("ranking", "g", "--group", "y").stderr
    assert f"y: 3 items, 0 answers; {share:.0%} of the top 1 are expected not to belong there" in (
        said
    )
