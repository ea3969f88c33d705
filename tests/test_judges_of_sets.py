"""Programs, functions and language models that are asked about more than two items."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import done, fault, invoke, judge_file
from forked_processes import ForkedScript
from language_model_server import ITEM, Model, serving
from result_helpers import value_of

import sortnet
from sortnet.errors import SortNetError
from sortnet.judges.asked_question import PLACES
from sortnet.judges.function import verdict_on_set
from sortnet.judges.verdicts import Fault, Refused, parse_verdict
from sortnet.preference import Judgement
from store import open_store
from store.asking.machine import EndReason

N = 12
TEXTS = [f"text number {k}" for k in range(N)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with a study of fours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    monkeypatch.delenv("SORTNET_KEY", raising=False)
    rows = ["id,text", *(f"t{k},{text}" for k, text in enumerate(TEXTS))]
    Path("t.csv").write_text("\n".join(rows) + "\n")
    done("items", "add", "c", "t.csv")
    done("ask", "c", "--set-size", 4)
    return tmp_path


def score(text: str) -> int:
    return int(text.split()[-1])


def model(**named) -> Model:
    return Model(score, **named)


def judgements(store: str = "s.db", name: str = "c") -> list[Judgement]:
    with open_store(store) as opened:
        return list(opened.collection(name).judgements())


def assert_right(answers: list[Judgement], *, worst: bool = True) -> None:
    """The best and worst are those of the highest and the lowest number."""
    for one in answers:
        if len(one.items) == 2:
            assert one.word == ("left" if one.left > one.right else "right")
            continue
        assert (one.word, one.best) == ("best", max(one.items))
        assert one.worst == (min(one.items) if worst else None)


def label(url: str, *args: object) -> dict:
    common = ("label", "c", "--model", "judge", "--server", url, "--json")
    (row,) = value_of(done(*common, *args), "labelled")
    return row


# Language models.


def test_a_model_is_asked_about_four_and_its_answers_are_sets():
    asked = model()
    with serving(asked) as url:
        facts = label(url, "--number", 15)
    assert facts["answered"] == 15 == len(asked.prompts)
    answers = judgements()
    assert_right(answers)
    sets = [one for one in answers if len(one.items) > 2]
    assert len(sets) > 8 and 4 in {len(one.items) for one in sets} <= {3, 4}
    for one in sets:
        meta = json.loads(one.meta)
        assert one.p is None and one.comment is None
        assert meta["letters"]["best"][PLACES[one.items.index(one.best)]] == 0.75
        assert set(meta["letters"]) == {"best", "worst"}
    with_four = [prompt for prompt in asked.prompts if "<C>" in prompt]
    assert all('"Worst: "' in prompt for prompt in with_four)


def test_without_the_worst_only_the_best_is_asked_for_and_kept():
    done("ask", "c", "--no-worst")
    asked = model(logprobs=False)
    with serving(asked) as url:
        label(url, "--number", 8)
    assert_right(judgements(), worst=False)
    assert not any("Worst" in prompt for prompt in asked.prompts)
    assert all("letters" not in json.loads(one.meta) for one in judgements())


def test_a_ranking_is_read_and_kept_as_the_comment():
    asked = model(logprobs=False, said=lambda text: ranking(asked.prompts[-1], text))
    with serving(asked) as url:
        label(url, "--number", 8)
    sets = [one for one in judgements() if len(one.items) > 2]
    assert_right(judgements())
    assert sets and all(re.fullmatch(r"[A-D]( > [A-D]){2,3}", one.comment) for one in sets)


def ranking(prompt: str, text: str) -> str:
    items = ITEM.findall(prompt)
    if len(items) == 2:
        return text
    return " > ".join(place for place, _ in sorted(items, key=lambda item: -score(item[1])))


@pytest.mark.parametrize("text", ["Best: A\nWorst: A", "Best: E\nWorst: A", "I like them all."])
def test_an_unreadable_answer_is_asked_once_more_then_skipped_with_its_reason(text):
    bodies = []
    asked = model(said=lambda lines: text if "Worst" in lines else lines)
    reply = asked.reply
    asked.reply = lambda body, headers: bodies.append(body) or reply(body, headers)  # type: ignore
    with serving(asked) as url:
        label(url, "--number", 6)
    sets = [one for one in judgements() if len(one.items) > 2]
    assert sets
    for one in sets:
        assert (one.word, one.comment, one.best) == ("skip", text, None)
        assert json.loads(one.meta)["calls"] == 2
    again = [body["messages"][-1]["content"] for body in bodies if len(body["messages"]) == 3]
    assert len(again) == len(sets) and all(
        re.search('"Best: A" and "Worst: [CD]"', said) for said in again
    )


def test_by_schema_letters_of_the_places_are_asked_for():
    bodies = []
    asked = model(said=lambda lines: as_json(lines))
    reply = asked.reply
    asked.reply = lambda body, headers: bodies.append(body) or reply(body, headers)  # type: ignore
    with serving(asked) as url:
        label(url, "--number", 8, *judge_file(structured=True))
    assert_right(judgements())
    for body in bodies:
        places = [place for place, _ in ITEM.findall(body["messages"][0]["content"])]
        schema = body["response_format"]["json_schema"]["schema"]
        if len(places) == 2:
            assert schema["properties"]["answer"]["enum"] == ["A", "B", "C"]
            continue
        assert schema["properties"]["best"]["enum"] == [*places, "same"]
        assert schema["properties"]["worst"]["enum"] == places
        assert schema["required"] == ["best", "worst"]
    sets = [one for one in judgements() if len(one.items) > 2]
    assert all(json.loads(one.meta)["structured"] and one.comment is None for one in sets)


def as_json(lines: str) -> str:
    named = re.findall(r"(\w+): ([A-F])", lines)
    if not named:
        return json.dumps({"answer": lines})
    return json.dumps({name.lower(): letter for name, letter in named})


def test_both_orders_ask_a_set_in_the_reverse_order_of_places():
    asked = model()
    with serving(asked) as url:
        label(url, "--number", 6, "--both-orders")
    answers = judgements()
    assert_right(answers)
    assert len(answers) == 12 == len(asked.prompts)
    for first, second in zip(answers[::2], answers[1::2], strict=True):
        assert second.items == first.items[::-1]


def test_a_prompt_of_ones_own_without_items_is_refused_and_one_with_items_is_asked():
    columns = "{% for name, value in left.shown.items() %}{{ name }}{% endfor %}"
    Path("two.jinja").write_text(columns + "{{ left.text }} or {{ right.text }}?")
    asked = model()
    with serving(asked) as url:
        options = ("--model", "judge", "--prompt", "two.jinja")
        for more in (
            ("--number", 3, "--server", url),
            ("--write-batch", "b.jsonl"),
            ("--dry-run", "--server", url),
        ):
            message = fault("label", "c", *options, *more)
            assert "answers about two items, not about 4: list {{ items }} in prompt" in message
            assert len(message.strip().splitlines()) == 1
        assert not asked.prompts and not judgements()
        Path("any.jinja").write_text(
            "{% for item in items %}<{{ item.place }}>\n{{ item.text }}\n</{{ item.place }}>\n"
            "{% endfor %}{% if worst %}Worst: and {% endif %}Best: of {{ items | length }}?"
        )
        label(url, "--number", 8, "--prompt", "any.jinja")
    assert_right(judgements())
    assert {prompt[-5:] for prompt in asked.prompts} <= {"of 4?", "of 3?", "of 2?"}
    assert any(len(one.items) > 2 for one in judgements())


def test_the_prompt_and_the_estimate_are_of_sets():
    command = ("label", "c", *judge_file(), "--dry-run", "--number", 10, "--json")
    (four,) = value_of(done(*command), "dry_run")
    prompt = four["question"]
    assert [place for place, _ in ITEM.findall(prompt)] == [*"ABCD"]
    assert prompt.endswith(
        'Answer with two lines, "Best: " and the letter of the best of them, then "Worst: " and '
        'the letter of the worst. Answer "Best: same" if all are equally good.'
    )
    done("ask", "c", "--set-size", 2)
    (two,) = value_of(done(*command), "dry_run")
    assert four["planned"]["calls"] == two["planned"]["calls"] == 10
    assert four["planned"]["tokens_in"] > two["planned"]["tokens_in"]
    assert four["planned"]["tokens_out"] == 100


def test_a_batch_has_questions_about_sets_and_takes_their_answers():
    options = ("--write-batch", "b.jsonl", "--number", 12, "--json")
    batch = value_of(done("label", "c", "--model", "judge", *options), "batch")
    lines = [json.loads(line) for line in Path("b.jsonl").read_text().splitlines()]
    assert batch["questions"] == len(lines) == 12
    done("ask", "c", "--no-worst")  # what was asked before stays as it was
    by, answers = model(), []
    for k, line in enumerate(lines):
        body = by.answer(line["body"]["messages"][0]["content"], wants=True)
        if k == 0:
            body["choices"][0] = {"message": {"content": "Best: A\nWorst: A"}}
        response = {"status_code": 200, "body": body}
        answers.append({"custom_id": line["custom_id"], "response": response, "error": None})
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in answers))
    facts = value_of(done("label", "c", "--read-batch", "a.jsonl", "--json"), "batch_answers")
    assert (facts["stored"], facts["failed"], facts["open"]) == (12, 0, {})
    skips = [one for one in judgements() if one.word == "skip"]
    assert [one.comment for one in skips] == ["Best: A\nWorst: A"] * len(skips) and len(skips) <= 1
    assert_right([one for one in judgements() if one.word != "skip"])
    sets = [one for one in judgements() if len(one.items) > 2]
    assert len(sets) > 6
    assert len({frozenset(one.items) for one in sets}) == len(sets)


KILLED = """
import sys, sortnet
judge = sortnet.LanguageModel("judge", server=sys.argv[1], workers=2)
texts = [f"text number {k}" for k in range(12)]
sortnet.sort(texts, judge=judge, set_size=4, store="k.db", name="k", max_calls=18, progress=False)
"""


@pytest.mark.slow
def test_a_killed_process_is_gone_on_with_and_nothing_is_asked_twice_or_lost():
    asked = model()
    processes: list[ForkedScript] = []

    def kill(body):
        processes[-1].send_signal(signal.SIGKILL)
        processes[-1].wait()
        return asked.reply(body, {})

    with serving(asked) as url:
        for killed_at in (7, 5, None):
            if killed_at is not None:
                asked.faults = [None] * killed_at + [kill]
            process = ForkedScript(KILLED, url)
            processes.append(process)
            process.communicate()
    assert [process.returncode for process in processes] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    answers = judgements("k.db", "k")
    assert_right(answers)
    assert sum(len(one.items) > 2 for one in answers) > 10
    # Two workers: at a kill at most two calls were under way, whose answers nobody had.
    assert len(answers) <= len(asked.prompts) <= len(answers) + 2 * 3
    repeats = sum(one.strategy == "repeat" for one in answers)
    of_sets = Counter(frozenset(one.items) for one in answers)
    assert sum(of_sets.values()) - len(of_sets) == repeats
    with open_store("k.db") as store:
        assert store.collection("k").leases() == []


# Programs.

PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(answer(asked)), flush=True)
"""
BY_SCORE = """
def score(item):
    return int(item["text"].split()[-1])
def answer(q):
    with open("asked.jsonl", "a") as file:
        file.write(json.dumps(q) + "\\n")
    if "left" in q:
        return {"answer": "left" if score(q["left"]) > score(q["right"]) else "right"}
    order = sorted(q["items"], key=score)
    return {"id": q["id"], "best": order[-1]["place"], "worst": order[0]["place"], "comment": "so"}
"""


def program(code: str = BY_SCORE) -> str:
    Path("judge.py").write_text(f"import json\n{code}{PROGRAM}")
    return f"{shlex.quote(sys.executable)} -S -E judge.py"


def test_a_program_reads_items_with_places_and_names_two():
    (facts,) = value_of(
        done("label", "c", "--as", "tool", "--judge", program(), "--number", 12, "--json"),
        "labelled",
    )
    assert facts["answered"] == 12
    assert_right(judgements())
    asked = [json.loads(line) for line in Path("asked.jsonl").read_text().splitlines()]
    of_sets = [line for line in asked if "items" in line]
    assert len(of_sets) == sum(len(one.items) > 2 for one in judgements()) > 6
    assert of_sets == asked  # all questions of a study have one size
    for line in of_sets:
        assert "".join(item["place"] for item in line["items"]) in ("ABC", "ABCD")
        assert line["worst"] is True
        assert {"place", "id", "text"} <= {*line["items"][0]}
    assert all(one.comment == "so" for one in judgements() if len(one.items) > 2)


def test_a_program_gets_pairs_and_sets_in_one_array():
    code = BY_SCORE.replace("def answer(q)", "def one(q)") + (
        "def answer(many):\n    return [one(q) for q in many]\n"
    )
    command = program(code)
    done("label", "c", "--as", "tool", *judge_file(command=command, batch=3), "--number", 9)
    assert len(judgements()) == 9
    assert_right(judgements())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"best": "A", "worst": "A"}, "its best is its worst, too"),
        ({"best": "A", "worst": "E"}, "its worst is none of the places A, B, C, D"),
        ({"best": "AB", "worst": "C"}, "its best is none of the places"),
        ({"best": 1, "worst": "C"}, "its best is none of the places"),
        ({"best": True, "worst": "C"}, "its best is none of the places"),
        ({"best": "", "worst": "C"}, "its best is none of the places"),
        ({"best": "A"}, "its worst is none of the places"),
        ({"worst": "A"}, "its best is none of the places"),
        ({}, "its best is none of the places"),
        ({"answer": "left"}, "not one of same, skip, cant-say, nor does it name the best and the"),
        ({"answer": "tie"}, "not one of same, skip, cant-say"),
        ({"answer": ["same"]}, "not one of same, skip, cant-say"),
        ({"answer": "same", "best": "A"}, "names a best or a worst"),
        ({"best": "A", "worst": "B", "p": 0.7}, "a p is for two items"),
    ],
)
def test_an_answer_of_a_program_that_names_no_two_places_is_a_fault(said, why):
    with pytest.raises(Fault, match=why) as error:
        parse_verdict(said, "...", 4, worst=True)
    assert len(str(error.value).splitlines()) == 1


def test_answers_of_a_program_about_sets():
    verdict = parse_verdict({"best": "D", "worst": "A", "cost": 2}, "...", 4, worst=True)
    assert (verdict.answer, verdict.best, verdict.worst, verdict.cost) == ("best", 3, 0, 2.0)
    alone = parse_verdict({"answer": "best", "best": "B", "worst": "B"}, "...", 4, worst=False)
    assert (alone.best, alone.worst) == (1, None)
    for answer in ("same", "skip", "cant-say"):
        assert parse_verdict({"answer": answer}, "...", 4, worst=True).answer == answer
    assert parse_verdict({"retry_after": 2}, "...", 4, worst=True) == 2.0


def test_a_program_that_answers_pairs_only_is_given_up_and_stores_nothing_about_sets():
    code = 'def answer(q):\n    return {"answer": "left"}\n'
    run = invoke("label", "c", "--as", "tool", "--judge", program(code))
    assert run.exit_code == 1
    assert "not one of same, skip, cant-say" in run.stderr
    assert not any(one.word == "best" for one in judgements())
    with open_store("s.db") as store:
        assert store.collection("c").leases() == []


def test_a_program_that_ends_at_a_question_about_four_is_told_what_its_line_has():
    code = 'def answer(q):\n    return {"answer": q["left"] and "left"}\n'
    run = invoke("label", "c", "--as", "tool", "--judge", program(code))
    assert run.exit_code == 1
    assert (
        "KeyError: 'left'; it was asked about 4 items, so that its line has items in place of left "
        "and right: read items, or set the size to 2"
    ) in run.stderr
    done("ask", "c", "--set-size", 2)
    run = invoke("label", "c", "--as", "tool", "--judge", program("def answer(q): boom\n"))
    assert "NameError" in run.stderr and "read items" not in run.stderr


# Functions.


def by_number(*items: str) -> object:
    scores = [score(item) for item in items]
    return scores.index(max(scores)), scores.index(min(scores))


@pytest.mark.slow
def test_a_function_of_items_sorts_by_sets():
    calls: list[tuple[str, ...]] = []

    def judge(*items: str) -> object:
        calls.append(items)
        return by_number(*items)

    named = {"set_size": 4, "top": 3, "store": "f.db", "name": "f", "progress": False}
    found = sortnet.sort(TEXTS, judge=judge, **named)
    assert found.items[:3] == TEXTS[:-4:-1]
    assert found.reason in (EndReason.GOAL, EndReason.NOTHING_LEFT)  # of twelve items
    assert_right(judgements("f.db", "f"))
    assert {len(items) for items in calls} == {4}
    n_calls = len(calls)
    again = sortnet.sort(TEXTS, judge=judge, **named)
    assert again.answered == 0 and len(calls) == n_calls


def test_a_function_that_names_the_best_alone_is_kept_so():
    def judge(*items: str) -> object:
        answer = by_number(*items)
        return answer[0] if isinstance(answer, tuple) else answer

    sortnet.sort(TEXTS, judge=judge, set_size=3, max_calls=8, store="f.db", name="f")
    assert_right(judgements("f.db", "f"), worst=False)


@pytest.mark.parametrize("set_size", [2, 4])
def test_the_number_of_a_place_means_the_same_about_two_items(set_size, caplog):
    def judge(*items: str) -> int:
        return max(range(len(items)), key=lambda place: score(items[place]))

    found = sortnet.sort(
        TEXTS, judge=judge, set_size=set_size, max_calls=16, store="f.db", name="f", progress=False
    )
    assert found.answered == 16
    assert_right(judgements("f.db", "f"), worst=False)
    # Version 0.4 read the number about two items as a probability.
    assert ("0 is the left one, 1 the right one" in caplog.text) == (set_size == 2)


def test_a_function_that_fails_in_between_is_asked_other_questions():
    calls: Counter[tuple[str, ...]] = Counter()

    def judge(*items: str) -> object:
        if sum(calls.values()) in (5, 6):
            calls["failed",] += 1
            raise RuntimeError("no")
        calls[tuple(sorted(items))] += 1
        return by_number(*items)

    named = {"set_size": 4, "max_calls": 14, "store": "f.db", "name": "f", "progress": False}
    sorted_items = sortnet.sort(TEXTS, judge=judge, **named)
    answers = [one for one in judgements("f.db", "f") if one.word != "skip"]
    assert [one.skipped for one in sorted_items.by.values()] == [{"error": 2}]
    assert len(answers) == sum(calls.values()) - calls["failed",] > 5
    assert_right(answers)


@pytest.mark.parametrize(
    "value", [True, np.True_, 4, -1, (0, 0), (0, 4), (0, 1, 2), (), (True, 0), [0, 1], "left", 0.5]
)
def test_what_is_no_answer_about_four_is_refused(value):
    with pytest.raises(Refused, match="of 4 items it may return the number of the best, 0 to 3"):
        verdict_on_set(value, 4)


def test_answers_of_a_function_about_four():
    assert verdict_on_set(np.int64(3), 4).best == 3
    assert verdict_on_set((3, 0), 4).worst == 0
    assert verdict_on_set((3, 0), 4, worst=False).worst is None
    assert verdict_on_set((2,), 4).best == 2
    assert verdict_on_set(None, 4).comment == "the function returned None"
    assert [verdict_on_set(word, 4).answer for word in ("same", "skip")] == ["same", "skip"]


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (lambda left, right: "left", "answers about two items, not about 4: set the size to 2"),
        (lambda a, b, c, d: 0, "that two items cannot be passed to"),
    ],
)
def test_a_function_that_cannot_be_called_with_four_is_refused_at_once(judge, why):
    with pytest.raises(SortNetError, match=why):
        sortnet.sort(TEXTS, judge=judge, set_size=4, store="f.db")
    assert not Path("f.db").exists()


def test_an_estimate_refuses_what_sort_refuses_and_shows_a_prompt_of_four():
    with pytest.raises(SortNetError, match="answers about two items, not about 4"):
        sortnet.estimate(TEXTS, judge=lambda left, right: "left", set_size=4)
    judge = sortnet.LanguageModel("judge", server="http://127.0.0.1:9")
    expected = sortnet.estimate(TEXTS, judge=judge, set_size=4, max_calls=5)
    assert [place for place, _ in ITEM.findall(expected.prompt)] == [*"ABCD"]
    assert expected.calls["judge"].tokens_out == 10 * expected.calls["judge"].calls


def test_a_function_with_defaults_can_be_called_with_four():
    def judge(a: str, b: str, c: str | None = None, d: str | None = None) -> object:
        if c is None:  # about two items it answers as any function of two
            return "left" if score(a) > score(b) else "right"
        return by_number(*(text for text in (a, b, c, d) if text is not None))

    found = sortnet.sort(TEXTS, judge=judge, set_size=4, max_calls=4, store="f.db")
    assert found.answered_in_all == 4
