"""Pictures of the pages of `sortnet serve`: `python docs/screenshots.py [FOLDER]`.

Three made people sort the wishes of `requests.csv` by its column `worth`, drawn landscapes, and
answers to a question. Needs chromium and chromedriver.
"""

from __future__ import annotations

import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import sin
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from cli.web.app import make_app
from cli.web.guard import Names
from cli.web.pages import Pages, People
from cli.web.server import keep_up_to_date, make_server
from sortnet.items import Items
from sortnet.items.features import describe
from sortnet.items.read_items import read_items
from sortnet.preference import Answer
from sortnet.preference.study import Decision
from store import Collection, Store, open_store
from store.service.labelling import LabellingService

REQUESTS = Path(__file__).with_name("requests.csv")
WORTH = "worth"
QUESTION = "Which request should be met first?"
GOAL = 0.05
ANSWERS = 72
SECONDS = 3  # from one answer to the next
PEOPLE = ("ana", "ben", "eva")
COLOURS = 64  # a small file
QUESTIONS = {"helpful": "Which answer is more helpful?", "honest": "Which answer is more honest?"}
RULES = """# What counts

Prefer the answer that **solves the task** and says why.

1. Does the code run?
2. Is it explained?

Length does not count. If both are wrong, press `0`.
"""
PROMPT = "How do I reverse a list in Python?"
REPLIES = (
    "Slice it:\n\n```python\nnumbers = [1, 2, 3]\nprint(numbers[::-1])  # [3, 2, 1]\n```\n\n"
    "- It makes a **copy**.\n- `numbers.reverse()` changes the list in place.",
    "Use `reversed`:\n\n```python\nfor number in reversed([1, 2, 3]):\n    print(number)\n```\n\n"
    "It is an *iterator*: nothing is copied.",
)
DRAFTS = (
    "The library should stay open until eight on two evenings a week, because most people work "
    "until five.",
    "The library could stay open until eight on Fridays, because most people work until five.",
)
COMMENTS = ("Hard to say: both are dark.", "The left one is cropped at the top.", "Same place?")


def main(folder: str = "docs") -> None:
    """Write label-*.png and admin-*.png into the folder."""
    to = Path(folder)
    with (
        tempfile.TemporaryDirectory() as made,
        browser() as driver,
        open_store(Path(made) / "s.db") as store,
    ):
        _of_requests(store, driver, to)
        _of_photos(store, driver, to, Path(made))
        _of_answers(store, driver, to)
        _of_drafts(store, driver, to)


def _of_requests(store: Store, driver: webdriver.Chrome, to: Path) -> None:
    collection = store.add_items("requests", describe(read_items(REQUESTS, ignore=[WORTH])))
    collection.decide(Decision("question", reason=QUESTION), Decision("goal", amount=GOAL))
    answer(LabellingService(collection, record=True), worth(read_items(REQUESTS)))
    with serving(collection) as (url, people):
        show(driver, f"{url}/a/{people.tokens['ana']}", to / "label-page.png")
        admin = f"{url}/admin/{people.admin}"
        show(driver, admin, to / "admin-page.png", size=(1200, 1135), ready="#ranking tbody tr")
        show(driver, f"{url}/a/{people.tokens['ben']}", to / "label-phone.png", size=(390, 780))
    _of_fours(store, driver, to)


def _of_fours(store: Store, driver: webdriver.Chrome, to: Path) -> None:
    items = describe(read_items(REQUESTS, ignore=[WORTH]))
    settings = {"holdout": 0, "repeats": 0}  # no pairs
    collection = store.add_items("fours", items, settings=settings)
    collection.decide(Decision("question", reason=QUESTION), Decision("set-size", amount=4))
    collection.annotator("ana")
    with serving(collection) as (url, people):
        link = f"{url}/a/{people.tokens['ana']}"
        fours: dict[str, Any] = {"ready": "#place-0 .item > *", "keys": "2"}
        show(driver, link, to / "label-four.png", size=(1200, 640), **fours)
        show(driver, link, to / "label-four-phone.png", size=(390, 780), dark=True, **fours)


def _of_photos(store: Store, driver: webdriver.Chrome, to: Path, folder: Path) -> None:
    names = tuple(f"view-{k}.png" for k in range(8))
    for k, name in enumerate(names):
        landscape(k).save(folder / name)
    collection = store.add_items("views", _items(images=names, root=folder))
    question = "Which picture would you hang on your wall?"
    collection.decide(Decision("question", reason=question))
    answer(LabellingService(collection), [float(k % 5) / 2 for k in range(8)], noise=1.5)
    with serving(collection) as (url, people):
        show(driver, f"{url}/a/{people.tokens['ana']}", to / "label-images.png", keys="+")
        found: dict[str, Any] = {
            "ready": "#ranking tbody tr",
            "at": "disputed-title",
            "size": (1200, 1010),
        }
        show(driver, f"{url}/admin/{people.admin}", to / "admin-disputed.png", **found)


def _of_answers(store: Store, driver: webdriver.Chrome, to: Path) -> None:
    items = _items(texts=REPLIES, groups=("list",) * 2, contexts=(PROMPT,) * 2)
    collection = store.add_items("answers", items)
    for name, question in QUESTIONS.items():
        collection.add_criterion(name).decide(Decision("question", reason=question))
    collection.annotator("ana")
    collection.decide(Decision("instructions", reason=RULES))
    with serving(collection) as (url, people):
        link = f"{url}/a/{people.tokens['ana']}"
        show(driver, link, to / "label-instructions.png")
        show(driver, link, to / "label-formatted.png", keys="hm", dark=True)


def _of_drafts(store: Store, driver: webdriver.Chrome, to: Path) -> None:
    collection = store.add_items("drafts", _items(texts=DRAFTS))
    collection.decide(Decision("question", reason="Which wording is clearer?"))
    collection.annotator("ana")
    with serving(collection) as (url, people):
        link = f"{url}/a/{people.tokens['ana']}"
        show(driver, link, to / "label-difference.png", keys="d", size=(1200, 560))


def _items(**facts: Any) -> Items:
    """Items of these facts, with a number each that says nothing."""
    n = len(facts.get("texts") or facts["images"])
    nothing = {"texts": (None,) * n, "images": (None,) * n, "audio": (None,) * n, "root": None}
    numbers = np.arange(n, dtype=np.float32)[:, None]
    made = {"ids": tuple(f"{k + 1}" for k in range(n)), "features": numbers}
    return Items(**{**nothing, **made, "feature_names": ("number",), **facts})


def landscape(k: int, width: int = 900, height: int = 620) -> Image.Image:
    """Hills before a sky."""
    sky = np.array([(90, 150, 215), (250, 190, 140), (60, 40, 90), (170, 200, 215)][k % 4])
    fade = np.linspace(0.55, 1.25, height)[:, None, None]
    rows = np.broadcast_to(np.clip(sky * fade, 0, 255), (height, width, 3))
    image = Image.fromarray(rows.astype(np.uint8))
    draw, rng = ImageDraw.Draw(image), random.Random(k)
    x, y = rng.randrange(80, width - 80), rng.randrange(60, 180)
    draw.ellipse((x - 34, y - 34, x + 34, y + 34), fill=(255, 244, 214))
    for layer in range(4):
        phases = [6 * rng.random() for _ in range(4)]
        line = [
            (x, height * (0.45 + 0.13 * layer) - sum(_wave(x / width, j, phases) for j in range(4)))
            for x in range(0, width + 10, 10)
        ]
        colour = tuple(int(part * (0.8 - 0.17 * layer)) for part in (96 + 18 * (k % 3), 132, 112))
        for (a, top), (b, end) in pairwise(line):
            draw.polygon([(a, top), (b, end), (b, height), (a, height)], fill=colour)
    return image


def _wave(x: float, j: int, phases: Sequence[float]) -> float:
    return 50 / (j + 1) * sin((5 * j + 4) * x + phases[j])


def worth(items: Items) -> list[float]:
    """How good the made people think an item is."""
    scores = items.features[:, items.feature_names.index(WORTH)]
    return [float(score) for score in (scores - scores.mean()) / scores.std()]


def answer(service: LabellingService, scores: list[float], *, noise: float = 0.4) -> None:
    rng = random.Random(1)
    start, now = time.time() - ANSWERS * SECONDS, [0.0]
    service.collection.clock = lambda: now[0]
    for k in range(ANSWERS):
        now[0] = start + SECONDS * k
        found = service.next(PEOPLE[k % 3])
        if not found:
            continue
        lease = found[0]
        margin = scores[lease.question.left] - scores[lease.question.right] + rng.gauss(0, noise)
        said: Answer = "tie" if abs(margin) < 0.1 else "left" if margin > 0 else "right"
        milliseconds = rng.randrange(1500, 9000)
        facts: dict[str, Any] = {"comment": rng.choice(COMMENTS) if k % 19 == 7 else None}
        facts |= {"milliseconds": milliseconds, "flagged": k % 31 == 9 or None}
        judgement = lease.question.answered(PEOPLE[k % 3], said, **facts)
        service.answer(lease.id, judgement)
        if k % 6 == 5:
            service.settle()
    service.close()


@contextmanager
def serving(collection: Collection) -> Iterator[tuple[str, People]]:
    pages = Pages(collection)
    people = People(collection)
    for each in pages.services:
        each.settle()
    with socket.create_server(("127.0.0.1", 0)) as listening, keep_up_to_date([(pages, people)]):
        port = listening.getsockname()[1]
        server = make_server(make_app([(pages, people)], Names(frozenset({"127.0.0.1"}))))
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


def show(
    driver: webdriver.Chrome,
    link: str,
    path: Path,
    *,
    keys: str = "",
    size: tuple[int, int] = (1200, 720),
    ready: str = "#left .item > *",
    at: str = "",
    dark: bool = False,
) -> None:
    """Take a picture of a page, after these keys; `at` is the element at its top."""
    screen = dict(zip(("width", "height"), size, strict=True))
    screen |= {"deviceScaleFactor": 1, "mobile": size[0] < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(link)
    _until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, ready))
    for key in keys:
        webdriver.ActionChains(driver).send_keys(key).perform()
        _until(driver, lambda: driver.execute_script("return !sending && shown !== null"))
    if at:
        driver.execute_script("document.getElementById(arguments[0]).scrollIntoView()", at)
    time.sleep(1)  # what fades in
    driver.save_screenshot(str(path))
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(COLOURS)
    small.save(path, optimize=True)


def _until(driver: webdriver.Chrome, true: Callable[[], object]) -> None:
    WebDriverWait(driver, 60, 0.1).until(lambda _: true())
    time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:2])
