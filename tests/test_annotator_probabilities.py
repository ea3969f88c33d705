"""What the probabilities of an annotator are: decided, stored, and told by commands."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_helpers import done, fault, judge_file
from collection_helpers import made_items
from hypothesis import given
from hypothesis import strategies as st
from language_model_server import Model, serving

from sortnet.errors import StudyError
from sortnet.judges.budget import Budget
from sortnet.judges.function import verdict_of_value
from sortnet.judges.model_server import HttpAnswer, Server
from sortnet.judges.model_worker import ModelWorker
from sortnet.preference import Judgement
from sortnet.preference.base import PROBABILITIES
from sortnet.preference.study import Decision, check_decision, last_decisions, study_of
from store import open_store
from store.service.labelling import LabellingService

VOTES = "left,right,answer,annotator,p\ni0,i1,left,ana,0.8\ni1,i2,left,ben,0.7\n"
JUDGE = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    p = 0.8 if pair["left"]["id"] < pair["right"]["id"] else 0.3
    print(json.dumps({"id": pair["id"], "p": p}), flush=True)
"""


@pytest.fixture(autouse=True)
def collection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        yield store.add_items("c", made_items(6, d=0))


@given(st.lists(st.tuples(st.sampled_from(["ana", "ben"]), st.sampled_from(PROBABILITIES))))
def test_the_last_decision_on_each_annotator_holds(decided):
    decisions = [Decision(f"p-{kind}", who) for who, kind in decided]
    study = study_of(decisions)
    assert study.probabilities == dict(decided)
    for who, kind in dict(decided).items():
        with pytest.raises(StudyError, match="already"):
            check_decision(last_decisions(decisions), Decision(f"p-{kind}", who), repr(who))
    assert study.asks_alike(study_of([])) == (not decided)


@pytest.mark.parametrize("before", ["nothing", "an answer", "a decision"])
def test_a_program_begins_with_measurements_unless_it_has_answered_or_somebody_decided(
    collection, before
):
    if before != "nothing":
        collection.annotator("program")
    if before == "an answer":
        collection.append([Judgement.of("program", (0, 1), "left", p=0.9)])
    if before == "a decision":
        collection.decide(Decision("p-ignored", "program"))
    Path("judge.py").write_text(JUDGE)
    done("label", "c", "--judge", "python judge.py", "--as", "program", "--number", "3")
    kinds = {"nothing": "measurement", "a decision": "ignored"}
    expected = {"program": kinds[before]} if before in kinds else {}
    assert collection.study().probabilities == expected
    session = LabellingService(collection).session
    measured = session.history.answers(session.events).is_measured
    assert measured.tolist() == [before == "nothing"] * len(measured)


def test_what_p_of_a_model_counts_as_is_decided_once(collection):
    collection.annotator("model")
    collection.append([Judgement.of("model", (0, 1), "left", p=0.9)])
    collection.decide(Decision("model", "model"))
    decide = "annotators", "probabilities", "c", "model", "share"
    assert "model: p is a share of votes in c" in done(*decide)
    assert "the p of annotator 'model' is a share of votes already" in fault(*decide)


def test_imports_are_shares_unless_told(collection):
    Path("votes.csv").write_text(VOTES)
    done("judgements", "import", "c", "votes.csv")
    assert collection.study().probabilities == {}
    for kind in ("measurement", "measurement", "share"):
        done("judgements", "import", "c", "votes.csv", "--probabilities", kind)
        assert collection.study().probabilities == {"ana": kind, "ben": kind}


def test_a_model_may_be_asked_for_no_log_probabilities(collection):
    with serving(Model(lambda text: float(text.split()[-1]))) as url:
        asked = "label", "c", "--model", "judge", "--server", url, "--number", "3"
        done(*asked, *judge_file(logprobs=False))
    assert [judgement.p for judgement in collection.judgements()] == [None] * 3


@pytest.mark.parametrize(
    ("message", "finish", "why"),
    [
        ({"refusal": "I cannot judge persons."}, "stop", "I cannot judge persons."),
        ({"content": ""}, "content_filter", "content_filter"),
        ({}, None, "the model ended without an answer: no reason was given"),
    ],
)
def test_a_skip_of_a_model_keeps_its_reason(message, finish, why):
    choice = {"message": message, "finish_reason": finish}
    answer = HttpAnswer(200, {}, json.dumps({"choices": [choice]}).encode())
    worker = ModelWorker(Server("http://localhost:1", "judge", None, 1.0, 1.0, Budget()), 0)
    worker.server.client = SimpleNamespace(post=lambda body: answer)
    pair = {"left": {}, "right": {}, "messages": [{"role": "user", "content": "A or B?"}]}
    (verdict,) = worker.ask([pair])
    assert (verdict.answer, verdict.comment) == ("skip", why)


@pytest.mark.parametrize(("value", "why"), [(None, "None"), (float("nan"), "NaN")])
def test_a_skip_of_a_function_keeps_its_reason(value, why):
    verdict = verdict_of_value(value)
    assert (verdict.answer, verdict.comment) == ("skip", f"the function returned {why}")
