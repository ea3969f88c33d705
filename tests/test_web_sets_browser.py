"""The page of a question about four items in a browser: keys, taps, a server that goes away."""

from __future__ import annotations

import time

import pytest
from collection_helpers import made_items, sets_of
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from test_web_browser import SCRIPT, SOON, Page, pictures, seen, violations
from web_helpers import served

from sortnet.preference.study import Decision
from store import open_store

pytestmark = pytest.mark.browser

SIZES = {"phone": ("light", 360), "desktop": ("dark", 1200)}
MOST_FETCHED = 10  # questions that a page has fetched before their size changes
AGAIN = "return shown && performance.now() > Math.max(shownAt, chosenAt) + DOUBLE_PRESS"


class SetPage(Page):
    """The page of an annotator who is asked about sets."""

    @property
    def items(self) -> list[str]:
        """The texts of the cards, in the order of their places."""
        cards = self.all("#set .card:not([hidden]) .item")
        return [card.get_attribute("innerText").strip() for card in cards]

    def choose(self, place: int) -> None:
        """Press the key of a place, from 0."""
        self.until(lambda: self.driver.execute_script(AGAIN))
        webdriver.ActionChains(self.driver).send_keys(str(place + 1)).perform()

    def tap(self, selector: str) -> None:
        """Touch the middle of an element, which is scrolled to."""
        self.until(lambda: self.driver.execute_script(AGAIN))
        middle = "arguments[0].scrollIntoView({block: 'center'}); "
        middle += "const box = arguments[0].getBoundingClientRect();"
        middle += "return [box.x + box.width / 2, box.y + box.height / 2]"
        x, y = self.driver.execute_script(middle, self.find(selector))
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            touch = {"type": kind, "touchPoints": points}
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", touch)

    def sent(self, n: int) -> None:
        """Wait until n answers are counted, and nothing is to be sent."""
        self.until(lambda: self.answered == n)
        self.until(self.has_sent)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


def answers_of(site) -> list[tuple[object, ...]]:
    """Answer, place of the best and of the worst, of every judgement."""
    judgements = [*site.pages.collection.judgements()]
    return [
        (one.word, *(None if item is None else one.items.index(item) for item in choice))
        for one in judgements
        for choice in [(one.best, one.worst)]
    ]


def texts_of(site) -> list[list[str]]:
    """The texts of each judgement, in their places."""
    texts = site.pages.items.texts
    return [[texts[item] for item in one.items] for one in site.pages.collection.judgements()]


@pytest.mark.slow
@pytest.mark.parametrize("screen", SIZES)
def test_four_items_are_answered_by_keys_and_an_undo_asks_them_again(driver, store, screen):
    with seen(driver, *SIZES[screen]), served(sets_of(store, made_items(12, d=1))) as site:
        page = SetPage(driver, site)
        page.until(page.ready)
        first = page.items
        assert len(first) == 4 and page.text("#asked") == "Which is the best?"
        page.choose(1)
        assert page.text("#asked") == "2 is the best. Which is the worst?"
        assert page.text("#place-1 h2") == "2 Best"
        page.choose(1)  # takes it back
        assert page.text("#asked") == "Which is the best?" and page.text("#place-1 h2") == "2"
        page.choose(0)
        page.press("u")  # takes back the choice, as there is one
        assert page.text("#asked") == "Which is the best?"
        time.sleep(SOON)
        assert answers_of(site) == []
        page.choose(2)
        page.choose(0)
        page.sent(1)
        assert page.text("#confirmation") == "3 is the best, 1 the worst."
        assert page.text("#asked") == "Which is the best?"
        page.until(page.ready)
        assert page.items != first
        page.press("u")
        page.sent(0)
        page.until(lambda: page.items == first)
        page.choose(3)
        page.choose(1)
        page.sent(1)
        for key in ("=", "s", "?", "0", Keys.ARROW_DOWN, " "):
            before = page.items
            page.press(key)
            page.until(lambda before=before: page.items != before)
            page.until(page.has_sent)
        words = ["same", "skip", "cant-say", "same", "same", "skip"]
        given = [("best", 2, 0), ("undo", None, None), ("best", 3, 1)]
        assert answers_of(site) == given + [(word, None, None) for word in words]
        assert texts_of(site)[:3] == [first] * 3
        milliseconds = [one.milliseconds for one in site.pages.collection.judgements()]
        assert all(ms >= 150 for ms in milliseconds if ms is not None)
        page.press("5")  # there is no such place
        page.press(Keys.ARROW_LEFT)
        assert page.text("#asked") == "Which is the best?"
        assert page.complaints() == []


@pytest.mark.parametrize("screen", SIZES)
def test_four_items_are_answered_by_taps(driver, store, screen):
    texts = tuple("some words " * 60 + str(k) for k in range(12))
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        width = SIZES[screen][1]
        collection = sets_of(store, made_items(12, d=1, texts=texts))
        with seen(driver, *SIZES[screen]), served(collection) as site:
            page = SetPage(driver, site)
            page.until(page.ready)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            boxes = [page.find(f"#place-{place}").rect for place in range(4)]
            columns = len({round(box["x"]) for box in boxes})
            assert columns == (1 if screen == "phone" else 2)
            for above, below in zip(boxes, boxes[columns:], strict=False):
                assert above["y"] + above["height"] <= below["y"]
            buttons = [button for button in page.all("button") if button.is_displayed()]
            assert min(min(button.size.values()) for button in buttons) >= 44
            # The bar is at hand wherever the page is scrolled to.
            for top in (0, 10_000):
                driver.execute_script("scrollTo(0, arguments[0])", top)
                bar = "return document.getElementById('bar').getBoundingClientRect().bottom"
                assert driver.execute_script(bar) <= 844
            page.tap("#place-2 h2")
            page.until(lambda: page.text("#asked") == "3 is the best. Which is the worst?")
            page.tap("#place-0 h2")
            page.sent(1)
            page.tap("[data-act=place-3]")
            page.until(lambda: page.text("#asked") == "4 is the best. Which is the worst?")
            page.tap("[data-act=place-3]")
            page.until(lambda: page.text("#asked") == "Which is the best?")
            page.tap("[data-act=place-1]")
            page.until(lambda: page.text("#asked") == "2 is the best. Which is the worst?")
            page.tap("#place-3 h2")
            page.sent(2)
            page.tap("[data-act=same]")
            page.sent(3)
            page.tap("#undo")
            page.sent(2)
            given = [("best", 2, 0), ("best", 1, 3), ("same", None, None), ("undo", None, None)]
            assert answers_of(site) == given
            assert page.complaints() == []
    finally:
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


@pytest.mark.parametrize("screen", SIZES)
def test_a_server_that_ends_between_best_and_worst_costs_nothing(driver, store, screen):
    collection = sets_of(store, made_items(12, d=1))
    with seen(driver, *SIZES[screen]):
        with served(collection) as site:
            port = site.client.port
            page = SetPage(driver, site)
            page.choose(0)
            page.choose(1)
            page.sent(1)
            page.until(lambda: driver.execute_script("return queue.length") == 3)
            page.choose(2)
        shown = [page.items]
        page.choose(0)
        page.until(lambda: "cannot be reached" in page.text("#notice"))
        page.until(lambda: driver.execute_script(AGAIN))
        shown.append(page.items)
        page.find("[data-act=same]").click()
        assert "2 to be sent" in page.text("#progress")
        assert len(collection.judgements()) == 1
        page.choose(3)  # chosen while it is away
        with served(store.collection("sets"), port=port) as site:
            page.until(lambda: len(collection.judgements()) == 3)
            page.until(lambda: not page.find("#notice").is_displayed())
            page.until(page.has_sent)
            assert page.text("#asked") == "4 is the best. Which is the worst?"
            page.choose(1)
            page.sent(4)
            given = [("best", 0, 1), ("best", 2, 0), ("same", None, None), ("best", 3, 1)]
            assert answers_of(site) == given
            assert texts_of(site)[1:3] == shown


def test_only_the_best_is_asked_for_where_nobody_wants_the_worst(driver, store):
    collection = sets_of(store, made_items(12, d=1), 6)
    collection.decide(Decision("worst", amount=0))
    with served(collection) as site:
        page = SetPage(driver, site)
        page.until(page.ready)
        assert len(page.items) == 6
        page.choose(5)
        page.sent(1)
        assert page.text("#confirmation") == "6 is the best."
        assert answers_of(site) == [("best", 5, None)]


def answer_fetched(page, kind, key):
    """Answer the questions of a kind that the page has fetched before their size changed."""
    for _ in range(MOST_FETCHED):
        if not page.find(kind).is_displayed():
            return
        page.press(key)
        page.until(page.has_sent)
        page.until(page.ready)


def test_pairs_and_sets_follow_each_other(driver, store):
    collection = sets_of(store, made_items(12, d=1), 3)
    with served(collection) as site:
        page = SetPage(driver, site)
        page.choose(0)
        page.choose(1)
        page.sent(1)
        collection.decide(Decision("set-size", amount=2))
        answer_fetched(page, "#set", "=")
        n = page.answered
        assert page.find("#pair").is_displayed() and not page.find("[data-act=same]").is_displayed()
        page.press(Keys.ARROW_LEFT)
        page.sent(n + 1)
        collection.decide(Decision("set-size", amount=3))
        page.press("1")  # typed by habit, it would answer a set
        page.until(lambda: page.text("#confirmation").startswith("Only two items"))
        assert page.answered == n + 1
        answer_fetched(page, "#pair", Keys.ARROW_LEFT)
        assert len(page.items) == 3 and not page.find("[data-act=left]").is_displayed()
        assert page.complaints() == []


def test_markup_is_text_and_a_click_on_what_is_in_a_card_chooses_nothing(driver, store, tmp_path):
    texts = tuple(f"{SCRIPT} {k}" for k in range(12))
    shown = ({"by": SCRIPT},) * 12
    collection = sets_of(store, pictures(tmp_path, 12, texts=texts, shown=shown))
    with served(collection) as site:
        page = SetPage(driver, site)
        page.until(page.ready)
        assert page.all("#set .item script, #set .item p img, #set .item dd img") == []
        assert driver.title == "Which is better? – sets"
        assert len(page.all("#set .frame img")) == 4
        names = [image.get_attribute("alt") for image in page.all("#set .frame img")]
        assert names == [f"Image of item {k}" for k in range(1, 5)]
        webdriver.ActionChains(driver).click(page.find("#place-1 audio")).perform()
        time.sleep(SOON)
        assert page.text("#asked") == "Which is the best?"
        webdriver.ActionChains(driver).double_click(page.find("#place-2 .frame")).perform()
        time.sleep(SOON)
        assert page.text("#asked") == "3 is the best. Which is the worst?"
        page.press("+")
        zoomed = "return [...document.querySelectorAll('#set img')].map((at) => at.style.transform)"
        assert all("scale(1.5)" in at for at in driver.execute_script(zoomed))
        page.press("c")
        page.find("#text").send_keys("why")
        page.find("#remark .close").click()
        page.press("f")
        page.choose(0)
        page.sent(1)
        (judgement,) = site.pages.collection.judgements()
        assert (judgement.comment, judgement.flagged) == ("why", True)
        assert answers_of(site) == [("best", 2, 0)]
        assert page.complaints() == []


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", 360)])
def test_axe_finds_no_violation_on_a_set(driver, store, tmp_path, scheme, width):
    texts = ("# A `plan`\n\n- one\n- [two](https://e.example)", "שלום " * 90) * 6
    more = {"groups": ("x",) * 12, "contexts": ("Of *what*?",) * 12}
    items = pictures(tmp_path, 12, texts=texts, shown=({"by": "Ana"},) * 12, **more)
    collection = sets_of(store, items)
    collection.decide(Decision("instructions", reason="Read **all**."))
    with seen(driver, scheme, width), served(collection) as site:
        page = SetPage(driver, site)
        page.until(lambda: page.find("#manual").is_displayed())
        found = {"instructions": violations(driver)}
        page.find("#manual .close").click()
        page.until(page.ready)
        found["set"] = violations(driver)
        page.choose(1)
        found["best"] = violations(driver)
        page.press("m")
        page.until(lambda: page.all("#set .item .formatted"))
        found["formatted"] = violations(driver)
        assert not any(found.values()), found
        buttons = page.all(".choices button:not([hidden])")
        names = [button.accessible_name for button in buttons]
        assert names[:2] == ["1 is the worst", "2 is the best: take it back"]
        page.press("f")
        page.choose(0)
        page.sent(1)
        driver.get(site.base + site.admin)
        page.until(lambda: page.text("#sizes tbody"))
        assert "the best of 4" in page.text("#comments tbody")
        assert violations(driver) == []


def test_numbers_typed_by_habit_answer_no_pair_after_a_set(driver, store):
    collection = store.add_items("args", made_items(6, d=1, groups=("x",) * 4 + ("y",) * 2))
    collection.decide(Decision("set-size", amount=4))
    with served(collection) as site:
        page = SetPage(driver, site)
        page.until(page.ready)
        driver.execute_script("hasShownSet = true")  # the pair may be asked before the four
        while not page.find("#pair").is_displayed():
            n_answers = page.answered
            page.choose(0)
            page.choose(1)
            page.sent(n_answers + 1)
            page.until(page.ready)
        n_answers = len(collection.judgements())
        page.press("1")
        page.until(lambda: "Only two items" in page.text("#confirmation"))
        page.press(Keys.ARROW_RIGHT)
        page.sent(n_answers + 1)
        assert [judgement.word for judgement in collection.judgements()][-1] == "right"
