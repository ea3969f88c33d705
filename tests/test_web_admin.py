"""The admin page over HTTP: what it shows and decides, and what annotators see then."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from collection_helpers import Clock, made_items
from web_helpers import served

from cli.web import ranking_rows
from sortnet.preference import Judgement
from sortnet.preference.goal import Goal
from sortnet.preference.study import LONGEST, QUESTION, Decision
from store import open_store
from store.report.growth import growth_picture
from store.service.labelling import LabellingService

SCRIPT = "<script>document.title = 'taken'</script>"


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
def collection(store):
    store.add_items("essays", made_items(12, d=1))
    return store.collection("essays", clock=Clock(time.time()))


@pytest.fixture
def site(collection):
    with served(collection) as made:
        made.link("ana")
        made.link("eve")
        yield made


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A site of 120 items that no test changes; its texts go against the order of its ids."""
    texts = tuple(f"text {999 - k}" for k in range(120))
    with (
        open_store(tmp_path_factory.mktemp("many") / "s.db") as opened,
        served(opened.add_items("many", made_items(120, texts=texts))) as made,
    ):
        made.pages.services[0].settle()
        yield made


def state(site, **asked):
    query = "&".join(f"{name}={quote(str(value))}" for name, value in asked.items())
    return site.client.get(f"{site.admin}/state?{query}").json()


def append(collection, *said: tuple) -> None:
    """Store answers: (annotator, left, right, answer) and further fields by name."""
    facts = [(row[:4], row[4] if len(row) > 4 else {}) for row in said]
    collection.append(
        [Judgement.of(who, (left, right), word, **more) for (who, left, right, word), more in facts]
    )


def test_the_whole_ranking_comes_in_pages(many):
    pages = [state(many, page=page) for page in (1, 2, 3)]
    assert [len(page["ranking"]) for page in pages] == [50, 50, 20]
    assert [row["rank"] for page in pages for row in page["ranking"]] == list(range(1, 121))
    assert {(page["found"], page["pages"]) for page in pages} == {(120, 3)}
    beyond = state(many, page=99)
    assert beyond["page"] == 3 and beyond["ranking"] == pages[2]["ranking"]
    found = state(many, find="text 99", page=2)  # 990 to 999
    assert (found["found"], found["page"], found["pages"]) == (10, 1, 1)


@pytest.mark.parametrize("column", ["rank", "low", "high", "score", "judgements"])
def test_the_ranking_is_sorted_by_each_column_both_ways(many, column):
    up = [
        row[column] for page in (1, 2, 3) for row in state(many, sort=column, page=page)["ranking"]
    ]
    down = [row[column] for row in state(many, sort=f"-{column}")["ranking"]]
    assert up == sorted(up) and len(up) == 120
    assert down == sorted(up, reverse=True)[:50]


def test_the_ranking_is_sorted_by_what_is_shown_of_an_item(many):
    assert state(many, sort="item")["ranking"][0]["text"] == "text 880"
    assert state(many, sort="-item")["ranking"][0]["text"] == "text 999"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        *(("sort=name", "is sorted by rank, low"), ("sort=--rank", "is sorted by")),
        *(
            ("page=x", "whole number from 1"),
            ("page=-1", "whole number"),
            ("page=", "whole number"),
        ),
        *((f"page={'9' * 5000}", ""), ("criterion=clear", "no criterion 'clear'")),
    ],
)
def test_a_view_that_cannot_be_is_refused_in_one_line(many, query, fault):
    reply = many.client.get(f"{many.admin}/state?{query}")
    assert reply.status == 422 and fault in reply.json()["error"]


def test_pairs_that_are_disputed_come_with_who_said_what(site, collection):
    append(
        collection,
        *(("ana", 0, 1, "left"), ("ben", 1, 0, "right"), ("eva", 1, 0, "left")),
        *(("ana", 2, 3, "left"), ("ben", 3, 2, "right")),  # agreed
        *(("ana", 4, 5, "tie"), ("ana", 5, 4, "left")),  # not with herself
        *(("ana", 6, 7, "skip"), ("ben", 6, 7, "left")),  # a skip says nothing
        *(("ana", 8, 9, "left"), ("ben", 8, 9, "right", {"number": 99})),
        ("ben", 8, 9, "undo", {"undoes": 99}),
    )
    site.pages.services[0].sync()
    disputed = state(site)["disputed"]
    assert disputed["found"] == 2
    first, second = disputed["pairs"]
    assert [item["id"] for item in first["items"]] == ["i0", "i1"]
    assert first["said"] == [["ana", 1.0], ["ben", 1.0], ["eva", 0.0]]
    assert [item["id"] for item in second["items"]] == ["i4", "i5"]
    assert second["said"] == [["ana", 0.5], ["ana", 0.0]]


def test_comments_and_flags_come_newest_first_without_undone_ones(site, collection):
    append(
        collection,
        ("ana", 0, 1, "left", {"comment": "<b>both</b> are short", "number": 91}),
        ("ben", 2, 3, "skip", {"flagged": True, "number": 92}),
        ("ben", 2, 4, "left", {"comment": "by mistake", "number": 93}),
        ("ben", 2, 4, "undo", {"undoes": 93}),
        ("ben", 2, 5, "left"),
    )
    site.pages.services[0].sync()
    comments = state(site)["comments"]
    assert comments["found"] == 2
    newest, oldest = comments["newest"]
    assert (newest["annotator"], newest["answer"], newest["flagged"]) == ("ben", "skip", True)
    assert [item["id"] for item in newest["items"]] == ["i2", "i3"]
    assert oldest["comment"] == "<b>both</b> are short"


def test_the_pace_leaves_breaks_out(site, collection):
    times = (1000, 1010, 1020, 5000, 5010)
    append(collection, *(("ana", 0, k + 1, "left", {"at": at}) for k, at in enumerate(times)))
    site.pages.services[0].sync()
    ana, _ = state(site)["people"]
    assert (ana["pace"], ana["last"]) == (6.0, 5010)


def test_the_curve_is_the_recorded_run_and_the_last_fit(store, collection):
    service = LabellingService(collection, record=True)
    for n in range(1, 12):
        append(collection, ("ana", n - 1, n, "right"))
        service.sync()
        service.settle()
    service.close()
    with served(store.collection("essays")) as site:
        (fits,) = store.runs_frame()["id"]
        kept = store.run(fits).iterations_frame()
        assert state(site)["curve"] == []  # of the ranking that is shown: there is none yet
        site.pages.services[0].settle()
        curve = state(site)["curve"]
        collection.decide(Decision("exclude", "ana"))
        site.pages.services[0].sync()
        site.pages.services[0].settle()
        assert [point["answers"] for point in state(site)["curve"]] == [0]
    answers = [point["answers"] for point in curve]
    assert answers == [*kept["comparisons_train"][:-1], 11] and len(answers) >= 3
    expected = [*kept["train_order"]]
    assert [point["expected"] for point in curve] == pytest.approx(expected, abs=0.02)
    assert curve[-1]["holdout"] is None  # these answers were given, not asked for


@pytest.mark.parametrize("recorded", [False, True])
def test_a_curve_of_nothing_is_empty(site, collection, recorded):
    if recorded:
        collection.setting("labelling_run", "0123456789ab")
    assert state(site)["curve"] == []


def test_with_a_goal_of_a_top_the_page_shows_how_probably_each_item_is_of_it(site):
    service = site.pages.services[0]
    service.settle()
    assert {row["among_top"] for row in state(site, sort="among_top")["ranking"]} == {None}
    assert decide(site, "top", amount=3).status == 201
    service.settle()
    shown = state(site, sort="-among_top")
    assert (shown["goal"], shown["top"]) == (0.1, 3)
    assert shown["wanted"] == "the top 3, at most 0 of them wrong"
    found = [row["among_top"] for row in shown["ranking"]]
    assert found == sorted(service.ranking.among_top.tolist(), reverse=True)
    assert sum(found) == pytest.approx(3)
    html = site.client.get(f"{site.admin}/tables").json()["html"]
    assert "Top 3 expected wrong" in html
    assert f"<td>{100 * service.ranking.among_top.max():.0f} %</td>" in html


def test_the_curve_is_drawn_once_and_said():
    points = [{"answers": n, "expected": 0.5 + n / 40, "holdout": n / 20} for n in (5, 10, 15)]
    drawn = growth_picture(points, Goal(0.1))
    assert drawn is growth_picture(points, Goal(0.1))  # an open page asks every few seconds
    assert drawn.source.startswith("data:image/svg+xml;base64,")
    assert drawn.alt == (
        "After 15 answers the model expects 88% of the pairs to be in the right order and "
        "predicted 75% of the hold-out; the goal: at most 10% of the pairs in the wrong order."
    )
    top = growth_picture(points, Goal(0.1, top=2))
    assert "88% of the top 2 to belong there" in top.alt
    assert growth_picture(points[:1], Goal()) is None


def decide(site, kind, **facts):
    return site.client.post(f"{site.admin}/decisions", {"kind": kind, **facts})


def study(site, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    return site.client.get(f"{site.admin}/tables?{query}").json()["study"]


def test_what_is_asked_is_changed_while_serving(site):
    long = "é\n" * (LONGEST["instructions"] // 2)
    deadline = 4e9 + 0.5
    for kind, facts in (
        ("question", {"reason": "Which is clearer?"}),
        ("instructions", {"reason": long}),
        ("goal", {"amount": 0.05}),
        ("top", {"amount": 3}),
        ("deadline", {"amount": deadline}),
    ):
        assert decide(site, kind, **facts).status == 201
    expected = {"question": "Which is clearer?", "instructions": long.strip()}
    assert study(site) == expected | {"goal": 0.05, "top": 3, "deadline": deadline}
    assert state(site)["goal"] == 0.05
    assert site.pages.services[0].session.goal == Goal(0.05, top=3)
    for kind, facts in (
        ("question", {"reason": ""}),
        ("instructions", {}),
        ("goal", {"amount": 0}),
    ):
        assert decide(site, kind, **facts).status == 201
    found = study(site)
    assert (found["question"], found["instructions"], found["goal"]) == (QUESTION, "", 0)
    assert state(site)["goal"] == 0.1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"kind": "question", "reason": "x" * 501}, "'reason' is not a text of 1 to 500"),
        ({"kind": "instructions", "reason": "x" * 50_001}, "1 to 50000 characters"),
        ({"kind": "goal", "amount": "0.1"}, "'amount' is not a number"),
        ({"kind": "goal", "amount": float("nan")}, "'amount' is not a number"),
        ({"kind": "goal", "amount": 10**400}, "'amount' is not a number"),
        ({"kind": "goal"}, "is about amount"),
        ({"kind": "top", "amount": 2.5}, "'amount' is not a whole number"),
        ({"kind": "deadline", "amount": True}, "'amount' is not a number"),
        ({"kind": "overlap", "amount": 1.5}, "'amount' is not a whole number"),
        ({"kind": "pause", "annotator": ""}, "'annotator' is not a text"),
        ({"kind": "pause", "criterion": "clear"}, "no criterion 'clear'"),
        ({}, "'kind' is not a text"),
        ({"kind": "exclude", "annotator": "zoe"}, "there is no annotator 'zoe'"),
        ({"kind": "exclude", "annotator": ["eve"]}, "'annotator' is not a text"),
        ({"kind": "include", "annotator": "eve"}, "Annotator 'eve' is not excluded"),
        ({"kind": "gold", "item": True, "other": 2}, "'item' is not a whole number"),
        ({"kind": "quota", "annotator": "eve", "amount": -1}, "'amount' is not a whole number"),
        ({"kind": "retire", "item": "x"}, "'item' is not a whole number"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_in_one_line(site, collection, body, fault):
    reply = site.client.post(f"{site.admin}/decisions", body)
    assert reply.status == 422 and fault in reply.json()["error"]
    assert "\n" not in reply.json()["error"]
    assert collection.decisions() == []


def test_each_criterion_has_a_ranking_and_a_question_of_its_own(store, collection):
    for name in ("clear", "kind"):
        collection.add_criterion(name)
    with served(store.collection("essays")) as site:
        site.link("ana")
        decide(site, "pause", annotator="ana")
        assert decide(site, "question", reason="Which is more clear?").status == 201  # the first
        decide(site, "question", reason="Which is more kind?", criterion="kind")
        decide(site, "gold", item=0, other=1, criterion="kind")
        kind = store.collection("essays:kind")
        append(kind, ("ana", 0, 1, "left"))
        for service in site.pages.services:
            service.sync()
            service.settle()
        found = {name: state(site, criterion=name) for name in ("clear", "kind")}
        assert {name: of["answers"] for name, of in found.items()} == {"clear": 0, "kind": 1}
        assert {name: len(of["gold"]) for name, of in found.items()} == {"clear": 0, "kind": 1}
        assert [of["people"][0]["paused"] for of in found.values()] == [True, True]
        assert state(site) == found["clear"]
        assert study(site, criterion="kind")["question"] == "Which is more kind?"
        assert study(site)["question"] == "Which is more clear?"
        for name, lines in (("clear", 1), ("kind", 2)):
            reply = site.client.get(f"{site.admin}/judgements.csv?criterion={name}")
            assert len(reply.body.decode().splitlines()) == lines
        page = site.client.get(site.admin).body.decode()
        assert all(f'value="{name}"' in page for name in ("clear", "kind"))


def test_a_decision_on_a_criterion_of_a_command_is_seen(store, collection):
    (clear, _) = [collection.add_criterion(name) for name in ("clear", "kind")]
    with served(store.collection("essays")) as site:
        clear.decide(Decision("goal", amount=0.2))
        site.pages.services[0].sync()
        assert state(site)["goal"] == 0.2
        assert state(site, criterion="kind")["goal"] == 0.1


def test_the_items_are_searched_and_sorted_once_for_each_ranking(many, monkeypatch):
    ranking_rows._matching_items.cache_clear()

    def n_passes() -> int:
        return ranking_rows._matching_items.cache_info().misses

    service = many.pages.services[0]
    monkeypatch.setattr(service, "ranking", replace(service.ranking))
    pages = [state(many, page=page, sort="-low", find="text")["ranking"] for page in (1, 2, 1)]
    assert pages[0] == pages[2] != pages[1] and n_passes() == 1
    worst = replace(service.ranking, low=-service.ranking.low)
    monkeypatch.setattr(service, "ranking", worst)
    shown = [row["low"] for row in state(many, sort="-low", find="text")["ranking"]]
    assert shown == sorted(worst.low.tolist(), reverse=True)[:50] and n_passes() == 2


def test_the_tables_are_escaped_and_sent_once_while_nothing_changes(site):
    site.link("<b>ana</b>")
    site.pages.services[0].settle()
    sent = site.client.get(f"{site.admin}/tables").json()
    assert "&lt;b&gt;ana&lt;/b&gt;" in sent["html"] and "<b>" not in sent["html"]
    again = site.client.get(f"{site.admin}/tables?known={sent['key']}").json()
    assert again == sent | {"html": None, "study": None}
    site.link("ben")
    later = site.client.get(f"{site.admin}/tables?known={sent['key']}").json()
    assert later["key"] != sent["key"] and "ben" in later["html"]


def person(site, name):
    return next(who for who in state(site)["people"] if who["name"] == name)


def test_an_excluded_annotator_reads_how_many_they_have_answered(site, collection):
    eve = site.link("eve")
    for answer in ("left", "right", "skip", "tie", "left"):
        reply = site.client.post(f"{eve}/next").json()
        body = {"lease": reply["pairs"][0]["lease"], "answer": answer}
        reply = site.client.post(f"{eve}/answer", body).json()
    assert site.client.post(f"{eve}/undo", {"last": reply["last"]}).json()["answered"] == 3
    for kind in ("exclude", "include", "exclude"):
        assert decide(site, kind, annotator="eve").status == 201
        assert site.client.post(f"{eve}/next").json()["answered"] == 3
    assert site.client.post(f"{site.link('ana')}/next").json()["answered"] == 0
    with served(collection) as later:
        assert later.client.post(f"{eve}/next").json()["answered"] == 3


def test_a_revoked_link_is_a_page_that_says_so_and_a_new_one_opens(site):
    old = site.link("eve")
    decide(site, "revoke", annotator="eve")
    page = site.client.get(old, Accept="text/html")
    assert page.status == 403 and "This link was revoked" in page.body.decode()
    for path in ("next", "answer", "undo"):
        reply = site.client.post(f"{old}/{path}")
        assert reply.status == 403 and "was revoked" in reply.json()["error"]
    assert person(site, "eve")["revoked"]
    decide(site, "renew", annotator="eve")
    new = person(site, "eve")["path"]
    assert new != old and site.client.get(new).status == 200
    assert site.client.get(old).status == 404
    assert site.client.get(site.link("ana")).status == 200


def test_a_link_that_was_revoked_elsewhere_is_refused_at_once(site, collection):
    eve = site.link("eve")
    lease = site.client.post(f"{eve}/next").json()["pairs"][0]["lease"]
    collection.decide(Decision("revoke", "eve"))
    body = {"lease": lease, "answer": "left"}
    assert site.client.post(f"{eve}/answer", body).status == 403
    assert site.client.post(f"{eve}/next").status == 403
    assert collection.judgements() == []


def test_an_annotator_is_not_told_that_a_question_is_about_a_gold_pair(site, collection):
    assert decide(site, "gold", item=3, other=5).status == 201
    assert decide(site, "gold", item=3, other=5).json() == {"number": None}
    reply = site.client.post(f"{site.link('eve')}/next").json()
    assert "strategy" not in reply["pairs"][0]


def test_only_the_admin_decides_and_only_from_its_own_page(site, collection):
    body = {"kind": "exclude", "annotator": "eve"}
    assert site.client.post(f"{site.link('ana')}/decisions", body).status in (404, 405)
    assert site.client.post("/admin/nobody/decisions", body).status == 404
    foreign = {"Origin": "http://evil.example"}
    assert site.client.post(f"{site.admin}/decisions", body, **foreign).status == 403
    assert site.client.get(f"{site.admin}/decisions").status == 404
    assert collection.decisions() == []


def test_the_table_reports_on_everybody_also_the_excluded(site, collection):
    for name, answer in (("ana", "left"), ("eve", "right")):
        for _ in range(4):
            pair = site.client.post(f"{site.link(name)}/next").json()["pairs"][0]
            body = {"lease": pair["lease"], "answer": answer, "milliseconds": 900}
            site.client.post(f"{site.link(name)}/answer", body)
    decide(site, "exclude", annotator="eve", reason=SCRIPT)
    site.pages.services[0].settle()
    found = {who["name"]: who for who in state(site)["people"]}
    assert {name: who["report"]["answers"] for name, who in found.items()} == {"ana": 4, "eve": 4}
    assert found["eve"]["report"]["reason"] == SCRIPT and found["eve"]["excluded"]
    assert found["ana"]["report"]["reliability"] is None  # nobody else's answers count
    assert found["ana"]["state"] == "active"
    assert site.pages.services[0].session.answered("eve") == 0


def test_a_share_of_a_few_pairs_is_no_figure(site, collection, monkeypatch):
    # Counts that took no time are computed again for each request.
    clock = SimpleNamespace(monotonic=lambda: 0.0, time=time.time)
    monkeypatch.setattr("cli.web.admin_state.time", clock)

    def agreement() -> str:
        html = site.client.get(f"{site.admin}/tables").json()["html"]
        return html.split("Agreement (Krippendorff")[1].split("</div>")[0]

    pairs = [(i, j) for j in range(8) for i in range(j)][:20]
    for who in ("ana", "eve"):
        append(collection, *((who, i, j, ("left", "right")[i % 2]) for i, j in pairs[:3]))
    site.pages.services[0].settle()
    site.pages.services[0].sync()
    assert "too few" in agreement() and "1.00" not in agreement()
    for who in ("ana", "eve"):
        append(collection, *((who, i, j, ("left", "right")[i % 2]) for i, j in pairs[3:]))
    site.pages.services[0].sync()
    site.pages.services[0].settle()
    assert "too few" not in agreement() and "1.00" in agreement()
