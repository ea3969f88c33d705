"""What the probabilities of an annotator are: decided, stored, and told by commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_helpers import done, fault, invoke, judge_file
from collection_helpers import made_items
from hypothesis import given
from hypothesis import strategies as st
from language_model_server import Model, serving

from sortnet.errors import StudyError
from sortnet.judges.budget import Budget
from sortnet.judges.function import verdict_of_value
from sortnet.judges.http_client import HttpAnswer
from sortnet.judges.model_server import Server
from sortnet.judges.model_worker import ModelWorker
from sortnet.preference import Judgement
from sortnet.preference.base import PROBABILITIES
from sortnet.preference.study import Decision, check_decision, last_decisions, study_of
from store import open_store
from store.service.labelling import LabellingService

N = 6
VOTES = "left,right,answer,annotator,p\n" + "".join(
    f"i{i},i{j},left,{who},{p}\n"
    for who in ("ana", "ben")
    for i, j, p in ((0, 1, 0.8), (1, 2, 0.7), (2, 3, 0.6))
)
JUDGE = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    p = 0.8 if pair["left"]["id"] < pair["right"]["id"] else 0.3
    print(json.dumps({"id": pair["id"], "p": p}), flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        store.add_items("c", made_items(N, d=0))
    Path("judge.py").write_text(JUDGE)
    Path("votes.csv").write_text(VOTES)
    return tmp_path


def probabilities() -> dict[str, str]:
    with open_store("s.db") as store:
        return dict(store.collection("c").study().probabilities)


@given(st.lists(st.tuples(st.sampled_from(["ana", "ben"]), st.sampled_from(PROBABILITIES))))
def test_the_last_decision_on_each_annotator_holds(decided):
    decisions = [Decision(f"p-{kind}", who) for who, kind in decided]
    study = study_of(decisions)
    assert study.probabilities == dict(decided)
    for who, kind in dict(decided).items():
        with pytest.raises(StudyError, match="already"):
            check_decision(
                last_decisions(decisions), Decision(f"p-{kind}", who), f"annotator {who!r}"
            )
    assert study.asks_alike(study_of([])) == (not decided)


def test_a_program_begins_with_measurements():
    done("label", "c", "--judge", "python judge.py", "--as", "program", "--number", "3")
    assert probabilities() == {"program": "measurement"}
    with open_store("s.db") as store:
        session = LabellingService(store.collection("c")).session
        assert session._history.answers(session.events).is_measured.all()


def test_who_has_answered_before_keeps_shares_until_told():
    with open_store("s.db") as store:
        collection = store.collection("c")
        collection.annotator("program")
        collection.append([Judgement.of("program", (0, 1), "left", p=0.9)])
    done("label", "c", "--judge", "python judge.py", "--as", "program", "--number", "3")
    assert probabilities() == {}
    told = done("annotators", "probabilities", "c", "program", "measurement")
    assert "program: p is a measurement in c" in told
    assert probabilities() == {"program": "measurement"}
    again = fault("annotators", "probabilities", "c", "program", "measurement")
    assert "the p of annotator 'program' is a measurement already" in again


def test_a_ranking_of_before_says_that_it_was_computed_again_until_somebody_decides():
    with open_store("s.db") as store:
        collection = store.collection("c")
        for name in ("model", "ana"):
            collection.annotator(name)
        collection.append(
            [Judgement.of("model", (0, 1), "left", p=0.9), Judgement.of("ana", (1, 2), "left")]
        )
        collection.decide(Decision("model", "model"))
    told = "p of model still counts as a share of votes"
    assert told in invoke("ranking", "c").stderr
    done("annotators", "probabilities", "c", "model", "share")
    assert told not in invoke("ranking", "c").stderr


def test_what_was_decided_before_a_run_stays():
    with open_store("s.db") as store:
        collection = store.collection("c")
        collection.annotator("program")
        collection.decide(Decision("p-ignored", "program"))
    done("label", "c", "--judge", "python judge.py", "--as", "program", "--number", "3")
    assert probabilities() == {"program": "ignored"}


def test_imports_are_shares_unless_told():
    done("judgements", "import", "c", "votes.csv")
    assert probabilities() == {}
    done("judgements", "import", "c", "votes.csv", "--probabilities", "measurement")
    assert probabilities() == {"ana": "measurement", "ben": "measurement"}
    done("judgements", "import", "c", "votes.csv", "--probabilities", "measurement")
    done("judgements", "import", "c", "votes.csv", "--probabilities", "share")
    assert probabilities() == {"ana": "share", "ben": "share"}


def test_a_model_is_asked_for_no_log_probabilities():
    model = Model(lambda text: float(text.split()[-1]))
    with serving(model) as url:
        told = "label", "c", "--model", "judge", "--server", url
        done(*told, "--number", "3", *judge_file(logprobs=False))
        with open_store("s.db") as store:
            assert {judgement.p for judgement in store.collection("c").judgements()} == {None}
        done(*told, "--as", "other", "--number", "3")
        with open_store("s.db") as store:
            other = [j for j in store.collection("c").judgements() if j.annotator == "other"]
            assert None not in {judgement.p for judgement in other}


@pytest.mark.parametrize(
    ("message", "finish", "why"),
    [
        ({"refusal": "I cannot judge persons."}, "stop", "I cannot judge persons."),
        ({"content": ""}, "content_filter", "content_filter"),
        ({}, None, "the model answered without a text: no reason was given"),
    ],
)
def test_a_skip_of_a_model_keeps_its_reason(message, finish, why):
    choice = {"message": message, "finish_reason": finish}
    body = json.dumps({"choices": [choice]}).encode()
    worker = ModelWorker(Server("http://localhost:1", "judge", None, 1.0, 1.0, Budget()), 0)
    worker.server.client = Answers(body)
    pair = {"left": {}, "right": {}, "messages": [{"role": "user", "content": "A or B?"}]}
    (verdict,) = worker.ask([pair])
    assert (verdict.answer, verdict.comment) == ("skip", why)


@dataclass
class Answers:
    """Connections on which each call gets the same answer."""

    body: bytes

    def post(self, body: object) -> HttpAnswer:
        return HttpAnswer(200, {}, self.body)


@pytest.mark.parametrize(("value", "why"), [(None, "None"), (float("nan"), "NaN")])
def test_a_skip_of_a_function_keeps_its_reason(value, why):
    verdict = verdict_of_value(value)
    assert verdict.answer == "skip"
    assert verdict.comment == f"the function returned {why}"
