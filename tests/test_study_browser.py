"""A whole study in a browser: three annotators, two criteria, a prompt per group; its export."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from collection_helpers import made_items
from test_web_browser import Page
from web_helpers import Served, served

from sortnet.preference.study import Decision
from store import Collection, open_store
from store.collections.judgement_files import export_judgements

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PEOPLE = ("ana", "ben", "eva")
PROMPTS = ("Is water wet?", "Why is the sky blue?")
QUESTIONS = {"helpful": "Which reply is more helpful?", "honest": "Which reply is more honest?"}
N = 3  # replies to each prompt


@pytest.fixture
def replies(tmp_path):
    """Replies that say how helpful they are (a number) and how honest (a letter)."""
    texts = [f"reply {k} {'cba'[k]}" for _ in PROMPTS for k in range(N)]
    groups = [f"prompt {g}" for g in range(len(PROMPTS)) for _ in range(N)]
    contexts = [prompt for prompt in PROMPTS for _ in range(N)]
    items = made_items(
        len(texts), texts=tuple(texts), groups=tuple(groups), contexts=tuple(contexts)
    )
    with open_store(tmp_path / "s.db") as store:
        store.add_items("replies", items, settings={"repeats": 0.0})
        collection = store.collection("replies")
        for name, question in QUESTIONS.items():
            collection.add_criterion(name).decide(Decision("question", reason=question))
        collection.decide(Decision("instructions", reason="# Rules\n\nRead **both**."))
        yield collection


def answer_all(page: Page) -> int:
    """Answer until nothing is asked; honest is the first letter, helpful the highest number."""
    n = 0
    while page.find("#pair").is_displayed():
        left, right = page.pair
        helpful = page.text("#question") == QUESTIONS["helpful"]
        better = left > right if helpful else left[-1] < right[-1]
        assert page.text("#context") in PROMPTS
        page.press("1" if better else "2")
        n += 1
        page.until(lambda n=n: page.answered == n)
        page.until(page.has_sent)  # until then the page may show no question although one follows
        page.until(lambda: page.ready() or not page.find("#pair").is_displayed())
    return n


def test_a_study_of_three_annotators_two_criteria_and_a_prompt_per_group(
    driver,
    replies: Collection,
) -> None:
    with served(replies) as site:
        counts = [study_of(driver, site, who) for who in PEOPLE]
        # Every pair within a group, by each criterion, once for each annotator or for all.
        assert sum(counts) >= 2 * len(PROMPTS) * N * (N - 1) // 2
        for service in site.pages.services:
            service.settle()
    for criterion, best in (("helpful", f"{N - 1} a"), ("honest", f"{N - 1} a")):
        each = next(c for c in replies.asked() if c.criterion == criterion)
        check_exports(each, criterion, best)


def study_of(driver, site: Served, who: str) -> int:
    page = Page(driver, site, site.link(who))
    page.until(lambda: page.find("#manual").is_displayed())
    assert "Read both." in page.text("#instructions")
    page.find("#manual .close").click()
    page.until(lambda: page.driver.execute_script("return localStorage['sortnet read']"))
    answered = answer_all(page)
    page.until(lambda: page.text("#question") == "replies")  # no question is asked any more
    assert page.complaints() == []
    return answered


def check_exports(each: Collection, criterion: str, best: str) -> None:
    everything, chosen = io.StringIO(), io.StringIO()
    export_judgements(each, everything, "csv")
    frame = pd.read_csv(io.StringIO(everything.getvalue()))
    columns = {name: {*frame[name]} for name in ("criterion", "question", "context")}
    question = QUESTIONS[criterion]
    assert columns == {"criterion": {criterion}, "question": {question}, "context": {*PROMPTS}}
    export_judgements(each, chosen, "chosen")
    records = [json.loads(line) for line in chosen.getvalue().splitlines()]
    for record in records:
        assert record["prompt"] in PROMPTS and record["weight"] > 0
    trained = pd.read_json(io.StringIO(chosen.getvalue()), lines=True)
    assert not np.any(trained["rejected"].str.endswith(best))
    assert trained["chosen"].str.endswith(best).sum() == len(PROMPTS) * (N - 1)
