"""Make the example files of the how-tos from a seed: tables, LETOR text, texts and pictures."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

N_SEARCHES = 60
N_PRODUCTS = 10  # products that a search shows
KINDS = ("road", "city", "mountain", "cargo", "folding", "touring")
USES = ("commuting", "racing", "children", "shopping", "gravel", "winter", "hills", "camping")
COLOURS = ("red", "blue", "green", "black")
STATES = ("hardly used", "well kept", "with new tyres", "a little worn", "with a rusty chain")
FIRST_DAY = datetime.date(2025, 1, 1)

ARGUMENTS = (
    "Cycle paths make the way to school safer.",
    "A count of the city shows that cyclists doubled in five years.",
    "Shops on quiet streets sell more, as a survey of 2023 found.",
    "Noise falls where fewer cars drive.",
    "A kilometre of path costs less than a parking garage.",
    "Who cycles to work is ill on fewer days, as a study of ten thousand people found.",
    "Paths need little repair.",
    "Buses are on time where cyclists have a lane of their own.",
    "The neighbouring town built paths, and accidents fell by a third.",
    "Air is cleaner along such streets.",
)
OPINIONS = ("I like it.", "Everybody knows that.", "It is just so.", "Think of it.")

THINGS = ("bicycle chain", "helmet", "brake", "lamp", "saddle", "wheel", "tent", "kettle", "lock")
VERBS = ("clean", "repair", "choose")
TASKS = tuple(f"{verb} a {thing}" for verb in VERBS for thing in THINGS)
N_KNOWN_PROMPTS = 24
STEPS = (
    "Lay out the tools before you begin.",
    "Look for damage first.",
    "Loosen the two screws by a quarter turn.",
    "Wipe all parts with a dry cloth.",
    "Put the parts back in the same order.",
    "Test it on a short ride.",
    "Write down what you changed.",
)
N_STEPS = {"small": (1, 2, 3), "large": (3, 4, 5)}  # {model: steps that its answers may have}
SIDES = (160, 120)  # width and height of a picture in pixels


def csv_file(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Write rows as a CSV file."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue().encode()


def shop_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Make the products that a shop showed for searches, and those of two new searches.

    A product is better if it is cheap, light, well rated, new and in a good state. The column
    `orders` gives the grade away: customers order what they like.
    """
    features = ("search", "product", "title", "colour", "price", "weight", "added", "rating")
    searches = [f"{kind} bike for {use}" for use in USES for kind in KINDS]
    searches += [f"used {kind} bike for {use}" for use in USES[:3] for kind in KINDS]
    rows: list[tuple[Any, ...]] = []
    for k, search in enumerate(searches[: N_SEARCHES + 2]):
        for place in range(N_PRODUCTS):
            price = float(rng.uniform(100, 1500))
            weight = float(rng.uniform(8, 20))
            rating = float(rng.uniform(1, 5))
            age = int(rng.integers(0, 600))
            state = int(rng.integers(len(STATES)))
            worth = 2.0 - price / 500 - (weight - 14) / 8 + (rating - 3) / 2 - age / 400
            worth += 1.2 - 0.5 * state + float(rng.normal(0, 0.35))
            stars = int(np.clip(np.rint(worth + 1.5), 0, 4))
            orders = int(10 * stars + rng.integers(0, 8))
            kind = KINDS[k % len(KINDS)]
            added = FIRST_DAY + datetime.timedelta(days=600 - age)
            known_rating = "" if rng.random() < 0.1 else round(rating, 1)
            title = f"{kind.capitalize()} bike, {STATES[state]}"
            colour = str(rng.choice(COLOURS))
            row = (search, f"p{k * N_PRODUCTS + place}", title, colour, round(price))
            rows.append((*row, round(weight, 1), added, known_rating, orders, stars))
    n_known = N_SEARCHES * N_PRODUCTS
    return {
        "shop.csv": csv_file((*features, "orders", "stars"), rows[:n_known]),
        "new-products.csv": csv_file(features, [row[: len(features)] for row in rows[n_known:]]),
    }


def bike_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Make the bicycles of shops, divided into a training, validation and test part."""
    header = ("qid", "label", "docid", "price", "age", "weight", "gears")
    files = {}
    for part, n_shops in (("train", 60), ("vali", 20), ("test", 20), ("new", 1)):
        rows = []
        for shop, bike in itertools.product(range(n_shops), range(8)):
            price = rng.uniform(100, 2000)
            age = rng.integers(0, 15)
            weight = rng.uniform(7, 20)
            gears = rng.integers(1, 28)
            worth = 1500 - 80 * age - 40 * (weight - 7) + 10 * gears
            grade = int(np.clip((worth - price + rng.normal(0, 300)) / 400 + 2, 0, 4))
            row = (f"{part}-{shop}", grade, f"bike-{shop}-{bike}", round(price), age)
            rows.append((*row, round(weight, 1), gears))
        files[f"bikes/{part}.csv"] = csv_file(header, rows)
    return files


def letor_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Make three folds of LETOR text from five sets of queries, as LETOR's folds are made."""
    sets = [_letor_set(rng, k) for k in range(5)]
    files = {}
    for fold in range(3):
        order = [sets[(fold + k) % 5] for k in range(5)]
        parts = {"train": "".join(order[:3]), "vali": order[3], "test": order[4]}
        for part, text in parts.items():
            files[f"letor/Fold{fold + 1}/{part}.txt"] = text.encode()
    return files


def _letor_set(rng: np.random.Generator, k: int) -> str:
    """Make twelve queries of eight documents with five features and grades from 0 to 2."""
    lines = []
    for query, place in itertools.product(range(12), range(8)):
        x = rng.random(5).round(4)
        noise = rng.normal(0, 0.15)
        grade = int(np.clip(np.rint(3 * (x[0] * x[1] + 0.4 * x[2] + noise) - 0.3), 0, 2))
        features = " ".join(f"{number}:{value}" for number, value in enumerate(x, 1))
        lines.append(f"{grade} qid:{100 * k + query} {features} #docid = d{k}-{query}-{place}\n")
    return "".join(lines)


def essay_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Make essays on one question, judgements of them by three annotators, and gold pairs.

    An essay of more arguments is better. Ana and Ben mostly say so, Eve answers at random.
    """
    n_essays, n_new = 24, 5
    n_arguments = rng.permutation([1 + k % 6 for k in range(n_essays + n_new)])
    texts = []
    for n in n_arguments:
        sentences = [*rng.choice(ARGUMENTS, n, replace=False), str(rng.choice(OPINIONS))]
        texts.append(" ".join(rng.permutation(sentences)))
    ids = [f"essay-{k + 1}" for k in range(n_essays + n_new)]
    rows = list(zip(ids, texts, strict=True))
    votes: list[tuple[str, str, str]] = []
    for _ in range(60):
        a, b = (int(k) for k in rng.choice(n_essays, 2, replace=False))
        for annotator in ("ana", "ben", "eve"):
            difference = n_arguments[a] - n_arguments[b]
            wins = rng.normal(difference, 1.5) > 0
            if annotator == "eve":
                wins = rng.random() < 0.5
            votes.append((ids[a], ids[b], annotator) if wins else (ids[b], ids[a], annotator))
    order = np.argsort(n_arguments[:n_essays], kind="stable")
    gold = [(ids[best], ids[worst]) for worst, best in zip(order[:6], order[-6:], strict=True)]
    return {
        "essays.csv": csv_file(("id", "text"), rows[:n_essays]),
        "new-essays.csv": csv_file(("id", "text"), rows[n_essays:]),
        "votes.csv": csv_file(("winner", "loser", "annotator"), votes),
        "gold.csv": csv_file(("winner", "loser"), gold),
    }


def answer_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Make answers of two models to prompts, further answers, and the pairs to ask about."""
    header = ("id", "prompt_id", "prompt", "model", "text")
    rows = []
    for number, task in enumerate(TASKS):
        for model, n_steps in itertools.product(N_STEPS, range(2)):
            chosen = sorted(rng.choice(len(STEPS), rng.choice(N_STEPS[model]), replace=False))
            text = " ".join([f"To {task}:", *(STEPS[step] for step in chosen)])
            name = f"{model}-{number + 1}-{n_steps + 1}"
            rows.append((name, f"prompt-{number + 1}", f"How do I {task}?", model, text))
    n_known = N_KNOWN_PROMPTS * 2 * len(N_STEPS)
    pairs = [(f"small-{k}-1", f"large-{k}-1") for k in range(1, N_KNOWN_PROMPTS + 1)]
    battles = [
        {"model_a": "small", "model_b": "large", "winner": winner, "judge": f"user_{k}"}
        for k, winner in enumerate(rng.choice(["model_a", "model_b", "tie"], 20, p=[0.2, 0.7, 0.1]))
    ]
    return {
        "answers.csv": csv_file(header, rows[:n_known]),
        "tomorrow.csv": csv_file(header, rows[n_known:]),
        "pairs.csv": csv_file(("left", "right"), pairs),
        "models.csv": csv_file(("id",), [("small",), ("large",)]),
        "battles.json": json.dumps(battles, indent=1).encode(),
    }


def picture_files(rng: np.random.Generator) -> dict[str, bytes]:
    """Draw landscapes with a sun, as PNG files."""
    from PIL import Image, ImageDraw

    files = {}
    width, height = SIDES
    for number in range(1, 9):
        sky = tuple(int(value) for value in rng.integers((90, 140, 190), (180, 210, 256)))
        meadow = tuple(int(value) for value in rng.integers((20, 90, 20), (90, 170, 80)))
        picture = Image.new("RGB", SIDES, sky)
        draw = ImageDraw.Draw(picture)
        x, y = (int(value) for value in rng.integers((20, 15), (width - 20, 50)))
        draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=(250, 220, 90))
        hills = [(k * 20, int(h)) for k, h in enumerate(rng.integers(55, 95, width // 20 + 1))]
        draw.polygon([(0, height), *hills, (width, height)], fill=meadow)
        file = io.BytesIO()
        picture.save(file, format="PNG")
        files[f"holiday/{number}.png"] = file.getvalue()
    return files
