"""What is read in answers of models: content with thoughts, parts, JSON, prose, probabilities."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortnet.judges.asked_question import PLACES
from sortnet.judges.parse_choice import SAME, read_choice, read_phrase

CASES = Path(__file__).parents[2] / "shared" / "cases"  # not part of the project


def read(content: object, n_items: int = 2, *, worst: bool = False, finish: str = "stop", **fields):
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return read_choice(choice | fields, n_items, worst=worst)


TWO = {
    "A": (
        "A", " a ", "A.", "**A**", "`A`", "(a)", "[A]", "A)", '"A"', "> A", "# A", "- A", "Ａ", "𝐀",
        "Answer: A", "answer:a", "ANSWER - A", "**Answer:** A", "The answer is A.", "Answer = A",
        "Final verdict: A", "Winner: Option A", "Choice: **A**.", "Response A", "Text A", "Item 1",
        "Option 1.", "first", "The first.", "The first one", "left", "Left.", "the left one", "1st",
        "So A", "so, A.", "Therefore, A.", "So A is better.", "So the answer is A.",
        "A is better", "A is better.", "I choose A.", "I would go with A", "A wins.",
        "The better text is A.", "The winner is clear: A", "[[A]]", r"\boxed{A}",
        r"\boxed{\text{A}}",
        r"The answer is $\boxed{\textbf{A}}$.", "### Answer\nA", "### Answer\n\n**Option A**",
        "Answer:\nA", "```\nA\n```", "<answer>A</answer>", "<answer>\nA\n</answer>",
        "| Winner | A |", "A\n\nIt has more words than B.", "A. It is funnier than B.",
        "A, because it is longer.", "A since it is longer", "A. It has the larger number.",
        "B is short.\nA is long.\n\nA", "A: 9 words\nB: 5 words\nSo A", "B: 5\nA: 9\n**Answer: A**",
        "Length: B\nClarity: A\n\nVerdict: A", "Winner: A\nLoser: B", "First sight: B\nAnswer: A",
        "Answer: B\nI was wrong, let me count again.\nAnswer: A",
        "Text A:\nCrisp.\n\nText B:\nDull.\n\nA", "**Text A**\nOk.\n**Text B**\nNo.\n**Answer: A**",
        "At first B. Counting again gives more for A.\n\nAnswer: A", "Answer: A - it is longer",
        "Answer: A (the longer one)", "Answer: A, since it is longer.", "[[B]]? No.\n\n[[A]]",
        "A\n\n-- the judge", "✅ A",
        '{"answer": "A"}', '{"Answer": "a"}', '{"answer": "Option A"}', '{"answer": "left"}',
        '```json\n{"answer": "A"}\n```', 'Here it is:\n{"answer": "A"}', "{'answer': 'A'}",
        '{"reason": "B is short {so", "answer": "A"}', '{"result": {"answer": "A"}}',
        '{"answer": "A"}\n{"answer": "A"}', '{"answer": "A"}\n\nIt is longer.', '[{"answer": "A"}]',
        '{\n  "answer":  "A"\n}', "answer: A\nreason: it is longer", "B or A? A.",
        "Let me think.\nA",
        "A is better than B.", "**A** is better than **B**.", "I prefer text A over text B.",
        "A > B",
        "The first text is better than the second.", "A beats B", "A, not B.", "B < A", "[[A>>B]]",
        "I think A is better.", "In my opinion, A.", "Definitely A.", "It's A.", "the former",
        "B is longer, but A is better.", "B is dull, so A.", "While B is long, A is better.",
        "Between A and B, A is better.", "Overall, A is better.", "In conclusion, A is better.",
        "A, because B is not clear.", "__A__", "<output>A</output>", r"\text{A}", "A&gt;B",
        '{"winner": "A", "loser": "B"}', '{"reason": "B is worse", "final_choice": "A"}',
        "Clarity: A > B\nLength: B > A\nAnswer: A",
        "A\u200b", "\ufeffA", "A<|im_end|>", "<|begin_of_box|>A<|end_of_box|>", "A</s>",
    ),
    "B": (
        "B", "b", "Ｂ.", "second", "Second one", "Option two", "Text two is better.",
        "the second", "The second text.", "right",
        "Right.",
        "Item 2", "Answer: b", "答案：B", "【B】", "B。", "So b", "option b", "**Option B**",
        "A good text is short. B", "A better one is B.",
        "B is the better one, because it is longer.",
        "Die Antwort ist B.", "B ist besser als A.", "Je choisis B.", "B est meilleur que A.",
        "La respuesta es B.", "B лучше, чем A.", "Я выбираю B.", "答案是B", "所以答案是 B。",
        "B更好。", "我选择B。", "文本B更好", "答えは「B」です。", "Bのほうが良いです。",
    ),
    SAME: (
        "C", "c.", "Tie", "tie", "TIE.", "a tie", "A tie.", "It's a tie.", "It is a tie", "Equal",
        "equal.", "Equally good", "They are equally good.", "Both are equal.", "The same", "same",
        "A and B are equally good.", "Answer: C", "Answer: tie", "[[C]]", '{"answer": "C"}',
        '{"answer": "tie"}', "Verdict: Tie", "My answer is a tie", "So it is a tie.", "Draw",
        "Both texts are equally good.", "Option C", "A = B", "[[A=B]]", "C (tie)", "Tie: C",
        "identical", "Neither is better, so C.", "A tie between A and B.", "of equal quality",
        "Unentschieden", "Égalité", "平局", "引き分け", "Ничья",
    ),
    None: (
        "", " \n", "A or B", "a or b", "A and B", "A, B", "A/B", "A\nB", "B\n\nA\n", "- A\n- B",
        "A B",
        "A => B", "A <= B", "A ~ B", "not A", "Not B.", "not B but A", "A is not better.", "A?",
        "So B?",
        "It isn't A.", "I can't decide", "I cannot say.", "Neither", "neither", "Both", "either",
        "D",
        "A: 5 words\nB: 9 words", "A: short. B: long.", "A. Short and crisp.\nB. Long and dull.",
        "1. A\n2. B", "A) short\nB) long", "A - 5 words\nB - 9 words",
        "**A**\nCrisp.\n\n**B**\nDull.",
        "### A\nCrisp.\n### B\nDull.", "A good text is short.", "A text", "A longer text wins.",
        "A, on the other hand, is short.", "B is detailed. A, however, has mistakes.", "АB", "В",
        "Β",
        "[[A]] [[B]]", "[[A]]\n[[B]]", "Answer: A. Answer: B", "Answer: A\nAnswer: B", "A+",
        "~~A~~",
        "Output [[A]] if A is better, [[B]] if B is better, [[C]] for a tie.", "❌ A", "A ✗",
        "Length: A\nClarity: B", "Answer: A or B", "The answer is A or B", "Answer: A/B",
        "If length counts, the answer is A.", "The answer depends.", "Because", "Apple", "Best",
        '{"answer": "A"} {"answer": "B"}', '{"answer": null}', '{"answer": 1}',
        '{"answer": "A or B"}',
        '{"answer": "A", "answer": "B"}', '{"answer": ""}', '{"answer": "maybe"}', '{"winner": 1}',
        "Answer: A\nRunner: I mean that B is better.\nB is better.", "Loser: A", "Worse: B", "1",
        "2",
        "So A is short.", "so A, however, is short", "[ ] A\n[x] B", "the first and the second",
        "<A>\none\n</A>\n<B>\ntwo\n</B>", "</B>", "First, I count the words.", "Second, I compare.",
        "Both texts have merits; the first is short.", "Answer: A good one", "So far A",
        "c'est B ou A",
        "A, but it is too short.", "A, so short, is dull.", "A is longer, but B is clearer.",
        "A vs. B", "A is better than B in style.", "A is better than B. B is better than A.",
        "no B", "A is not better than B.", "Choosing A over B would be wrong.",
        "Is A better than B?", "If length counts, A is better than B.",
        "One could say A is better than B.", "A -> B",
        "<option>A</option>\n<option>B</option>", "I think A is good.", "Overall, A is short.",
        "Die Antwort ist nicht B.", "B n'est pas meilleur.", "B не лучше.",
        "Wenn Länge zählt, ist die Antwort B.", "不选B", "答案不是B", "答案是A还是B？", "B更差",
        "A和B都好", "Bではない",
        "A\n\nWait, actually B.", "A\nCorrection: B", "B\n\nNo: it's A.",
        "option one or option two",
        '{"answer": "A"}\n\nWait. The answer is B.', "A is better in style, B in content.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "choice"),
    [(text, choice) for choice, texts in TWO.items() for text in texts],
)
def test_the_choice_of_two_is_read_or_is_none(text, choice):
    found = read(text)
    assert found.best == choice
    assert bool(found.why_not) == (choice is None)
    assert found.text == text


THOUGHTS = (
    "<think>{}</think>", "<think>\n{}\n</think>\n\n", "{}\n</think>\n\n", "<THINK>{}</Think>\n",
    "<thinking>{}</thinking>", "<thought>{}</thought>", "<reasoning>{}</reasoning>\n",
    "<reflection>{}</reflection>", "<seed:think>{}</seed:think>", "<think type='deep'>{}</think>",
    "<think><think>{}</think>{}</think>", "<think>{}</think>A\n<think>{}</think>",
    "[THINK]{}[/THINK]",
    "<|begin_of_thought|>{}<|end_of_thought|>\n\n<|begin_of_solution|>\n", "◁think▷{}◁/think▷",
    "<unused94>thought\n{}<unused95>", "<|START_THINKING|>{}<|END_THINKING|><|START_RESPONSE|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>commentary<|message|>{}"
    "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    "analysisWe compare. {}assistantfinal", "<|channel>thought\n{}<channel|>", "<think/>",
    "Here is my thought process: {}\nHere is my response:\n", "< think >{}</ think >",
    "Here are my reasoning steps:\n{}\n[BEGIN FINAL RESPONSE]\n", "<antThinking>{}</antThinking>",
)  # fmt: skip
THOUGHT = "The quick answer: A. So A.\n\nA\n"


@pytest.mark.parametrize("marks", THOUGHTS)
@pytest.mark.parametrize(
    "answer", ["B", "\n\n**B**.", '{"answer": "B"}', "B<|return|>", "A: 5\nSo B"]
)
def test_what_stands_after_the_thoughts_counts(marks, answer):
    assert read(marks.replace("{}", THOUGHT) + answer).best == "B"


@pytest.mark.parametrize("marks", THOUGHTS[:1] + THOUGHTS[3:20])
def test_a_thought_without_an_end_is_no_answer_and_says_what_to_do(marks):
    content = marks.split("{}")[0] + THOUGHT
    if content == THOUGHT:
        return
    for finish in ("length", "max_tokens", "MAX_TOKENS", "stop"):
        found = read(content, finish=finish)
        assert found.best is None and "raise max_tokens" in found.why_not
        assert found.text == content


def test_an_answer_that_the_limit_cut_is_read_where_it_is_whole():
    for text in ("B", "**B**", '{"answer": "B"}\nIt is', '{"answer": "B", "reason": "it',
                 "Answer: B\n\nIt has", "B\n\nText A is",
                 "[[B]]\nSince A"):  # fmt: skip
        assert read(text, finish="length").best == "B", text
    for text in (
        "A: 5 words\nB: 9 words\nSo B",
        "So B.\nBut wait, A has",
        "A. Short\nB. Lo",
        "",
        "The answer is A or",
        "A is better",
        '{"answer": "B',
        "Let me see. A",
        "A good",
        "<réflexion>\nA\nB is",
        "<思考>\nA\nB 很",
    ):
        found = read(text, finish="length")
        assert found.best is None and "the token limit was reached" in found.why_not, text
    assert read("B. It is", finish="content_filter").best is None


@pytest.mark.parametrize(
    ("choice", "best", "why"),
    [
        ({"message": {"content": None}, "finish_reason": "stop"}, None, "without an answer: stop"),
        ({"message": {"content": None, "reasoning_content": "B", "reasoning": "B"}}, None,
        "without"),
        ({"message": {"content": "", "reasoning": "B"}, "finish_reason": "length"}, None,
        "inside the"),
        ({"message": {}, "finish_reason": "tool_calls"}, None, "without an answer: tool_calls"),
        ({"message": {"content": 7}}, None, "without an answer: no reason was given"),
        ({"message": {"content": "A", "refusal": "I do not judge."}}, None, "I do not judge."),
        ({"message": {"content": [{"type": "refusal", "refusal": "No."}]}}, None, "No."),
        ({"message": {"content": [{"type": "text", "text": "B"}]}}, "B", ""),
        ({"message": {"content": [{"type": "output_text", "text": "B"}]}}, "B", ""),
        ({"message": {"content": ["The answer is ", {"text": "B"}]}}, "B", ""),
        ({"message": {"content": [{"type": "text", "text": "It is not "}, "A."]}}, None, "no cho"),
        ({"message": {"content": [{"text": "A", "thought": True}, {"text": "B"}]}}, "B", ""),
        ({"message": {"content": [{"type": "redacted_thinking", "data": "A"}, {"text": "B"}]}},
        "B", ""),
        ({"message": {"content": [{"type": "reasoning", "text": "A"}, None, 3, {"text": "B"}]}},
        "B", ""),
        ({"message": {"content": [{"type": "thinking", "thinking": "A"}]}}, None,
        "without an answer"),
        ({"text": " B\n", "finish_reason": "stop"}, "B", ""),
        ({"message": "B"}, None, "without an answer"),
        ({}, None, "without an answer"),
    ],
)  # fmt: skip
def test_a_choice_of_a_server_has_a_content_or_a_reason(choice, best, why):
    found = read_choice(choice)
    assert found.best == best and why in found.why_not and bool(why) == bool(found.why_not)


FOUR = {
    ("B", "D"): (
        "Best: B\nWorst: D", "best: b\nworst: d", "Worst: D\nBest: B", "**Best:** B\n**Worst:** D",
        "Best: B, worst: D.", "Best: Item B\nWorst: Item D", "The best is B, and the worst is D.",
        "**Best:** B, since it names the cause.\n**Worst:** D, it says nothing.",
        "Best:\nB\n\nWorst:\nD",
        '{"best": "B", "worst": "D"}', '{"Best": "b", "WORST": "d"}',
        '```json\n{"best":"B","worst":"D"}\n```',
        "B > A > C > D", "D < C < A < B", "**B** > **A** > **C** > **D**", "b > a > c > d",
        "B &gt; A &gt; C &gt; D",
        "1. B\n2. A\n3. C\n4. D", "Ranking: B, A, C, D", "Worst to best: D, C, A, B", "B\nD",
        "B, D",
        "Worst to best:\n1. D\n2. C\n3. A\n4. B", '["B", "A", "C", "D"]',
        "Item B > Item A > Item C > Item D",
        "B is the best, D is the worst.", "B is best and D is worst",
        "A is dull, C odd.\n\nBest: B\nWorst: D",
        "Best = B, Worst = D", "| Best | B |\n| Worst | D |", "### Best\nB\n### Worst\nD",
        "My ranking:\nB\nA\nC\nD\nThat is all.",
        "<think>Best: A\nWorst: B</think>Best: B\nWorst: D", "Ｂest: Ｂ\nＷorst: Ｄ",
        "B (best), D (worst)", "1. B (best)\n2. A\n3. C\n4. D (worst)", "Best → B\nWorst → D",
        "Beste: B\nSchlechteste: D", "Meilleur : B\nPire : D", "最好：B\n最差：D",
        "Лучший: B\nХудший: D", "Winner: B\nLoser: D",
        "Second best: C\nBest: B\nWorst: D", "Best: B\n2nd best: A\n3rd best: C\nWorst: D",
    ),
    (SAME, None): (
        "Best: same", "same", '{"best": "same", "worst": "A"}', "**Best: same**",
        "All are equally good.", "All four texts are equally good.",
        "Best: same\nWorst: same", "All items are equal.",
    ),
    (None, None): (
        "", "I cannot say.", "Best: B", "Worst: D", "Best: B\nWorst: B", "Best: E\nWorst: A",
        "Best: B or C\nWorst: D",
        "Best: B\nWorst: C or D", "A: short. B: long. C: dull. D: odd.", "A = B > C > D",
        "A > B > C", "A > B", "B/D", "B",
        "Best: B\nWorst: D\n\nActually, best is C.", "Best: B\nWorst: D\n\nNo, worst is A",
        "Best: B\n\nWait, no. Best: C\nWorst: D",
        "Best: A\nWorst: B\nBest: C\nWorst: D", "A > B > C > D\nD > C > B > A",
        "Best: A good text\nWorst: D",
        '{"best": "B"}', '{"best": "B", "worst": "B"}', '{"best": "B", "worst": "same"}',
        '{"best": 1, "worst": 2}',
        "I looked at A, B, C, D and cannot choose.", "Not the best: B\nWorst: D",
        "Best: B\nWorst: same",
        "1. A: five words\n2. B: nine words\n3. C: two words\n4. D: one word",
        "<think>Best: B\nWorst: D",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "best", "worst"),
    [(text, *choices) for choices, texts in FOUR.items() for text in texts],
)
def test_the_best_and_the_worst_of_four_are_read_or_are_none(text, best, worst):
    found = read(text, 4, worst=True)
    assert (found.best, found.worst) == (best, worst)
    assert bool(found.why_not) == (best is None)


def test_the_best_of_four_alone():
    for text in (
        "Best: C",
        "C",
        "C.",
        "Answer: C",
        "C > A > B > D",
        "**C**",
        "[[C]]",
        "So C",
        "best: c",
        '{"best": "C"}',
        "C is the best.",
        "Best: C\nWorst: D",
        "<think>A</think>\nOption C",
    ):
        found = read(text, 4)
        assert (found.best, found.worst) == ("C", None), text
    for text in ("A or C", "G", "Best: E", "", "1", "first", "Best: not C", "A\nC"):
        assert read(text, 4).best is None, text
    assert read("Best: same", 4).best == SAME


def tops(**p: float) -> list[dict]:
    return [{"token": text, "logprob": math.log(share)} for text, share in p.items()]


def tokens(*texts: str, at: int = -1, **p: float) -> dict:
    """Log-probabilities of tokens; those of the token at a place have alternatives."""
    content = [{"token": text, "logprob": -0.1, "top_logprobs": []} for text in texts]
    content[at]["top_logprobs"] = tops(**p)
    return {"content": content}


@pytest.mark.parametrize(
    ("content", "logprobs", "best", "p"),
    [
        ("B", tokens("B", B=0.9, A=0.1), "B", 0.1),
        ("B", tokens("B", B=0.2, A=0.8), "B", 0.8),  # a warm model may write the less likely letter
        ("b", tokens(" b", **{" b": 0.5, "B": 0.25, "A": 0.25}), "B", 0.25),
        ("A", tokens("A", A=0.6, B=0.2, C=0.2), "A", 0.7),
        ("Tie", tokens("Tie", Tie=0.6, A=0.3, B=0.1), SAME, 0.6),
        ("A", tokens("A", A=0.6, C=0.4), "A", None),
        ("B", tokens("A", A=0.9, B=0.1), "B", None),
        ("B", tokens("A", " or", "</think>", "B", B=0.9, A=0.1), "B", 0.1),
        ("<think>A</think>B", tokens("<think>", "A", "</think>", "B", B=0.9, A=0.1), "B", 0.1),
        ("<think>A</think>B", tokens("B", B=0.9, A=0.1), "B", 0.1),
        ("B", tokens("B", "<|im_end|>", at=0, B=0.9, A=0.1), "B", 0.1),
        ("\n\nB\n", tokens("B", "\n", at=0, B=0.9, A=0.1), "B", 0.1),
        ("So B", tokens("So", " B", **{" B": 0.9, " A": 0.1}), "B", 0.1),
        ("A: 5\nSo B", tokens("A", ": 5", "\nSo", " B", at=0, A=0.9, B=0.1), "B", None),
        ('{"answer": "B"}', tokens('{"', "answer", '":', ' "', "B", '"}', at=4, B=0.9, A=0.1), "B",
        0.1),
        ('{"answer":"B"}', tokens('{"answer":', '"B', '"}', at=1, **{'"B': 0.9, '"A': 0.1}), "B",
        0.1),
        ("é: B", tokens("é: ", "B", B=0.9, A=0.1), "B", 0.1),
        ("B", tokens("ĊĊ", "ĠB", **{"ĠB": 0.9, "ĠA": 0.1}), "B", 0.1),
        ("So: B", tokens("▁So", ":", "▁B", **{"▁B": 0.9, "▁A": 0.1}), "B", 0.1),
        ("B is better than A", tokens("B", " is better than", " A", at=0, B=0.9, A=0.1), "B", 0.1),
        ("Answer: B", tokens("Other", " words", " B", B=0.9, A=0.1), "B", None),
        ("B", None, "B", None), ("B", {"content": None}, "B", None), ("B", [1], "B", None),
        ("B", {"content": [3, None, {}, {"token": 5}, {"token": "B", "top_logprobs": [7]}]}, "B",
        None),
    ],
)  # fmt: skip
def test_p_is_of_the_token_that_is_the_choice(content, logprobs, best, p):
    found = read(content, logprobs=logprobs)
    assert found.best == best
    assert found.p == (None if p is None else pytest.approx(p))


@pytest.mark.parametrize(
    "bad", [float("nan"), None, "x", True, [], 10**400, float("inf"), 9999.0, -9999.0]
)
def test_a_log_probability_that_is_none_is_left_out(bad):
    top = [{"token": "B", "logprob": math.log(0.9)}, {"token": "A", "logprob": bad}]
    found = read("B", logprobs={"content": [{"token": "B", "top_logprobs": top}]})
    assert found.best == "B" and found.p is None


def test_bytes_of_tokens_may_be_parts_of_a_letter():
    first, second = "é".encode()
    made = [{"token": "\\xc3", "bytes": [first]}, {"token": "\\xa9", "bytes": [second]},
            {"token": "\nB", "bytes": [*b"\nB"], "top_logprobs": tops(B=0.75, A=0.25)}]  # fmt: skip
    assert read("é\nB", logprobs={"content": made}).p == pytest.approx(0.25)


@given(
    st.text(alphabet="ABCDEFabestworam:>,=<\n .1234*[]{}\"'/\\|", max_size=60), st.integers(2, 6)
)
def test_whatever_is_read_is_in_question(text, n_items):
    for worst in (False, n_items > 2):
        found = read(text, n_items, worst=worst)
        assert found.best in (None, SAME, *PLACES[:n_items])
        assert (found.worst is not None) == (worst and found.best not in (None, SAME))
        assert found.best != found.worst or found.best is None


PIECES = (
    "\n- ", "<think>", "</think>", "[[", "{", '{"a":', "[", "Best:", "best ", "A", "A ", "B\n",
    "A > ",
    "answer: ", "so ", "\\boxed{", "A or ", "**", "(", " ", "\n", "<|", "◁", "the ", "1. ",
    "- B\n", "&",
    "Best: A\n", "not ", "\\", '"', "Ａ", "a, ", ": ", "is the ", "…", "here is my ", "\u200b",
    "worst ",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_answer_of_one_piece_is_read_in_linear_time(piece):
    """A quadratic reader would take minutes or hours about each of these megabytes."""
    content = piece * ((1 << 20) // len(piece)) + "Best: A\nWorst: B"
    read(content, logprobs={"content": [{"token": piece, "logprob": -1.0}] * 9999})
    read(content, 4, worst=True)


def test_tokens_that_are_given_as_numbers_have_their_bytes():
    top = [{"token": "token_id:3", "bytes": [66], "logprob": math.log(0.75)},
           {"token": "token_id:2", "bytes": [65], "logprob": math.log(0.25)}]  # fmt: skip
    assert read("B", logprobs={"content": [top[0] | {"top_logprobs": top}]}).p == 0.25


def test_a_phrase_is_a_choice_and_nothing_else():
    assert [read_phrase(text) for text in ("b", "Left", "tie", "A or B", "up", 3, None)] == [
        "B", "A", SAME, None, None, None, None,
    ]  # fmt: skip


@pytest.mark.skipif(not CASES.exists(), reason="the cases that were handed over are not here")
def test_the_answers_that_were_handed_over():
    words = {"A": "A", "B": "B", SAME: "tie", None: ""}
    for line in (CASES / "replies.jsonl").read_text().splitlines():
        case = json.loads(line)
        found = read_choice(case["choice"])
        assert words[found.best] == case["answer"], case["name"]
        assert found.p == pytest.approx(case["p"]) if "p" in case else found.p is None
    for line in (CASES / "replies-sets.jsonl").read_text().splitlines():
        case = json.loads(line)
        found = read_choice(case["choice"], case["items"], worst=True)
        assert (found.best or "", found.worst or "") == (case["best"], case["worst"]), case["name"]
