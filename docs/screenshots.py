"""Pictures of the pages of `sortnet serve`: `python docs/screenshots.py [FOLDER]`.

Three made people sort the wishes of `requests.csv` by its column `worth`. Needs chromium and
chromedriver.
"""

from __future__ import annotations

import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from cli.web.app import make_app
from cli.web.guard import Names
from cli.web.page_service import People, page_service
from cli.web.server import kept_up, make_server
from sortnet.items import Items
from sortnet.items.features import describe
from sortnet.items.read_items import read_items
from sortnet.preference.study import Decision
from store import Collection, open_store
from store.service.labelling import LabellingService

REQUESTS = Path(__file__).with_name("requests.csv")
WORTH = "worth"
QUESTION = "Which request should be met first?"
GOAL = 0.05
ANSWERS = 72
PEOPLE = ("ana", "ben", "eva")
COLOURS = 64  # a small file


def main(folder: str = "docs") -> None:
    """Write label-page.png, label-phone.png and admin-page.png into the folder."""
    to = Path(folder)
    with tempfile.TemporaryDirectory() as made, open_store(Path(made) / "s.db") as store:
        collection = store.add_items("requests", describe(read_items(REQUESTS, ignore=[WORTH])))
        collection.decide(Decision("question", reason=QUESTION), Decision("goal", amount=GOAL))
        answer(LabellingService(collection, record=True), worth(read_items(REQUESTS)))
        with serving(collection) as (url, people), browser() as driver:
            driver.get(f"{url}/a/{people.tokens['ana']}")
            wait(driver, "#left .item > *")
            picture(driver, to / "label-page.png")
            driver.set_window_size(1200, 1500)
            driver.get(f"{url}/admin/{people.admin}")
            wait(driver, "#ranking tbody tr")
            picture(driver, to / "admin-page.png")
            phone = {"width": 390, "height": 780, "deviceScaleFactor": 1, "mobile": True}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
            driver.get(f"{url}/a/{people.tokens['ben']}")
            wait(driver, "#left .item > *")
            picture(driver, to / "label-phone.png")


def worth(items: Items) -> list[float]:
    """How good the made people think an item is."""
    scores = items.features[:, items.feature_names.index(WORTH)]
    return [float(score) for score in (scores - scores.mean()) / scores.std()]


def answer(service: LabellingService, scores: list[float]) -> None:
    rng = random.Random(1)
    for k in range(ANSWERS):
        lease = service.next(PEOPLE[k % 3])[0]
        margin = scores[lease.question.left] - scores[lease.question.right] + rng.gauss(0, 0.4)
        said = "tie" if abs(margin) < 0.1 else "left" if margin > 0 else "right"
        milliseconds = rng.randrange(1500, 9000)
        judgement = lease.question.answered(PEOPLE[k % 3], said, milliseconds=milliseconds)
        service.answer(lease.id, judgement)
        if k % 6 == 5:
            service.settle()
    service.close()


@contextmanager
def serving(collection: Collection) -> Iterator[tuple[str, People]]:
    pages = page_service(collection)
    people = People(collection)
    pages.services[0].settle()
    with socket.create_server(("127.0.0.1", 0)) as listening, kept_up([(pages, people)]):
        port = listening.getsockname()[1]
        server = make_server(make_app([(pages, people)], Names(frozenset({f"127.0.0.1:{port}"}))))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}", people
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--hide-scrollbars")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.set_window_size(1200, 860)
        yield driver


def wait(driver: webdriver.Chrome, selector: str) -> None:
    WebDriverWait(driver, 30).until(lambda _: driver.find_elements(By.CSS_SELECTOR, selector))
    time.sleep(0.5)


def picture(driver: webdriver.Chrome, path: Path) -> None:
    driver.save_screenshot(str(path))
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:2])
