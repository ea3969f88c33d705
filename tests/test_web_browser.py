"""The page of `sortnet serve` in a browser: keys, taps, a server that goes away."""

from __future__ import annotations

import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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


SIZES = {"phone": ("light", 360), "desktop": ("dark", 1200)}


def test_a_whole_session_by_keys_with_undo(site, page):
    keys = {
        **{Keys.ARROW_LEFT: "left", "1": "left", Keys.ARROW_RIGHT: "right", "2": "right"},
        **{Keys.ARROW_DOWN: "tie", "0": "tie", " ": "skip", "?": "cant-say"},
    }
    expected = [(*page.answer(key), answer) for key, answer in keys.items()]
    assert stored(site) == expected
    assert page.text("#confirmation") == "Cannot be said."
    milliseconds = [j.milliseconds for j in site.pages.collection.judgements()]
    assert all(150 <= ms < 600_000 for ms in milliseconds)
    n_answers = page.answered
    for back, key in enumerate(("z", Keys.BACKSPACE), start=1):
        page.press(key)
        page.until(lambda back=back: page.pair == expected[-back][:2])
    assert page.answered == n_answers
    page.find("#undo").click()  # the first of the three that counts as an answer
    page.until(lambda: page.answered == n_answers - 1)
    while page.find("#pair").is_displayed():
        page.answer("1")
    assert page.text("#notice")  # why it ends
    assert not page.find("[data-act=left]").is_displayed()
    page.find("#undo").click()  # the last answer can still be taken back
    page.until(lambda: page.find("#pair").is_displayed())
    assert page.complaints() == []


def test_who_finds_nothing_to_do_waits_until_there_is(driver, store):
    source = "const plain = setTimeout; window.setTimeout = (call, ms) => plain(call, ms / 10);"
    command = "Page.addScriptToEvaluateOnNewDocument"
    fast = driver.execute_cdp_cmd(command, {"source": source})
    try:
        with served(store.add_items("two", made_items(2, d=1))) as site:
            ana = site.link("ana")
            lease = site.client.post(f"{ana}/next").json()["pairs"][0]["lease"]
            page = Page(driver, site, site.link("ben"))
            page.until(lambda: "nothing to ask now" in page.text("#notice"))
            assert not page.find("#pair").is_displayed()
            site.client.post(f"{ana}/answer", {"lease": lease, "answer": "left"})
            page.until(lambda: page.find("#pair").is_displayed())
            page.answer("1")
            driver.get("about:blank")  # an open page would go on asking the ended server
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", fast)


def test_markup_is_text_and_the_context_is_read_before_the_pair(driver, store):
    texts = tuple(f"{SCRIPT}\n  two  spaces {k}" for k in range(2))
    items = made_items(2, d=1, texts=texts, groups=("x", "x"), contexts=(f"First {SCRIPT}",) * 2)
    with opened(driver, store.add_items("grouped", items)) as (_, page):
        page.until(page.ready)
        assert {*page.pair} == {*texts}
        assert page.text("#context") == f"First {SCRIPT}"
        order = "return [...document.querySelectorAll('[tabindex=\"0\"], button')].map(e => e.id)"
        assert driver.execute_script(order)[0] == "context"
        page.answer("1")
        assert not page.find("#context").is_displayed()
        assert driver.title == "Which is better? – grouped"
        assert page.all(".item script, .item img, #context script") == []
        assert page.complaints() == []


def tap(driver, element) -> None:
    """Touch the middle of an element."""
    middle = "arguments[0].scrollIntoView({block: 'center'}); "
    middle += "const box = arguments[0].getBoundingClientRect();"
    middle += "return [box.x + box.width / 2, box.y + box.height / 2]"
    x, y = driver.execute_script(middle, element)
    for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


@contextmanager
def touched(driver) -> Iterator[None]:
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def check_buttons(page, width: int) -> None:
    """Check that nothing is wider than the screen, and that a thumb can reach every button."""
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
    buttons = [button for button in page.all("button") if button.is_displayed()]
    assert min(min(button.size.values()) for button in buttons) >= 44
    bottom = "return document.getElementById('bar').getBoundingClientRect().bottom - innerHeight"
    assert page.driver.execute_script(bottom) <= 0


def test_on_a_phone_it_works_by_taps(driver, store):
    texts = tuple("some words " * 100 + str(k) for k in range(6))
    collection = store.add_items("long", made_items(6, d=1, texts=texts))
    with touched(driver), seen(driver, "light", 360), served(collection) as site:
        service = site.pages.services[0]
        service.settle()
        left = {"questions": 90, "fewest": 45, "most": 140, "n_annotators": 2}
        service.remaining = replace(service.remaining, **left)
        page = Page(driver, site)
        assert "45 to 140 left" in page.text("#progress")
        check_buttons(page, 360)
        left, right = page.find("#left").rect, page.find("#right").rect
        assert left["y"] + left["height"] <= right["y"] and left["x"] == right["x"]
        assert page.text("#left h2") == "Upper"
        for n_answers, act in enumerate(("left", "right", "tie"), start=1):
            page.until(page.ready)
            tap(driver, page.find(f"[data-act={act}]"))
            page.until(lambda n_answers=n_answers: page.answered == n_answers)
        page.until(page.has_sent)
        assert [answer for *_, answer in stored(site)] == ["left", "right", "tie"]


def test_a_double_press_is_one_answer_and_keys_with_others_held_or_in_a_field_are_none(
    driver, site, page
):
    page.until(page.ready)
    keys = webdriver.ActionChains(driver)
    for held in (Keys.CONTROL, Keys.ALT):
        keys.key_down(held).send_keys("1").key_up(held)
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
    right = page.find("[data-act=right]")
    assert driver.switch_to.active_element == right
    assert right.value_of_css_property("outline-style") == "solid"
    page.answer(Keys.ENTER)
    page.answer(" ")  # presses the button that has the focus; does not skip
    assert driver.switch_to.active_element == right
    page.until(page.ready)
    page.find("[data-act=left]").click()  # by mouse: the next Space skips
    page.until(lambda: page.answered == 3)
    page.until(page.ready)
    page.answer(" ")
    assert [answer for *_, answer in stored(site)] == ["right", "right", "left", "skip"]


def test_an_answer_is_kept_and_sent_again_while_the_file_of_the_store_is_away(site, page, tmp_path):
    page.answer("1")
    file = tmp_path / "s.db"
    moved = file.rename(tmp_path / "moved.db")
    page.press("2")
    page.until(lambda: "cannot store answers now" in page.text("#notice"))
    moved.rename(file)
    page.until(lambda: [row[2] for row in stored(site)] == ["left", "right"])
    page.until(lambda: not page.find("#notice").is_displayed())


def test_answers_not_yet_sent_survive_a_reload(driver, site, page):
    page.until(page.ready)
    shown = page.pair
    driver.execute_script("window.fetch = () => Promise.reject(new TypeError('away'))")
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
        page.find("#right .text").click()  # ends the selection
        time.sleep(SOON)
        assert stored(site) == [] and page.answered == 0
        page.until(page.ready)
        webdriver.ActionChains(driver).double_click(page.find("#right .frame")).perform()
        page.until(lambda: page.answered == 1)
        page.until(page.ready)
        time.sleep(SOON)
        page.find("#left .text").click()
        page.until(lambda: len(stored(site)) == 2)
        assert [answer for *_, answer in stored(site)] == ["right", "left"]


def test_both_images_are_zoomed_moved_and_change_places_and_one_sound_plays(
    driver, store, tmp_path
):
    with opened(driver, store.add_items("pictures", pictures(tmp_path))) as (site, page):

        def transforms() -> str:
            images = "[...document.querySelectorAll('.frame img')]"
            one, other = driver.execute_script(f"return {images}.map((at) => at.style.transform)")
            assert one == other  # of both at once
            return one

        page.press("+")
        page.find("[data-act=zoom-in]").click()
        assert transforms() == "translate(0%, 0%) scale(2.25)"
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
        playing = "return [...document.querySelectorAll('audio')].map((at) => !at.paused)"
        driver.execute_script("for (const a of document.querySelectorAll('audio')) a.loop = true")
        for key, expected in (("a", [True, False]), ("s", [False, True]), ("s", [False, False])):
            page.press(key)
            page.until(lambda expected=expected: driver.execute_script(playing) == expected)
        assert stored(site) == [] and page.complaints() == []


def test_two_texts_are_compared_word_by_word_and_shown_as_markdown(driver, store):
    texts = (f"# A plan\n\nWe **measure** twice. {SCRIPT}", f"# A plan\n\nWe *cut* twice. {SCRIPT}")
    with opened(driver, store.add_items("plans", made_items(2, d=1, texts=texts))) as (_, page):
        page.press("d")
        page.until(lambda: page.text("#confirmation") == "What differs is marked.")
        assert {mark.text for mark in page.all("ins, del")} == {"*measure*", "cut"}
        assert {*page.pair} == {*texts}  # the whole texts are there
        page.press("d")
        assert page.all("ins, del") == []
        page.press("m")
        page.until(lambda: page.all(".item h3"))
        assert SCRIPT in page.text("#left .formatted")
        assert page.all("main script, main img") == []
        page.reload()  # it is remembered
        page.until(lambda: len(page.all(".item h3")) == 2)
        page.press("m")
        page.until(lambda: not page.all(".item h3"))
        cases = {
            ("", "x"): [[], [["x", False]]],
            ("a b c", "a x c d"): [
                [["a ", True], ["b", False], [" c", True]],
                [["a ", True], ["x", False], [" c", True], [" d", False]],
            ],
            ("x " * 9000, "y " * 9000): None,
        }
        for pair, expected in cases.items():
            assert driver.execute_script("return difference(...arguments)", *pair) == expected
        assert page.complaints() == []


def test_a_comment_and_a_flag_go_with_the_answer_and_come_back_with_an_undo(
    driver, site, page, clock
):
    def pressed() -> list[str]:
        script = "return ['comment', 'flag'].map((id) => $(id).getAttribute('aria-pressed'))"
        return driver.execute_script(script)

    page.press("c")
    page.until(lambda: page.find("#remark").is_displayed())
    webdriver.ActionChains(driver).send_keys("12 0z? fhm", Keys.ESCAPE).perform()
    page.until(lambda: not page.find("#remark").is_displayed())
    page.press("f")
    page.until(lambda: page.text("#confirmation") == "Flagged.")
    page.reload()  # neither is lost
    page.until(page.ready)
    assert pressed() == ["true", "true"]
    page.answer("1")
    assert pressed() == ["false", "false"]
    (judgement,) = site.pages.collection.judgements()
    assert (judgement.comment, judgement.flagged) == ("12 0z? fhm", True)
    page.press("z")
    page.until(lambda: page.answered == 0)
    page.until(page.ready)
    assert pressed() == ["true", "true"]
    clock.now += 601  # the lease has expired
    page.press("2")
    page.until(lambda: "Your comment was: 12 0z? fhm" in page.text("#notice"))
    page.until(page.ready)
    # An answer that the server refuses stays to be given, with its comment.
    page.press("c")
    driver.execute_script(
        "$('text').removeAttribute('maxlength'); $('text').value = 'x'.repeat(2001)"
    )
    webdriver.ActionChains(driver).send_keys("y", Keys.ESCAPE).perform()
    page.until(lambda: not page.find("#remark").is_displayed())
    shown = page.pair
    page.press("1")
    page.until(lambda: "at most 2000 characters" in page.text("#notice"))
    page.until(lambda: page.pair == shown)
    page.until(page.ready)
    assert pressed() == ["true", "false"]


def test_instructions_are_shown_first_and_under_a_key_and_may_change(driver, site):
    collection = site.pages.collection
    collection.decide(Decision("instructions", reason=f"Be **fair**. {SCRIPT}"))
    collection.decide(Decision("question", reason="Which is <b>clearer</b>?"))
    page = Page(driver, site)
    page.until(lambda: page.text("#instructions strong") == "fair")
    assert page.text("#question") == page.text("#manual-title") == "Which is <b>clearer</b>?"
    assert SCRIPT in page.text("#instructions")
    webdriver.ActionChains(driver).send_keys("1").perform()  # is no answer yet
    page.find("#manual .close").click()
    page.answer("1")
    assert len(stored(site)) == 1
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
    assert driver.title == "Which is kinder? – essays"
    assert page.complaints() == []


def test_two_tabs_of_one_link_lose_no_answer_without_a_word(driver, site, page):
    first = driver.current_window_handle
    page.until(page.ready)
    shown = page.pair
    driver.switch_to.new_window("tab")
    try:
        other = Page(driver, site)
        assert other.pair == shown
        other.answer("1")
    finally:
        driver.close()
        driver.switch_to.window(first)
    # The first tab looks again when it is seen.
    page.until(lambda: "answered in another tab" in page.text("#notice"))
    page.until(lambda: page.pair != shown)
    page.answer("2")
    assert [answer for *_, answer in stored(site)] == ["left", "right"]


def test_images_are_fetched_before_and_a_broken_one_is_said(driver, store, tmp_path):
    items = pictures(tmp_path, 8)
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with opened(driver, store.add_items("pictures", items)) as (site, page):
        page.until(lambda: "This sound cannot be played." in page.pair[0])
        images = page.all(".item img")
        page.until(lambda: all(i.get_attribute("naturalWidth") == "40" for i in images))
        fetched = "return performance.getEntriesByType('resource').map((e) => e.name)"
        ahead = "return queue.slice(1).flatMap((p) => [BASE + p.left.image, BASE + p.right.image])"
        paths = {site.base + path for path in driver.execute_script(ahead)}
        page.until(lambda: paths <= {*driver.execute_script(fetched)})
    for k in range(8):
        (tmp_path / f"{k}.png").write_bytes(b"half a file")
    with served(store.collection("pictures")) as site:
        page = Page(driver, site)
        page.until(lambda: all("This image cannot be shown." in side for side in page.pair))
        page.answer("1")


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
@pytest.mark.parametrize("screen", SIZES)
def test_axe_finds_no_violation_in_any_state(driver, store, tmp_path, screen):
    texts = ("# A `plan`\n\n- one\n- [two](https://e.example)\n\n|a|\n|-|\n|1|", "שלום " * 90) * 3
    more = {"groups": ("x",) * 6, "contexts": ("Of *what*?",) * 6}
    items = pictures(tmp_path, texts=texts, shown=({"by": "Ana"},) * 6, **more)
    collection = store.add_items("all", items)
    # Of texts on the shades of a card axe does not know the ground: it is that of a dialog.
    collection.decide(Decision("instructions", reason=f"Read **both**.\n\n{texts[0]}"))
    with seen(driver, *SIZES[screen]), opened(driver, collection) as (_, page):
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
        driver.execute_script("notice('That was answered. '.repeat(20))")
        found["formatted, with a notice"] = violations(driver)
        collection.decide(Decision("pause"))
        page.press("1")
        page.until(lambda: not page.find("#pair").is_displayed())
        found["paused"] = violations(driver)
        assert not any(found.values()), found


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("exclude", "No more questions: ana is excluded"),
        ("revoke", "This link was revoked"),
    ],
)
def test_an_open_page_says_why_nothing_more_is_asked(page, site, kind, said):
    page.answer("1")
    site.pages.collection.decide(Decision(kind, "ana"))
    page.press("1")
    page.until(lambda: said in page.text("#notice"))
    assert not page.find("#pair").is_displayed()
    assert len(site.pages.collection.judgements()) == 1
