"""The admin page in a browser: a ranking of images by pages, disputes, comments, what is asked."""

from __future__ import annotations

import pytest
from collection_helpers import made_items
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from test_web_browser import SCRIPT, SIZES, Page, pictures, seen, violations
from web_helpers import served

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
# In one script each, as the page redraws its tables at intervals.
LABELS = """
const row = document.querySelectorAll("#people tbody tr")[arguments[0]];
return [...row.querySelectorAll("button")].map((button) => button.textContent);
"""
FOCUS = "document.querySelectorAll(arguments[0])[arguments[1]].focus()"
FOCUSED = "return document.activeElement.getAttribute('aria-label')"
DEADLINE = """
const field = document.querySelector("[data-kind=deadline]");
field.value = arguments[0];
field.dispatchEvent(new Event("input", { bubbles: true }));
"""


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.db") as opened:
        yield opened


class Admin(Page):
    """The admin page of a site, once it shows a ranking."""

    def __init__(self, driver: webdriver.Chrome, site) -> None:
        for service in site.pages.services:
            service.settle()
        super().__init__(driver, site, site.admin)

    def reload(self) -> None:
        self.driver.get(self.url)
        self.until(lambda: self.column(0))

    def column(self, number: int) -> list[str]:
        return self.driver.execute_script(ROWS, number)

    def enter_at(self, selector: str, place: int = 0) -> None:
        """Enter at a button, as a table may be drawn again while the mouse is on its way."""
        self.driver.execute_script(FOCUS, selector, place)
        webdriver.ActionChains(self.driver).send_keys(Keys.ENTER).perform()

    def write(self, kind: str, text: str) -> None:
        field = self.find(f"[data-kind={kind}]")
        field.clear()
        field.send_keys(text)


def test_a_ranking_of_images_is_paged_and_sorted_and_stays_small(driver, store, tmp_path):
    for name in ("wide.png", "high.png"):
        Image.new("RGB", (3000, 40) if name == "wide.png" else (40, 3000)).save(tmp_path / name)
    images = ("wide.png", "high.png") * 30
    items = made_items(60, d=1, texts=(None,) * 60, images=images, root=tmp_path)
    with served(store.add_items("pictures", items)) as site:
        admin = Admin(driver, site)
        assert len(admin.all("#ranking .thumb img")) == len(admin.all("#ranking svg .bar")) == 50
        assert driver.execute_script(SIZE, "offsetWidth") <= 100
        assert driver.execute_script(SIZE, "offsetHeight") <= 60
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 1200
        assert admin.column(0) == [str(rank) for rank in range(1, 51)]
        admin.enter_at("#pager button:last-child")
        admin.until(lambda: admin.column(0) == [str(rank) for rank in range(51, 61)])
        assert not admin.find("#pager button:last-child").is_enabled()
        admin.enter_at("#ranking th:nth-child(2) button")
        admin.until(lambda: admin.column(1)[:2] == ["i0", "i1"])
        assert admin.text("#page") == "Page 1 of 2"
        assert admin.find("th:nth-child(2)[scope=col][aria-sort]")
        admin.enter_at("#ranking th:nth-child(2) button")
        admin.until(lambda: admin.column(1)[:2] == ["i9", "i8"])
        admin.find("#find").send_keys("i5")
        admin.until(lambda: len(admin.column(1)) == 11)
        assert admin.complaints() == []


@pytest.fixture
def replies(store):
    """Two criteria, by one of which two annotators disagree, one of them in wicked words."""
    collection = store.add_items("replies", made_items(6, d=1))
    for name in ("clear", "kind"):
        collection.annotator("ana")
        collection.add_criterion(name)
    store.collection("replies:kind").append(
        [
            Judgement.of("ana", (0, 1), "left", comment=f"short {SCRIPT}", at=1e9),
            Judgement.of("ben", (1, 0), "left", flagged=True, at=2e9),
        ]
    )
    with served(store.collection("replies")) as site:
        yield site


def test_the_admin_changes_what_is_asked(driver, replies):
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    try:
        admin = Admin(driver, replies)
        admin.until(lambda: admin.find("[data-kind=question]").get_attribute("value"))
        admin.enter_at("#study-title + details summary")
        admin.until(lambda: admin.find("#study").is_displayed())
        admin.write("question", "thrown away")
        admin.enter_at("#discard")
        admin.until(lambda: not admin.find("#save").is_enabled())
        admin.write("question", f"Which is clearer? {SCRIPT}")
        admin.write("instructions", "# Read\n\nboth.")
        admin.write("goal", "7.5")
        driver.execute_script(DEADLINE, "2040-01-02T03:30")
        driver.execute_script("shownKey = ''; refresh()")  # what is written stays
        admin.enter_at("#save")
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
        admin.enter_at("#study-title + details summary")
        admin.write("goal", "60")  # more than half of the pairs
        assert not admin.find("#save").is_enabled()
        assert admin.complaints() == []
    finally:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


def test_who_watches_sees_how_far_each_group_is(driver, store):
    items = made_items(6, d=1, groups=("x", "x", "x", "y", "y", SCRIPT))
    with served(store.add_items("grouped", items)) as site:
        admin = Admin(driver, site)
        admin.find("#groups summary").click()
        rows = [row.text for row in admin.all("#groups tbody tr")]
        assert len(rows) == 3 and rows[-1].startswith(f"{SCRIPT} 1 0 0 %")
        of_x = next(row for row in range(3) if rows[row].startswith("x 3 0 "))
        admin.all("#groups tbody button")[of_x].click()
        admin.until(lambda: admin.column(0) == ["1", "2", "3"])


@pytest.mark.slow
@pytest.mark.parametrize("screen", SIZES)
def test_axe_finds_no_violation_in_refusals_and_a_full_admin_page(
    driver, store, tmp_path, monkeypatch, screen
):
    points = [{"answers": n, "expected": n / 20, "holdout": n / 30} for n in (5, 10)]
    monkeypatch.setattr("cli.web.admin_state.growth_of", lambda *_: points)
    collection = store.add_items("all", pictures(tmp_path, groups=("x",) * 3 + ("y",) * 3))
    said = [
        Judgement.of("ana", (0, 1), "left", comment="short", at=1e9),
        Judgement.of("ben", (1, 0), "left", flagged=True, at=2e9),
    ]
    collection.append(said)
    collection.decide(Decision("gold", item=1, other=2), Decision("top", amount=2))
    with seen(driver, *SIZES[screen]), served(collection) as site:
        driver.get(f"{site.base}/a/unknown")
        assert driver.find_element("css selector", "main.fault p")
        found = {"unknown link": violations(driver)}
        admin = Admin(driver, site)
        admin.until(lambda: admin.find("#disputed").is_displayed())
        assert "In the top" in admin.text("#ranking thead")
        picture = admin.find("#curve img")
        assert picture.get_attribute("alt").startswith("After 10 answers")
        assert int(picture.get_property("naturalWidth")) > 100  # the policy allows it
        driver.execute_script(
            "for (const at of document.querySelectorAll('details')) at.open = true"
        )
        found["admin"] = violations(driver)
        collection.decide(Decision("deadline", amount=1.0))
        page = Page(driver, site)
        page.until(lambda: "deadline" in page.text("#notice"))
        found["deadline"] = violations(driver)
    driver.get_log("browser")
    assert not any(found.values()), found


@pytest.fixture
def admin(driver, store):
    """The admin page of six items and one annotator."""
    with served(store.add_items("essays", made_items(6, d=1))) as site:
        site.link("ana")
        yield Admin(driver, site)


def test_the_admin_makes_a_link_and_decides_about_it_by_keys_and_undoes_it(admin, driver):
    def labels() -> list[str]:
        return driver.execute_script(LABELS, 1)

    eve, site = f"eve {SCRIPT}", admin.site
    admin.find("#name").send_keys(eve)
    admin.find("#add").click()
    admin.until(lambda: "/a/" in admin.text("#added"))
    admin.until(lambda: len(admin.all("#people tbody tr")) == 2)
    assert admin.text("#people tbody tr:nth-child(2) th") == eve
    link = admin.find("#people tr:nth-child(2) a").get_attribute("href")
    assert site.client.get(link.removeprefix(site.base)).status == 200
    before, after = ["Exclude", "Pause", "Revoke link"], ["Include", "Resume", "New link"]
    for place in range(3):
        admin.enter_at("#people tbody tr:nth-child(2) button", place)
        for label in (after[place], before[place]):
            admin.until(lambda label=label, place=place: labels()[place] == label)
            # The focus stays in its place, so that Enter undoes it.
            assert driver.execute_script(FOCUSED) == f"{label}: {eve}"
            if label in after:
                webdriver.ActionChains(driver).send_keys(Keys.ENTER).perform()
    for label in ("Resume everybody", "Pause everybody"):
        admin.find("#pause").click()
        admin.until(lambda label=label: admin.text("#pause") == label)
    kinds = [decision.kind for decision in site.pages.collection.decisions()]
    expected = ["exclude", "include", "pause", "resume", "revoke", "renew", "pause", "resume"]
    assert kinds == expected
    assert admin.complaints() == []
