"""Pictures of the pages of `sortnet serve`: `python docs/screenshots.py [FOLDER]`.

All is done by commands, as a user would. Three programs in place of people sort the wishes of
`requests.csv` by its column `worth`, and drawn landscapes. Needs chromium and chromedriver.
"""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

DOCS = Path(__file__).resolve().parent
PEOPLE = ("ana", "ben", "eva")
ANSWERS = 24  # of each person
COLOURS = 64  # a small file
LANDSCAPES = 8
SKIES = ("#5a96d7", "#fabe8c", "#6b4a84", "#aac8d7")
READY = "#left .item > *, #place-0 .item > *, #ranking tbody tr"
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
# Answers as a person with an opinion would, who is unsure of close items.
JUDGE = """
import csv, json, random, sys, time

worth = {row["id"]: float(row["worth"]) for row in csv.DictReader(open(sys.argv[1]))}
noise = float(sys.argv[2])
rng = random.Random(sys.argv[3])
for k, line in enumerate(sys.stdin):
    time.sleep(1)  # the admin page shows answers a minute
    question = json.loads(line)
    left, right = (worth[question[side]["id"]] for side in ("left", "right"))
    margin = left - right + rng.gauss(0, noise)
    answer = {"answer": "tie" if abs(margin) < noise / 4 else "left" if margin > 0 else "right"}
    answer["seconds"] = rng.uniform(1.5, 9)
    if k % 7 == 3:
        answer["comment"] = rng.choice(["Hard to say.", "Both are good.", "Very close."])
    if k % 11 == 5:
        answer["flag"] = True
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes:
        file: the name of the file.
        page: whose page it is: an annotator's, or `admin`.
        keys: keys that are pressed before.
        size: width and height in pixels.
        at: id of the element at the top.
        dark: whether the system is dark.
    """

    file: str
    page: str = "ana"
    keys: str = ""
    size: tuple[int, int] = (1200, 720)
    at: str = ""
    dark: bool = False


PICTURES = {
    "requests": (
        Picture("label-page.png"),
        Picture("admin-page.png", "admin", size=(1200, 1135)),
        Picture("label-phone.png", "ben", size=(390, 780)),
    ),
    "fours": (
        Picture("label-four.png", keys="2", size=(1200, 640)),
        Picture("label-four-phone.png", keys="2", size=(390, 780), dark=True),
    ),
    "views": (
        Picture("label-images.png", keys="+"),
        Picture("admin-disputed.png", "admin", at="disputed-title", size=(1200, 1010)),
    ),
    "answers": (
        Picture("label-instructions.png"),
        Picture("label-formatted.png", keys="hm", dark=True),
    ),
    "drafts": (Picture("label-difference.png", keys="d", size=(1200, 560)),),
}


def main(folder: str = str(DOCS)) -> None:
    """Write label-*.png and admin-*.png into the folder."""
    with tempfile.TemporaryDirectory() as home, browser() as driver:
        os.environ["SORTNET_STORE"] = f"{home}/s.db"
        add_collections(Path(home))
        for name, pictures in PICTURES.items():
            with serving(name) as links:
                for picture in pictures:
                    show(driver, links[picture.page], picture, Path(folder))


def add_collections(home: Path) -> None:
    """Add the collections, and the answers of three people to two of them."""
    (home / "judge.py").write_text(JUDGE)
    (home / "rules.md").write_text(RULES)
    requests = DOCS / "requests.csv"
    for name in ("requests", "fours"):
        sortnet("items", "add", name, str(requests), "--ignore", "worth")
        sortnet("ask", name, "--question", "Which request should be met first?")
    sortnet("ask", "requests", "--goal", "0.05")
    sortnet("ask", "fours", "--set-size", "4")
    add_answers("requests", home / "judge.py", requests, noise=1.0)

    views: list[dict[str, object]] = []
    for k in range(LANDSCAPES):
        file = f"view-{k}.png"
        landscape(k).save(home / file)
        views.append({"id": f"view-{k}", "image": file, "worth": k % 5})
    sortnet("items", "add", "views", str(table(home / "views.csv", views)), "--ignore", "worth")
    sortnet("ask", "views", "--question", "Which picture would you hang on your wall?")
    add_answers("views", home / "judge.py", home / "views.csv", noise=3.0)

    replies = [{"id": k, "prompt": PROMPT, "reply": text} for k, text in enumerate(REPLIES, 1)]
    path = str(table(home / "answers.csv", replies))
    sortnet("items", "add", "answers", path, "--group", "prompt", "--context", "prompt")
    for criterion in ("helpful", "honest"):
        question = f"Which answer is more {criterion}?"
        sortnet("ask", "answers", "--criterion", criterion, "--question", question)
    sortnet("ask", "answers", "--instructions", str(home / "rules.md"))

    drafts = [{"id": k, "text": text} for k, text in enumerate(DRAFTS, 1)]
    sortnet("items", "add", "drafts", str(table(home / "drafts.csv", drafts)))
    sortnet("ask", "drafts", "--question", "Which wording is clearer?")


def add_answers(name: str, judge: Path, worth: Path, noise: float) -> None:
    """Let three programs answer under the names of people."""
    for person in PEOPLE:
        command = f"{sys.executable} {judge} {worth} {noise} {person}"
        sortnet("label", name, "--judge", command, "--as", person, "--number", str(ANSWERS))
        sortnet("ask", name, "--kind", person, "person")


def sortnet(*words: str) -> None:
    """Run a command."""
    command = [sys.executable, "-m", "sortnet", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def table(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def landscape(k: int, width: int = 900, height: int = 620) -> Image.Image:
    """Draw hills before a sky with a sun."""
    rng = random.Random(k)
    image = Image.new("RGB", (width, height), SKIES[k % len(SKIES)])
    draw = ImageDraw.Draw(image)
    x, y = rng.randrange(80, width - 80), rng.randrange(60, 180)
    draw.ellipse((x - 34, y - 34, x + 34, y + 34), fill=(255, 244, 214))
    for layer in range(4):
        colour = (96 - 18 * layer, 132 - 24 * layer, 112 - 20 * layer)
        for _ in range(4):
            x = rng.randrange(width)
            radius = rng.randrange(150, 400)
            top = height * (0.42 + 0.14 * layer)
            draw.ellipse((x - radius, top, x + radius, height * 2), fill=colour)
    return image


@contextmanager
def serving(name: str) -> Iterator[Mapping[str, str]]:
    """Serve a collection; the links by annotator, and that of the admin page."""
    words = ["serve", name, "--port", "0", "--annotator", "ana", "--annotator", "ben"]
    command = [sys.executable, "-m", "sortnet", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        links: dict[str, str] = {}
        for line in server.stdout:
            if match := re.search(r"(\S+): (http://\S+)", line):
                links[match[1]] = match[2]
            if "admin" in links:  # the last link
                break
        try:
            yield links
        finally:
            server.terminate()


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Start a browser without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--hide-scrollbars")
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        driver.set_window_size(1200, 860)
        yield driver


def show(driver: webdriver.Chrome, link: str, picture: Picture, folder: Path) -> None:
    """Take a picture of a page, with few colours."""
    width, height = picture.size
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if picture.dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(link)
    _until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, READY))
    for key in picture.keys:
        webdriver.ActionChains(driver).send_keys(key).perform()
    if picture.at:
        driver.execute_script("document.getElementById(arguments[0]).scrollIntoView()", picture.at)
    time.sleep(1)  # what fades in
    path = folder / picture.file
    driver.save_screenshot(str(path))
    with Image.open(path) as image:
        few_colours = image.convert("RGB").quantize(COLOURS)
    few_colours.save(path, optimize=True)


def _until(driver: webdriver.Chrome, condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    WebDriverWait(driver, 60, 0.1).until(lambda _: condition())
    time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:2])
