"""The page of `sortnet serve` in a browser: keys, taps, a server that goes away."""

from __future__ import annotations

import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import pytest
from collection_helpers import Clock, made_items
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from web_helpers import Served, served

from sortnet.preference.study import Decision
from store import open_store

pytestmark = pytest.mark.browser

WAIT = 300
SHOWN_BEFORE: set[str] = set()  # addresses of servers; a new server may get the port of another
SOON = 0.4  # seconds in which something that must not happen would have happened
SCRIPT = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock(time.time())


@pytest.fixture
def site(store, clock):
    store.add_items("essays", made_items(6, d=1))
    with served(store.collection("essays", clock=clock)) as made:
        yield made


class Page:
    """The page of one annotator, as who sits before it sees it."""

    def __init__(self, driver: webdriver.Chrome, site: Served, path: str | None = None) -> None:
        self.path = path or site.link("ana")
        self.driver, self.site, self.url = driver, site, site.base + self.path
        driver.get_log("browser")  # what earlier pages had to complain of
        # The browser keeps something for a server whose pages it has shown before only.
        if site.base in SHOWN_BEFORE:
            driver.get(self.url)
            driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        SHOWN_BEFORE.add(site.base)
        self.reload()

    def reload(self) -> None:
        self.driver.get(self.url)
        self.until(lambda: self.text("#progress"))

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    @property
    def pair(self) -> tuple[str, str]:
        return self.text("#left .item"), self.text("#right .item")

    @property
    def answered(self) -> int:
        return int(self.text("#progress").split()[0])

    def until(self, true) -> None:
        WebDriverWait(self.driver, WAIT, 0.02).until(lambda _: true())

    def press(self, key: str) -> None:
        """A key, as soon as it is taken."""
        self.until(self.ready)
        webdriver.ActionChains(self.driver).send_keys(key).perform()

    def ready(self) -> bool:
        script = "return !sending && shown !== null && performance.now() - shownAt > DOUBLE_PRESS"
        return bool(self.driver.execute_script(script))

    def answer(self, key: str) -> tuple[str, str]:
        """Press a key and wait until the server has it; the pair that it was about."""
        self.until(self.ready)  # else the pair may not be drawn yet
        before = self.pair
        self.press(key)
        self.until(lambda: self.pair != before)
        self.until(self.has_sent)
        return before

    def has_sent(self) -> bool:
        """Tell whether the server has every answer, and the page its reply."""
        return bool(self.driver.execute_script("return !sending && outbox.length === 0"))

    def complaints(self) -> list[str]:
        """Messages in the browser's console, without those about servers of earlier tests.

        A page of an earlier test, whose server has ended, may have asked it once more.
        """
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        return [
            message
            for message in messages
            if not message.startswith("http://127.0.0.1:")
            or message.startswith(f"{self.site.base}/")
        ]


@contextmanager
def opened(driver, collection) -> Iterator[tuple[Served, Page]]:
    """The pages of a collection, and ana's in the browser."""
    with served(collection) as site:
        yield site, Page(driver, site)


@contextmanager
def seen(driver, scheme: str, width: int, height: int = 844) -> Iterator[None]:
    """A screen of that width, a phone's if it is narrow, in light or dark colours."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 400}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture
def page(driver, site) -> Page:
    return Page(driver, site)


def stored(site) -> list[tuple[str, ...]]:
    """(left text, right text, answer) of all judgements."""
    texts = site.pages.items.texts
    return [(texts[j.left], texts[j.right], j.word) for j in site.pages.collection.judgements()]


def test_a_whole_session_by_keys(site, page):
    keys = {
        **{Keys.ARROW_LEFT: "left", "1": "left", Keys.ARROW_RIGHT: "right", "2": "right"},
        **{Keys.ARROW_DOWN: "tie", "0": "tie", " ": "skip", "?": "cant-say"},
    }
    expected = [(*page.answer(key), answer) for key, answer in keys.items()]
    assert stored(site) == expected
    assert page.text("#confirmation") == "Cannot be said."
    milliseconds = [j.milliseconds for j in site.pages.collection.judgements()]
    assert all(150 <= ms < 600_000 for ms in milliseconds)
    while page.find("#pair").is_displayed():
        page.answer("1")
    assert page.text("#notice")  # why it ends
    assert not page.find("[data-act=left]").is_displayed()
    page.find("#undo").click()  # the last answer can still be taken back
    page.until(lambda: page.find("#pair").is_displayed())
    assert page.complaints() == []


def test_undo_goes_back_any_number_and_shows_the_pair_again(site, page):
    shown = [page.answer(key) for key in ("1", "2", "0", " ")]
    for back, key in enumerate(("z", Keys.BACKSPACE, "Z"), start=1):
        page.press(key)
        page.until(lambda back=back: page.answered == 4 - back)
        page.until(lambda back=back: page.pair == shown[-back])
    assert page.text("#confirmation") == "Undone: here is the pair again."
    assert page.answer("2") == shown[1]
    assert [answer for *_, answer in stored(site)] == [
        *("left", "right", "tie", "skip", "undo", "undo", "undo", "right")
    ]
    page.find("#undo").click()
    page.until(lambda: page.answered == 1)
    page.press("z")
    page.until(lambda: page.answered == 0)
    assert not page.find("#undo").is_enabled()


def test_a_page_without_storage_takes_answers_all_the_same(driver, site, page):
    source = "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, "
    source += "name, {get() { throw new DOMException('blocked', 'SecurityError'); }});"
    blocked = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        page.reload()
        shown = [page.answer(key) for key in ("1", "2")]
        page.find("#help").click()
        page.find("#keys").click()
        page.find("#manual .close").click()
        assert page.complaints() == []
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", blocked)
    assert stored(site) == [(*shown[0], "left"), (*shown[1], "right")]


def test_a_fault_in_the_page_does_not_stop_the_sending(driver, site, page):
    driver.execute_script(
        "const right = handleReply;"
        "handleReply = () => { handleReply = right; throw new Error('for once'); };"
    )
    page.press("1")
    page.until(lambda: driver.execute_script("return !sending && outbox.length === 0"))
    driver.execute_script("flush()")
    page.until(lambda: page.answered == 1)
    page.answer("2")
    assert [answer for *_, answer in stored(site)] == ["left", "right"]
    page.complaints()


@contextmanager
def in_fast_motion(driver) -> Iterator[None]:
    """Pages whose timers are ten times as fast."""
    source = "const plain = setTimeout; window.setTimeout = (call, ms) => plain(call, ms / 10);"
    command = "Page.addScriptToEvaluateOnNewDocument"
    script = driver.execute_cdp_cmd(command, {"source": source})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
        driver.get("about:blank")  # a page left open would go on asking a server that has ended


def test_who_finds_nothing_to_do_waits_until_there_is(driver, store):
    with in_fast_motion(driver), served(store.add_items("two", made_items(2, d=1))) as site:
        ana = site.link("ana")
        lease = site.client.post(f"{ana}/next").json()["pairs"][0]["lease"]
        page = Page(driver, site, site.link("ben"))
        page.until(lambda: "nothing to ask now" in page.text("#notice"))
        assert not page.find("#pair").is_displayed()
        site.client.post(f"{ana}/answer", {"lease": lease, "answer": "left"})
        page.until(lambda: page.find("#pair").is_displayed())
        assert not page.find("#notice").is_displayed()
        page.answer("1")


def test_markup_in_a_text_is_text(driver, store):
    texts = tuple(f"{SCRIPT}\n  two  spaces {k}" for k in range(3))
    with opened(driver, store.add_items("marked", made_items(3, d=1, texts=texts))) as (_, page):
        assert set(page.pair) < set(texts)
        page.answer("1")
        assert driver.title == "Which is better? – marked"
        assert page.all(".item script, .item img") == []
        assert page.complaints() == []


def test_the_context_is_text_above_the_pair_and_read_before_it(driver, store):
    contexts = (f"First {SCRIPT}",) * 2 + ("Second",) * 2
    items = made_items(4, d=1, groups=("x", "x", "y", "y"), contexts=contexts)
    with opened(driver, store.add_items("grouped", items)) as (_, page):
        shown = set()
        for _ in range(2):
            page.until(page.ready)
            left = int(page.pair[0].removeprefix("text "))
            assert page.text("#context") == contexts[left]
            assert page.find("#context").rect["y"] < page.find("#pair").rect["y"]
            shown.add(contexts[left])
            page.answer("1")
        assert shown == {*contexts}
        page.until(lambda: not page.find("#pair").is_displayed())
        assert not page.find("#context").is_displayed()
        assert driver.title == "Which is better? – grouped"
        order = "return [...document.querySelectorAll('[tabindex=\"0\"], button')].map(e => e.id)"
        assert driver.execute_script(order)[0] == "context"
        assert page.complaints() == []


def test_on_a_phone_it_works_by_taps(driver, store):
    texts = tuple("some words " * 100 + str(k) for k in range(6))
    collection = store.add_items("long", made_items(6, d=1, texts=texts))
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        with seen(driver, "light", 360, 740), opened(driver, collection) as (site, page):
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 360
            left, right = page.find("#left").rect, page.find("#right").rect
            assert left["y"] + left["height"] <= right["y"] and left["x"] == right["x"]
            buttons = [button for button in page.all("button") if button.is_displayed()]
            assert len(buttons) >= 9
            assert min(min(button.size.values()) for button in buttons) >= 44
            undo = page.find("#undo").rect
            assert undo["y"] > 600 and undo["y"] + undo["height"] <= 740  # in reach of a thumb
            for selector in ("[data-act=left]", "[data-act=right]", "[data-act=tie]"):
                page.until(page.ready)
                before = page.answered
                box = page.find(selector).rect
                spot = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]
                for kind, points in (("touchStart", spot), ("touchEnd", [])):
                    touch = {"type": kind, "touchPoints": points}
                    driver.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
                page.until(lambda before=before: page.answered == before + 1)
            assert page.text("#left h2") == "Upper"
            page.until(page.ready)
            assert [answer for *_, answer in stored(site)] == ["left", "right", "tie"]
    finally:
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def switch(page) -> None:
    page.find("#help").click()
    page.find("#keys").click()
    page.find("#manual .close").click()


def test_keys_of_one_character_can_be_switched_off(driver, site, page):
    switch(page)
    for key in ("1", "2", "0", "?", "z", " "):
        page.press(key)
    page.reload()
    assert not page.find("#keys").is_selected()
    page.press("1")
    time.sleep(SOON)
    assert stored(site) == []
    page.answer(Keys.ARROW_LEFT)
    page.press(Keys.BACKSPACE)
    page.until(lambda: page.answered == 0)
    switch(page)
    page.answer("1")


def test_keys_with_others_held_down_repeated_or_in_a_field_are_not_ours(driver, site, page):
    page.until(page.ready)
    keys = webdriver.ActionChains(driver)
    for held in (Keys.CONTROL, Keys.ALT):
        keys.key_down(held).send_keys("1").key_up(held)
    keys.key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT)
    keys.perform()
    driver.execute_script(
        "for (const key of ['1', 'ArrowLeft', ' ']) document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key, repeat: true, bubbles: true }));"
        "document.body.append(document.createElement('input'));"
        "document.querySelector('body > input').focus();"
    )
    keys.send_keys("1 2", Keys.ARROW_LEFT, Keys.BACKSPACE).perform()
    time.sleep(SOON)
    assert stored(site) == []
    assert page.find("body > input").get_attribute("value") == "12"


def test_a_double_press_is_one_answer(driver, site, page):
    page.until(page.ready)
    driver.execute_script(
        "for (let k = 0; k < 5; k++) document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key: '1', bubbles: true }))"
    )
    page.until(lambda: page.answered == 1)
    time.sleep(SOON)
    assert len(stored(site)) == page.answered == 1


def test_buttons_work_by_keyboard_and_keep_the_focus(driver, site, page):
    page.until(page.ready)
    webdriver.ActionChains(driver).send_keys(Keys.TAB * 5).perform()
    assert driver.switch_to.active_element == page.find("[data-act=right]")
    outline = page.find("[data-act=right]").value_of_css_property("outline-style")
    assert outline == "solid"
    page.answer(Keys.ENTER)
    page.answer(" ")  # presses the button that has the focus; does not skip
    assert driver.switch_to.active_element == page.find("[data-act=right]")
    assert [answer for *_, answer in stored(site)] == ["right", "right"]
    page.until(page.ready)
    page.find("[data-act=left]").click()  # by mouse: the next Space skips
    page.until(lambda: page.answered == 3)
    page.until(page.ready)
    page.answer(" ")
    assert [answer for *_, answer in stored(site)][2:] == ["left", "skip"]


def test_a_long_text_scrolls_in_its_box_by_keys(driver, store):
    texts = ("line\n" * 500, "short")
    with opened(driver, store.add_items("long", made_items(2, d=1, texts=texts))) as (site, page):
        page.until(page.ready)
        long = "left" if len(page.pair[0]) > len(page.pair[1]) else "right"
        box = page.find(f"#{long} .item")
        assert box.size["height"] < 900
        driver.execute_script("arguments[0].focus()", box)
        page.press(Keys.ARROW_DOWN)
        page.until(lambda: driver.execute_script("return arguments[0].scrollTop", box) > 0)
        assert stored(site) == []
        page.answer("0")
        assert [answer for *_, answer in stored(site)] == ["tie"]


def test_a_server_that_goes_and_comes_back_costs_no_answer(driver, store):
    collection = store.add_items("essays", made_items(6, d=1))
    with served(collection) as site:
        port = site.client.port
        page = Page(driver, site)
        page.answer("1")
        page.until(page.ready)
        page.until(lambda: driver.execute_script("return queue.length") == 3)
    shown = []
    for key in ("2", "0"):
        page.until(
            lambda: driver.execute_script(
                "return shown && performance.now() > shownAt + DOUBLE_PRESS"
            )
        )
        shown.append(page.pair)
        webdriver.ActionChains(driver).send_keys(key).perform()
    page.until(lambda: "cannot be reached" in page.text("#notice"))
    assert "2 to be sent" in page.text("#progress")
    assert len(collection.judgements()) == 1
    with served(store.collection("essays"), port=port) as site:
        page.until(lambda: len(stored(site)) == 3)
        assert [row[2] for row in stored(site)] == ["left", "right", "tie"]
        assert [row[:2] for row in stored(site)[1:]] == shown
        page.until(lambda: not page.find("#notice").is_displayed())
        page.answer("1")
        assert page.answered == 4


def test_an_answer_is_kept_and_sent_again_while_the_file_of_the_store_is_away(site, page, tmp_path):
    page.answer("1")
    file = tmp_path / "s.db"
    moved = file.rename(tmp_path / "moved.db")
    page.press("2")
    page.until(lambda: "cannot store answers now" in page.text("#notice"))
    reply = site.client.post(f"{page.path}/next")
    assert reply.status == 503
    assert f"{file}: s.db was removed while it was in use" in reply.json()["error"]
    moved.rename(file)
    page.until(lambda: [row[2] for row in stored(site)] == ["left", "right"])
    page.until(lambda: not page.find("#notice").is_displayed())


def test_answers_not_yet_sent_survive_a_reload(driver, store):
    collection = store.add_items("essays", made_items(6, d=1))
    with opened(driver, collection) as (site, page):
        page.until(page.ready)
        shown = page.pair
        driver.execute_script(
            "real = window.fetch; window.fetch = () => Promise.reject(new TypeError('away'))"
        )
        page.press(Keys.ARROW_LEFT)
        page.until(lambda: "cannot be reached" in page.text("#notice"))
        # The browser would ask whether to leave: the page says that something was not sent.
        assert driver.execute_script(
            "return !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
        )
        driver.execute_script(
            "addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true)"
        )
        driver.refresh()
        page.until(lambda: len(stored(site)) == 1)
        assert stored(site) == [(*shown, "left")]
        page.until(lambda: page.pair not in ((), shown) and page.answered == 1)


def test_a_pair_that_has_expired_is_said_and_replaced(site, page, clock):
    page.answer("1")
    page.until(page.ready)
    clock.now += 601
    page.press("1")
    page.until(lambda: "expired" in page.text("#notice"))
    assert "not counted" in page.text("#notice")
    assert len(stored(site)) == 1
    page.until(lambda: page.answered == 1)
    page.answer("2")
    page.until(lambda: not page.find("#notice").is_displayed())
    assert len(stored(site)) == 2


def pictures(tmp_path, n: int = 6, **facts):
    """Items with an image, a sound of a second and a text each."""
    names = [f"{k}.png" for k in range(n)]
    for k, name in enumerate(names):
        Image.new("RGB", (40, 30 + k), (30 * k, 0, 0)).save(tmp_path / name)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))
        file.writeframes(bytes(8000))
    facts = {"images": tuple(names), "audio": ("a.wav",) * n, "root": tmp_path, **facts}
    return made_items(n, d=1, **facts)


def test_a_click_on_a_card_answers_but_not_one_on_what_is_in_it(driver, store, tmp_path):
    with opened(driver, store.add_items("pictures", pictures(tmp_path))) as (site, page):
        page.until(page.ready)
        webdriver.ActionChains(driver).click(page.find("#left audio")).perform()
        over = webdriver.ActionChains(driver).click_and_hold(page.find("#left .text"))
        over.move_by_offset(25, 0).release().perform()  # selects some of the text
        assert driver.execute_script("return !getSelection().isCollapsed")
        page.find("#right .text").click()  # ends the selection
        time.sleep(SOON)
        assert stored(site) == [] and page.answered == 0
        shown = page.pair
        page.until(page.ready)
        webdriver.ActionChains(driver).double_click(page.find("#right .frame")).perform()
        page.until(lambda: page.answered == 1)
        page.until(page.ready)
        time.sleep(SOON)
        page.find("#left .text").click()
        page.until(lambda: len(stored(site)) == 2)
        texts = site.pages.items.texts
        (first, second) = site.pages.collection.judgements()
        assert (first.word, second.word) == ("right", "left")
        assert texts[first.left] in shown[0]
        assert page.complaints() == []


TRANSFORMS = "return [...document.querySelectorAll('.frame img')].map((at) => at.style.transform)"


def instructions(page) -> str:
    page.find("#help").click()
    page.until(lambda: page.find("#manual").is_displayed())
    said = page.text("#manual")
    page.find("#manual .close").click()
    return said


def test_a_phone_is_told_of_buttons_and_a_desk_of_keys(driver, store):
    with served(store.add_items("essays", made_items(6, d=1))) as site:
        for width, about_keys in ((1200, True), (390, False)):
            with seen(driver, "light", width):
                page = Page(driver, site)
                page.until(page.ready)
                said = instructions(page)
                for words in ("Space", "Backspace", "by key", "by a click", "left or the right"):
                    assert (words in said) == about_keys
                for words in ("Upper, Lower", "Skip", "a tap on it", "upper or the lower"):
                    assert (words in said) != about_keys
                labels = [
                    label
                    for button in page.all("#bar button .label")
                    if (label := " ".join(button.text.split()))
                ]
                assert labels[0] == ("Left is better" if about_keys else "Upper is better")
                for label in () if about_keys else labels:
                    assert label.removesuffix(" is better") in said


OFFERED = {
    "words": [],
    "sentences": ["diff"],
    "formatted": ["markdown"],
    "pictures": ["zoom-out", "zoom-in", "flip", "play-left", "play-right"],
}


@pytest.mark.parametrize("kind", OFFERED)
def test_only_tools_that_do_something_for_a_pair_are_offered(driver, store, tmp_path, kind):
    texts = {
        "words": ("kiwi", "apple"),
        "sentences": ("Most people work until five, " * 3, "Most people work until six, " * 3),
        "formatted": ("kiwi", "an *apple*"),
    }
    if kind == "pictures":
        items = pictures(tmp_path, 2, texts=("kiwi", "apple"))
    else:
        items = made_items(2, d=1, texts=texts[kind])
    with opened(driver, store.add_items(kind, items)) as (site, page):
        page.until(page.ready)
        tools = page.all("#tools button")
        offered = [tool.get_attribute("data-act") for tool in tools if tool.is_displayed()]
        assert offered == OFFERED[kind]
        said = instructions(page)
        for words, tool in (
            ("zoom", "zoom-in"),
            ("places", "flip"),
            ("sound", "play-left"),
            ("differs", "diff"),
            ("Markdown", "markdown"),
        ):
            assert (words in said) == (tool in offered)
        for key, tool in (("d", "diff"), ("m", "markdown"), ("v", "flip")):
            if tool not in offered:
                page.press(key)
        assert (
            page.text("#confirmation") == ""
            and page.find("#left").rect["x"] < page.find("#right").rect["x"]
        )
        assert stored(site) == [] and page.complaints() == []


@pytest.mark.parametrize("width", [1200, 700, 390])
def test_a_notice_moves_nothing_that_one_aims_at(driver, site, width):
    places = (
        "return ['left', 'right', 'bar'].map((id) => {"
        "const {x, y, width, height} = $(id).getBoundingClientRect();"
        "return [x, y, width, height];})"
    )
    with seen(driver, "light", width):
        page = Page(driver, site)
        page.until(page.ready)
        before = driver.execute_script(places)
        for text in ("Short.", "The server cannot be reached. " * 9, ""):
            driver.execute_script("notice(arguments[0])", text)
            assert page.find("#notice").is_displayed() == bool(text)
            assert driver.execute_script(places) == before
        page.answer("1")
        assert driver.execute_script("return $('confirmation').textContent")
        assert driver.execute_script(places) == before


def test_both_images_are_zoomed_moved_and_change_places_and_one_sound_plays(
    driver, store, tmp_path
):
    with opened(driver, store.add_items("pictures", pictures(tmp_path))) as (site, page):

        def transforms() -> str:
            one, other = driver.execute_script(TRANSFORMS)
            assert one == other  # of both at once
            return one

        page.press("+")
        page.find("[data-act=zoom-in]").click()
        assert transforms() == "translate(0%, 0%) scale(2.25)"
        page.press("")
        shift = webdriver.ActionChains(driver).key_down(Keys.SHIFT)
        shift.send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
        assert transforms() == "translate(-20%, 0%) scale(2.25)"
        drag = webdriver.ActionChains(driver).click_and_hold(page.find("#left .frame"))
        drag.move_by_offset(800, -80).release().perform()
        assert transforms().startswith("translate(62.5%, -")
        for _ in range(9):
            page.press("-")
        assert transforms() == "translate(0%, 0%) scale(1)"
        left, right = page.find("#left").rect, page.find("#right").rect
        webdriver.ActionChains(driver).key_down("v").perform()
        assert (page.find("#left").rect, page.find("#right").rect) == (right, left)
        webdriver.ActionChains(driver).send_keys(Keys.ARROW_LEFT).perform()  # which one?
        webdriver.ActionChains(driver).key_up("v").perform()
        assert (page.find("#left").rect, page.find("#right").rect) == (left, right)
        playing = "return [...document.querySelectorAll('audio')].map((at) => !at.paused)"
        driver.execute_script("for (const a of document.querySelectorAll('audio')) a.loop = true")
        for key, expected in (("a", [True, False]), ("s", [False, True]), ("s", [False, False])):
            page.press(key)
            page.until(lambda expected=expected: driver.execute_script(playing) == expected)
        time.sleep(SOON)
        assert stored(site) == [] and page.complaints() == []


def test_two_texts_are_compared_word_by_word_and_shown_as_markdown(driver, store):
    texts = (f"# A plan\n\nWe **measure** twice. {SCRIPT}", f"# A plan\n\nWe *cut* twice. {SCRIPT}")
    items = made_items(2, d=1, texts=texts, groups=("x", "x"), contexts=("Of `code`",) * 2)
    with opened(driver, store.add_items("plans", items)) as (site, page):
        page.press("d")
        page.until(lambda: page.text("#confirmation") == "What differs is marked.")
        marks = {
            tag: {e.text for e in driver.find_elements(By.TAG_NAME, tag)} for tag in ("ins", "del")
        }
        assert sorted(map(len, marks.values())) == [1, 1]
        assert set.union(*marks.values()) == {"*measure*", "cut"}
        assert {*page.pair} == {*texts}  # the whole texts are there
        page.press("d")
        assert page.all("ins, del") == []
        assert page.find("[data-act=diff]").get_attribute("aria-pressed") == "false"
        page.press("m")
        page.until(lambda: page.all(".item h3"))
        assert page.text("#context code") == "code"
        assert SCRIPT in page.text("#left .formatted")
        assert page.all("main script, main img") == []
        page.reload()  # it is remembered
        page.until(lambda: len(page.all(".item h3")) == 2)
        page.press("m")
        page.until(lambda: not page.all(".item h3"))
        script = "return difference(...arguments)"
        cases = {
            ("", "x"): [[], [["x", False]]],
            ("a b c", "a x c d"): [
                [["a ", True], ["b", False], [" c", True]],
                [["a ", True], ["x", False], [" c", True], [" d", False]],
            ],
            ("x " * 9000, "y " * 9000): None,
        }
        for pair, expected in cases.items():
            assert driver.execute_script(script, *pair) == expected
        assert driver.title == "Which is better? – plans" and stored(site) == []
        assert page.complaints() == []


def test_a_comment_and_a_flag_go_with_the_answer_and_come_back_with_an_undo(
    driver, site, page, clock
):
    page.press("c")
    page.until(lambda: page.find("#remark").is_displayed())
    webdriver.ActionChains(driver).send_keys("12 0z? fhm", Keys.ESCAPE).perform()
    page.until(lambda: not page.find("#remark").is_displayed())
    page.press("f")
    page.until(lambda: page.text("#confirmation") == "Flagged.")
    assert page.answered == 0
    page.reload()  # neither is lost
    page.until(page.ready)
    pressed = "return ['comment', 'flag'].map((id) => $(id).getAttribute('aria-pressed'))"
    assert driver.execute_script(pressed) == ["true", "true"]
    page.answer("1")
    assert driver.execute_script(pressed) == ["false", "false"]
    (judgement,) = site.pages.collection.judgements()
    assert (judgement.comment, judgement.flagged) == ("12 0z? fhm", True)
    page.press("z")
    page.until(lambda: page.answered == 0)
    page.until(page.ready)
    assert driver.execute_script(pressed) == ["true", "true"]
    clock.now += 601
    page.press("2")
    page.until(lambda: "Your comment was: 12 0z? fhm" in page.text("#notice"))
    page.until(page.ready)
    # An answer that the server refuses stays to be given, with its comment.
    page.press("c")
    driver.execute_script(
        "$('text').removeAttribute('maxlength'); $('text').value = 'x'.repeat(2001)"
    )
    webdriver.ActionChains(driver).send_keys("y", Keys.ESCAPE).perform()
    shown = page.pair
    page.press("1")
    page.until(lambda: "at most 2000 characters" in page.text("#notice"))
    page.until(lambda: page.pair == shown)
    page.until(page.ready)
    assert driver.execute_script(pressed) == ["true", "false"]
    assert [entry for entry in page.complaints() if "410" not in entry and "422" not in entry] == []


def test_instructions_are_shown_first_and_under_a_key_and_may_change(driver, site):
    collection = site.pages.collection
    collection.decide(Decision("instructions", reason=f"Be **fair**. {SCRIPT}"))
    collection.decide(Decision("question", reason="Which is clearer?"))
    page = Page(driver, site)
    page.until(lambda: page.text("#instructions strong") == "fair")
    assert page.text("#question") == page.text("#manual-title") == "Which is clearer?"
    assert SCRIPT in page.text("#instructions")
    webdriver.ActionChains(driver).send_keys("1").perform()  # is no answer yet
    page.find("#manual .close").click()
    page.answer("1")
    assert len(stored(site)) == 1 and not page.find("#manual").is_displayed()
    page.reload()
    page.until(page.ready)
    assert not page.find("#manual").is_displayed()
    page.press("h")
    page.until(lambda: page.text("#instructions strong") == "fair")
    page.press("H")
    page.until(lambda: not page.find("#manual").is_displayed())
    collection.decide(Decision("question", reason="Which is kinder?"))
    collection.decide(Decision("instructions", reason="Be *kind*."))
    page.answer("2")
    page.until(lambda: page.text("#instructions em") == "kind")
    assert page.text("#manual-title") == "Which is kinder?"
    assert driver.title == "Which is kinder? – essays"
    page.find("#manual .close").click()
    assert "Which is kinder?" in driver.execute_script("return $('news').textContent")
    assert page.complaints() == []


def test_two_tabs_of_one_link_lose_no_answer_without_a_word(driver, site, page):
    first = driver.current_window_handle
    page.until(page.ready)
    shown = page.pair
    driver.switch_to.new_window("tab")
    other = Page(driver, site)
    second = driver.current_window_handle
    try:
        assert other.pair == shown
        other.answer("1")
        driver.switch_to.window(first)  # it looks again when it is seen
        page.until(lambda: "answered in another tab" in page.text("#notice"))
        page.until(lambda: page.pair != shown)
        page.until(page.ready)
        here = page.pair
        driver.switch_to.window(second)
        other.until(other.ready)
        driver.execute_script("renew = flush = async () => {}; document.hidden || 0")
        other.until(lambda: other.pair == here)
        driver.switch_to.window(first)
        page.answer("2")
        assert not page.find("#notice").is_displayed()
        driver.switch_to.window(second)
        reply = "return fetch(BASE + '/answer', {method: 'POST', headers: {'Content-Type': "
        reply += "'application/json'}, body: JSON.stringify({lease: drawnLease, answer: 'left'})})"
        reply += ".then((reply) => reply.json())"
        reply += ".then((r) => handleReply(200, r, {path: '/answer', lease: drawnLease}))"
        driver.execute_script(reply)
        other.until(lambda: "your answer here was not counted" in other.text("#notice"))
        other.until(lambda: other.pair != here)
    finally:
        driver.switch_to.window(second)
        driver.close()
        driver.switch_to.window(first)
    assert [answer for *_, answer in stored(site)] == ["left", "right"]


def test_only_the_question_changes_where_a_pair_is_asked_again_under_another(driver, site, page):
    page.until(page.ready)
    driver.execute_script(
        "queue[0].question = 'Which is truer?'; queue.splice(1, 0, {...queue[0], lease: 'again', "
        "criterion: 'kind', question: 'Which is kinder?'}); drawQuestion('Which is truer?');"
        "kept = document.querySelector('#left .inside'); flush = async () => {};"
    )
    page.press("1")
    page.until(lambda: page.text("#question") == "Which is kinder?")
    assert driver.execute_script("return kept === document.querySelector('#left .inside')")
    assert driver.execute_script("return $('news').textContent") == "Pair 2: Which is kinder?"
    page.until(page.ready)
    page.press("2")
    sent = driver.execute_script("return outbox.map((entry) => [entry.lease, entry.criterion])")
    assert sent[1] == ["again", "kind"]
    driver.execute_script("outbox = []; saveOutbox()")


def test_the_bar_stays_in_its_place_whatever_is_shown(driver, store):
    texts = ("short", "line\n" * 300, "wide " * 400, "x" * 3000)
    items = made_items(4, d=1, texts=texts, groups=tuple("aabb"), contexts=(None, None, "c", "c"))
    with opened(driver, store.add_items("all", items)) as (_, page):
        places = set()
        for _ in range(2):
            page.until(page.ready)
            places.add(tuple(page.find("[data-act=left]").rect.values()))
            page.answer("1")
        assert len(places) == 1
        size = "return [document.documentElement.scrollHeight, innerHeight]"
        assert len({*driver.execute_script(size)}) == 1


def test_pictures_and_sounds_are_shown_and_the_next_are_fetched_before(driver, store, tmp_path):
    items = pictures(tmp_path, 8)
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with opened(driver, store.add_items("pictures", items)) as (site, page):
        images = page.all(".item img")
        page.until(lambda: all(i.get_attribute("naturalWidth") == "40" for i in images))
        assert {i.get_attribute("alt") for i in images} == {
            "Image of the left item", "Image of the right item"
        }  # fmt: skip
        fetched = "return performance.getEntriesByType('resource').map((e) => e.name)"
        ahead = "return queue.slice(1).flatMap((p) => [BASE + p.left.image, BASE + p.right.image])"
        page.until(
            lambda: (
                {site.base + path for path in driver.execute_script(ahead)}
                <= set(driver.execute_script(fetched))
            )
        )
        page.until(lambda: "This sound cannot be played." in page.pair[0])


def test_an_image_that_breaks_while_it_is_served_is_said_and_its_pair_answered(
    driver, store, tmp_path
):
    with served(store.add_items("pictures", pictures(tmp_path))) as site:
        for k in range(6):
            (tmp_path / f"{k}.png").write_bytes(b"half a file")
            if k % 2:
                (tmp_path / f"{k}.png").unlink()
        page = Page(driver, site)
        page.until(lambda: all("This image cannot be shown." in side for side in page.pair))
        page.answer("1")
        assert len(stored(site)) == 1


AXE = files("axe_playwright_python") / "axe.min.js"  # axe-core itself; the rest is not imported
VIOLATIONS = """
const done = arguments[0];
const said = (one) => [one.id, one.nodes.map((node) => node.html)];
axe.run({ rules: { "target-size": { enabled: true } } })
  .then((found) => done(found.violations.map(said)));
"""


def violations(driver) -> list:
    """What axe finds on the page that is shown."""
    driver.set_script_timeout(300)  # a machine may be slow
    if driver.execute_script("return window.axe === undefined"):
        driver.execute_script(AXE.read_text())
    return driver.execute_async_script(VIOLATIONS)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", 390)])
def test_axe_finds_no_violation_in_any_state(driver, store, tmp_path, scheme, width):
    texts = ("# A `plan`\n\n- one\n- [two](https://e.example)\n\n|a|\n|-|\n|1|", "שלום " * 90) * 3
    more = {"groups": ("x",) * 6, "contexts": ("Of *what*?",) * 6}
    items = pictures(tmp_path, texts=texts, shown=({"by": "Ana"},) * 6, **more)
    collection = store.add_items("all", items)
    # Of texts on the shades of a card axe does not know the ground: it is that of a dialog.
    collection.decide(Decision("instructions", reason=f"Read **both**.\n\n{texts[0]}"))
    with seen(driver, scheme, width), opened(driver, collection) as (_, page):
        page.until(lambda: page.find("#manual").is_displayed())
        found = {"instructions": violations(driver)}
        page.find("#manual .close").click()
        for state, key in (("pair", "f"), ("zoom", "+"), ("difference", "d"), ("comment", "c")):
            page.press(key)
            found[state] = violations(driver)
        webdriver.ActionChains(driver).send_keys("x", Keys.ESCAPE).perform()
        page.until(lambda: not page.find("#remark").is_displayed())
        page.press("d")
        page.press("m")
        page.until(lambda: page.all(".item .formatted"))
        found["formatted"] = violations(driver)
        driver.execute_script("notice('That was answered. '.repeat(20))")
        found["notice"] = violations(driver)
        collection.decide(Decision("pause"))
        page.press("1")
        page.until(lambda: not page.find("#pair").is_displayed())
        found["paused"] = violations(driver)
        assert not any(found.values()), found


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (("exclude", "ana"), "No more questions: ana is excluded"),
        (("revoke", "ana"), "This link was revoked"),
    ],
)
def test_an_open_page_says_why_nothing_more_is_asked(page, site, decision, said):
    page.answer("1")
    site.pages.collection.decide(Decision(*decision))
    site.pages.services[0].sync()
    site.people.read()
    page.press("1")
    page.until(lambda: said in page.text("#notice"))
    assert not page.find("#pair").is_displayed()
    assert page.answered == 1
    assert len(site.pages.collection.judgements()) == 1
