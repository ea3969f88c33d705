"""`sortnet serve` under load: how long the next pair takes, and whether an answer is ever lost.

The time of a reply says little on a busy machine; the CPU time of an answer does not depend on it.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select

from cli.web.pages import Pages
from sortnet.items import Items
from sortnet.preference import Judgement
from store import open_store
from store.database.schema import JudgementRow, LeaseRow

NAME = "load"
BAR_MS = 60.0
IDLE = 0.5  # load a core, beside this, above which the time of a reply says little


def run(quick: bool) -> list[dict[str, Any]]:
    """Both measurements: the time of a reply, and the book-keeping under stress."""
    busy, n_items = os.getloadavg()[0], 1000 if quick else 10_000
    sizes = {"n_items": n_items, "known": 500 if quick else 20_000, "people": 5 if quick else 20}
    with tempfile.TemporaryDirectory() as folder:
        waited = answer_times(Path(folder) / "times.db", seconds=4 if quick else 60, **sizes)
        cpu = answer_cpu(Path(folder) / "cpu.db", **sizes)
        clients, answers = (4, 20) if quick else (20, 500)
        found = stress(Path(folder) / "stress.db", clients, answers, lease=2 if quick else 5)
    return [
        _time_row(waited, quick, busy),
        row(f"CPU of an answer in ms, {n_items} items", cpu, "", None, "without HTTP and fits"),
        *_stress_rows(found, clients, answers),
    ]


def _time_row(waited: Sequence[float], quick: bool, busy: float) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    judged = not quick and busy <= IDLE * cores
    ms = 1000 * np.quantile(waited, [0.5, 0.95, 0.99])
    return row(
        f"answer to next pair, p95 in ms, {1000 if quick else 10_000} items",
        float(ms[1]),
        f"< {BAR_MS:.0f} ms on an idle machine, while the model retrains",
        bool(ms[1] < BAR_MS) if judged else None,
        f"median {ms[0]:.0f}, p99 {ms[2]:.0f}, {len(waited)} answers of "
        f"{5 if quick else 20} people, about one a second each; the admin page is open; "
        f"load of other processes before: {busy:.1f} on {cores} cores",
    )


def _stress_rows(found: Findings, clients: int, answers: int) -> list[dict[str, Any]]:
    note = (
        f"{clients} clients x {answers} answers, {found.twice} sent twice at once, "
        f"{found.expired} too late, {found.retried} repeated, server killed once"
    )
    counts = {
        "answers lost": found.lost,
        "answers counted twice or changed": found.wrong,
        "pairs under two live leases": found.shared,
    }
    return [row(what, n, "0", n == 0, note) for what, n in counts.items()]


def row(what: str, ours: float, bar: str, ok: bool | None, note: str) -> dict[str, Any]:
    return {
        **{"what": what, "ours": ours, "peer": None, "ratio": None},
        **{"bar": bar, "ok": ok, "note": note},
    }


def answer_times(
    store: Path, *, n_items: int, known: int, people: int, seconds: float
) -> list[float]:
    """Seconds from sending an answer to having the reply, which holds the pair after next."""
    make(store, n_items, known)
    waited: list[float] = []
    with Server(store, people) as server:
        until = time.monotonic() + seconds

        def person(k: int) -> None:
            rng = random.Random(k)
            client = Client(server.port, server.tokens[k])
            time.sleep(rng.random())
            state = client.ask("next", {})
            while time.monotonic() < until and state["pairs"]:
                time.sleep(rng.uniform(0.5, 1.5))
                body = {
                    "lease": state["pairs"][0]["lease"],
                    "answer": rng.choice(("left", "right")),
                }
                start = time.perf_counter()
                state = client.ask("answer", body)
                waited.append(time.perf_counter() - start)
            client.close()

        def watcher() -> None:
            client = Client(server.port, server.admin, "admin")
            while time.monotonic() < until:
                client.ask("state", None)
                time.sleep(3)
            client.close()

        watching = threading.Thread(target=watcher)
        watching.start()
        at_once(person, people)
        watching.join()
    return waited


def answer_cpu(store: Path, *, n_items: int, known: int, people: int) -> float:
    """Milliseconds of CPU from an answer to the next pair, without HTTP and fits; the mean."""
    make(store, n_items, known)
    answers = 10 * people
    with open_store(store) as opened:
        pages = Pages(opened.collection(NAME))
        pages.services[0].settle()
        state = {k: pages.next(f"p{k}") for k in range(people)}

        def answer(k: int) -> None:
            lease = state[k]["pairs"][0]["lease"]
            question = pages.services[0].question(f"p{k}", lease)
            state[k] = pages.answer(None, lease, question.answered(f"p{k}", "left"))

        for k in range(people):  # what is built once is built
            answer(k)
        start = time.process_time()
        for n in range(answers):
            answer(n % people)
        return 1000 * (time.process_time() - start) / answers


@dataclass
class Findings:
    """What the clients did, and what the database says of it."""

    acknowledged: dict[str, str] = field(default_factory=dict)  # {lease: answer}
    twice: int = 0
    expired: int = 0
    retried: int = 0
    lost: int = 0
    wrong: int = 0
    shared: int = 0


def stress(store: Path, clients: int, answers: int, *, lease: float) -> Findings:
    """Clients that answer in a hurry, twice, too late; a server that is killed half-way."""
    make(store, 1000, 0)
    found, lock = Findings(), threading.Lock()
    with Server(store, clients, lease=lease) as server:

        def client(k: int) -> None:
            hasty(k, server, answers, lease, found, lock)

        killer = threading.Thread(target=_kill_half_way, args=(server, found, clients * answers))
        killer.start()
        at_once(client, clients)
        killer.join()
    check(store, found, clients * answers)
    return found


def hasty(
    k: int, server: Server, answers: int, lease: float, found: Findings, lock: threading.Lock
) -> None:
    """One client, until the server has acknowledged that many answers."""
    rng, mine = random.Random(k), 0
    client = Client(server.port, server.tokens[k])
    state = client.ask("next", {})
    while mine < answers:
        if not state["pairs"]:
            state = client.ask("next", {})
            continue
        body = {
            "lease": state["pairs"][0]["lease"],
            "answer": rng.choice(("left", "right", "tie", "skip")),
        }
        if rng.random() < 1 / 100:
            time.sleep(lease * rng.uniform(0.9, 1.3))
        double = rng.random() < 0.1
        if double:
            other = Client(server.port, server.tokens[k])
            press = threading.Thread(target=other.ask, args=("answer", body))
            press.start()
        state = client.ask("answer", body)
        if double:
            press.join()
            other.close()
        with lock:
            found.twice += double
            if client.status == 200:
                found.acknowledged[body["lease"]] = body["answer"]
                mine += 1
            else:
                found.expired += 1
    client.close()
    with lock:
        found.retried += client.retried


def _kill_half_way(server: Server, found: Findings, total: int) -> None:
    while len(found.acknowledged) < total / 2:
        time.sleep(0.01)
    server.kill()
    server.start()


def check(store: Path, found: Findings, total: int) -> None:
    """Compare what was acknowledged with what the database holds."""
    with open_store(store) as opened, opened.database.transaction() as connection:
        judged = connection.execute(select(JudgementRow.__table__)).all()
        leases = connection.execute(select(LeaseRow.__table__)).all()
    stored = {row.lease: row for row in judged}
    found.lost = sum(lease not in stored for lease in found.acknowledged)
    found.lost += max(0, total - len(found.acknowledged))
    changed = (
        lease in stored and _word(stored[lease]) != answer
        for lease, answer in found.acknowledged.items()
    )
    # Every row was acknowledged, each lease has one row, and the row says what was answered.
    found.wrong = sum(changed) + (len(judged) - len(stored))
    found.wrong += len(stored.keys() - found.acknowledged.keys())
    numbers = Counter(row.number for row in judged)
    found.wrong += sum(n not in numbers for n in range(1, len(judged) + 1))
    found.shared = _overlaps(leases, {lease: row.at for lease, row in stored.items()})


def _word(row: Any) -> str:
    """The answer of a judgement's row in the words of the page."""
    return Judgement("", row.items, row.answer, row.best).word


def _overlaps(leases: Sequence[Any], answered: dict[str, float]) -> int:
    """How many leases of a pair began while another one of it was live."""
    spans = defaultdict(list)
    for lease in leases:
        end = answered.get(lease.id, lease.expires)
        spans[frozenset(lease.items)].append((lease.created, end))
    overlaps = 0
    for of_pair in spans.values():
        of_pair.sort()
        overlaps += sum(end > begin for (_, end), (begin, _) in pairwise(of_pair))
    return overlaps


def make(store: Path, n_items: int, known: int) -> None:
    """A collection of items with five features, and judgements by their hidden scores."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_items, 5)).astype(np.float32)
    scores = features @ rng.normal(size=5) + 0.5 * rng.normal(size=n_items)
    nothing = (None,) * n_items
    texts = tuple(f"Item {k}. " + "Lorem ipsum dolor sit amet. " * 20 for k in range(n_items))
    ids = tuple(f"item-{k}" for k in range(n_items))
    names = tuple(f"x{k}" for k in range(5))
    left = rng.integers(n_items, size=known)
    right = (left + rng.integers(1, n_items, size=known)) % n_items
    better = scores[left] + rng.normal(size=known) > scores[right]
    with open_store(store) as opened:
        collection = opened.add_items(NAME, Items(ids, texts, nothing, nothing, features, names))
        collection.append(
            [
                Judgement.of(f"known-{k % 20}", (int(i), int(j)), "left" if first else "right")
                for k, (i, j, first) in enumerate(zip(left, right, better, strict=True))
            ]
        )


class Server:
    """`sortnet serve` in a process of its own, which can be killed and started again."""

    def __init__(self, store: Path, people: int, *, lease: float = 600) -> None:
        self.names = [f"p{k}" for k in range(people)]
        self.port = free_port()
        named = [word for name in self.names for word in ("--annotator", name)]
        self._command = [
            *(sys.executable, "-c", "from cli.main import main; main()", "serve", NAME, *named),
            *("--store", str(store), "--port", str(self.port), "--lease", str(lease)),
        ]

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=20)
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        links: dict[str, str] = {}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, _, link = line.strip().partition(": ")
            links[name] = link.rsplit("/", 1)[-1]
            if name == "admin":
                break
        self.tokens = [links[name] for name in self.names]
        self.admin = links["admin"]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Client:
    """What the page does: asks again until somebody answers."""

    def __init__(self, port: int, token: str, door: str = "a") -> None:
        self._port, self._path = port, f"/{door}/{token}"
        self._connection: http.client.HTTPConnection | None = None
        self.retried, self.status = 0, 0

    def ask(self, what: str, body: dict[str, Any] | None) -> dict[str, Any]:
        until = time.monotonic() + 60
        while True:
            with suppress(OSError, http.client.HTTPException):
                self.status, reply = self._once(what, body)
                if self.status < 429:
                    return reply
            if time.monotonic() > until:
                raise RuntimeError(f"no answer from the server for a minute: {self.status}")
            self.retried += 1
            time.sleep(0.1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _once(self, what: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=15)
        try:
            headers = {"Content-Type": "application/json"}
            method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
            self._connection.request(method, f"{self._path}/{what}", text, headers)
            reply = self._connection.getresponse()
            return reply.status, json.loads(reply.read())
        except BaseException:
            self.close()
            raise


def at_once(work: Callable[[int], None], n: int) -> None:
    """Do it n times at once; the first fault of any is raised at the end."""
    faults: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    for measured in run(quick="--quick" in sys.argv):
        print({key: value for key, value in measured.items() if value is not None})


if __name__ == "__main__":
    main()
