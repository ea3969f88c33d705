"""The admin page in a browser: a ranking of images by pages, disputes, comments, what is asked."""

from __future__ import annotations

import pytest
from collections_made import made_items
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from test_web_browser import CONTRAST, SCRIPT, WAIT
from web_made import served

from sortnet.preference import Judgement
from sortnet.preference.study import Decision
from store import open_store

pytestmark = pytest.mark.browser

ROWS = """
const rows = [...document.querySelectorAll("#ranking tbody tr")];
return rows.map((row) => row.cells[arguments[0]].innerText);
"""
SIZE = """
const thumbs = [...document.querySelectorAll(".thumb")];
return Math.max(...thumbs.map((thumb) => thumb[arguments[0]]));
"""
DEADLINE = """
const field = document.querySelector("[data-kind=deadline]");
field.value = arguments[0];
field.dispatchEvent(new Event("input", { bubbles: true }));
"""


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


class Admin:
    """The admin page of a site, once it shows a ranking."""

    def __init__(self, browser: webdriver.Chrome, site) -> None:
        self.browser, self.site = browser, site
        browser.get_log("browser")  # of earlier pages
        for service in site.pages.services:
            service.settle()
        browser.get(site.base + site.admin)
        self.until(lambda: self.column(0))

    def find(self, selector: str):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.find(selector).text

    def column(self, number: int) -> list[str]:
        return self.browser.execute_script(ROWS, number)

    def until(self, true) -> None:
        WebDriverWait(self.browser, WAIT, 0.02).until(lambda _: true())

    def press(self, selector: str) -> None:
        """Enter at a button, as a table may be drawn again while the mouse is on its way."""
        self.browser.execute_script(f"document.querySelector({selector!r}).focus()")
        webdriver.ActionChains(self.browser).send_keys(Keys.ENTER).perform()

    def write(self, kind: str, text: str) -> None:
        field = self.find(f"[data-kind={kind}]")
        field.clear()
        field.send_keys(text)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


def test_a_ranking_of_images_is_paged_and_sorted_and_stays_small(driver, store, tmp_path):
    for name in ("wide.png", "high.png"):
        Image.new("RGB", (3000, 40) if name == "wide.png" else (40, 3000)).save(tmp_path / name)
    images = ("wide.png", "high.png") * 30
    items = made_items(60, d=1, texts=(None,) * 60, images=images, root=tmp_path)
    with served(store.add_items("pictures", items)) as site:
        admin = Admin(driver, site)
        thumbs = driver.find_elements(By.CSS_SELECTOR, "#ranking .thumb img")
        assert len(thumbs) == 50
        assert {thumb.get_attribute("loading") for thumb in thumbs} == {"lazy"}
        admin.until(lambda: thumbs[0].get_attribute("naturalWidth") in ("3000", "40"))
        assert driver.execute_script(SIZE, "offsetWidth") <= 100
        assert driver.execute_script(SIZE, "offsetHeight") <= 60
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 1200
        ranks = admin.column(0)
        assert ranks == [str(rank) for rank in range(1, 51)]
        admin.press("#pager button:last-child")
        admin.until(lambda: admin.column(0) == [str(rank) for rank in range(51, 61)])
        assert (
            admin.text("#page") == "Page 2 of 2"
            and not admin.find("#pager button:last-child").is_enabled()
        )
        admin.press("#ranking th:nth-child(2) button")
        admin.until(lambda: admin.column(1)[:2] == ["i0", "i1"])
        assert admin.text("#page") == "Page 1 of 2"
        assert admin.find("th:nth-child(2)[scope=col][aria-sort]")
        admin.press("#ranking th:nth-child(2) button")
        admin.until(lambda: admin.column(1)[:2] == ["i9", "i8"])
        admin.find("#find").send_keys("i5")
        admin.until(lambda: len(admin.column(1)) == 11)
        assert not driver.find_elements(By.CSS_SELECTOR, "#pager button")
        assert "11 of 60 items found" in admin.text("#caption")
        assert admin.complaints() == []


@pytest.fixture
def replies(store):
    """Two criteria, by one of which two annotators disagree, one of them in wicked words."""
    collection = store.add_items("replies", made_items(6, d=1))
    said = [
        Judgement("ana", 0, 1, "left", comment=f"short {SCRIPT}", at=1e9),
        Judgement("ben", 1, 0, "left", flagged=True, at=2e9),
        *(Judgement("ana", n, n + 1, "right") for n in range(1, 5)),
    ]
    for name in ("clear", "kind"):
        collection.annotator("ana")
        collection.add_criterion(name)
    store.collection("replies:kind").append(said)
    with served(store.collection("replies")) as site:
        yield site


def test_the_admin_sees_what_was_said_by_each_criterion(driver, replies):
    admin = Admin(driver, replies)
    assert "There are none" in admin.text("#disputed-about")
    assert not admin.find("#disputed").is_displayed()
    Select(admin.find("#criterion")).select_by_value("kind")
    admin.until(lambda: admin.find("#disputed").is_displayed())
    assert admin.text("#disputed tbody tr") == "text 0\nBetter: ana\ntext 1\nBetter: ben\n–"
    assert admin.text("#comments tbody tr:first-child .flag") == "⚑ flagged"
    assert admin.text("#comments tbody tr:nth-child(2) .said") == f"short {SCRIPT}"
    assert driver.title == "replies – ranking and annotators"
    assert "criterion=kind" in admin.find("a[download]").get_attribute("href")
    kind = replies.pages.services[1]
    for left, right in ((0, 2), (0, 3), (0, 4), (0, 5), (1, 4), (1, 5)):
        kind.collection.append([Judgement("ana", left, right, "left")])
    assert not admin.find("#curve").is_displayed()  # a curve has two points

    def bright() -> bool:
        found = driver.execute_script(CONTRAST)
        return len(found) > 60 and min(contrast for contrast, _ in found) >= 4.5

    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        try:
            admin.until(bright)  # colours change slowly
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert admin.complaints() == []


def test_the_admin_changes_what_is_asked(driver, replies):
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    try:
        admin = Admin(driver, replies)
        admin.until(lambda: admin.find("[data-kind=question]").get_attribute("value"))
        admin.press("#study-title + details summary")
        admin.until(lambda: admin.find("#study").is_displayed())
        assert "Asia/Calcutta" in admin.text("#zone") or "Asia/Kolkata" in admin.text("#zone")
        assert not admin.find("#save").is_enabled()
        admin.write("question", "thrown away")
        admin.press("#discard")
        admin.until(lambda: not admin.find("#save").is_enabled())
        admin.write("question", f"Which is clearer? {SCRIPT}")
        admin.write("instructions", "# Read\n\nboth.")
        admin.write("goal", "7.5")
        driver.execute_script(DEADLINE, "2040-01-02T03:30")
        driver.execute_script("known = ''; refresh()")  # what is written stays
        admin.press("#save")
        clear, kind = replies.pages.services
        admin.until(lambda: clear.study.deadline and not admin.find("#save").is_enabled())
        assert clear.study.deadline == kind.study.deadline == 2209068000  # 2040-01-01 22:00 UTC
        assert clear.study.question == f"Which is clearer? {SCRIPT}"
        assert kind.study.question == "Which is better?"
        assert clear.study.instructions == kind.study.instructions == "# Read\n\nboth."
        assert clear.study.goal == kind.study.goal == 0.075
        driver.refresh()
        shown = "return fields().map((field) => field.value)"
        expected = [clear.study.question, "# Read\n\nboth.", "", "7.5", "2040-01-02T03:30"]
        admin.until(lambda: driver.execute_script(shown) == expected)
        assert admin.text("#asked").startswith(f"{clear.study.question} Goal: at most 7.5 % of")
        admin.press("#study-title + details summary")
        admin.write("goal", "60")
        assert not admin.find("#save").is_enabled()
        assert admin.complaints() == []
    finally:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_the_curve_is_drawn_and_without_its_goal_for_a_top(driver, store, monkeypatch):
    collection = store.add_items("essays", made_items(6, d=1))
    points = [{"answers": n, "expected": 0.5 + n / 40, "holdout": n / 20} for n in (5, 10, 15)]
    monkeypatch.setattr("cli.web.admin_state._curve", lambda *_: points)
    with served(collection) as site:
        admin = Admin(driver, site)
        assert len(driver.find_elements(By.CSS_SELECTOR, "#curve circle.expected")) == 3
        assert admin.find("#curve svg").get_attribute("aria-label").startswith("After 15 answers")
        assert len(driver.find_elements(By.CSS_SELECTOR, "#curve line.goal")) == 1
        assert "In the top" not in admin.text("#ranking thead")
        collection.decide(Decision("top", amount=2))
        site.pages.services[0].sync()
        site.pages.services[0].settle()
        admin.until(lambda: "In the top" in admin.text("#ranking thead"))
        assert admin.text("#asked").endswith("Goal: the top 2, at most 0 of them wrong")
        assert not driver.find_elements(By.CSS_SELECTOR, "#curve line.goal")
        assert "Share of the top 2 that belong there" in admin.text("#curve figcaption")
