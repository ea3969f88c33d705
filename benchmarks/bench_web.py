"""`sortnet serve` under load: how long the next pair takes, and whether an answer is ever lost.

The time of a reply says little on a busy machine.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import httpx
import numpy as np
from measuring import Row, row
from sqlalchemy import select

from sortnet.items import Items
from sortnet.preference import Judgement
from store import open_store
from store.database.schema import JudgementRow, LeaseRow

T = TypeVar("T")
NAME = "load"
BAR_MS = 60.0
IDLE = 0.5  # load a core, beside this, above which the time of a reply says little


def run(quick: bool) -> list[Row]:
    """Both measurements: the time of a reply, and the book-keeping under stress."""
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    n_items, known, people, clients, answers = (
        (1000, 500, 5, 4, 20) if quick else (10_000, 20_000, 20, 20, 500)
    )
    with TemporaryDirectory() as folder:
        times = Path(folder) / "times.db"
        make(times, n_items, known)
        waited = answer_times(times, people, seconds=4 if quick else 60)
        counted = Path(folder) / "stress.db"
        findings = stress(counted, clients, answers, lease=2 if quick else 5)
    median, p95, p99 = 1000 * np.quantile(waited, [0.5, 0.95, 0.99])
    note = (
        f"{clients} clients x {answers} answers, {findings.twice} sent twice at once, "
        f"{findings.expired} too late, {findings.retried} repeated, server killed once"
    )
    return [
        row(
            f"answer to next pair, p95 in ms, {n_items} items",
            float(p95),
            bar=f"< {BAR_MS:.0f} ms on an idle machine, while the model retrains",
            ok=bool(p95 < BAR_MS) if busy <= IDLE * cores else None,
            note=f"median {median:.0f}, p99 {p99:.0f}, {len(waited)} answers of {people} people, "
            "about one a second each; the admin page is open; load of other processes before: "
            f"{busy:.1f} on {cores} cores",
        ),
        row("answers lost", findings.lost, bar="ours <= 0", note=note),
        row("answers counted twice or changed", findings.wrong, bar="ours <= 0", note=note),
        row("pairs under two live leases", findings.shared, bar="ours <= 0", note=note),
    ]


def answer_times(store: Path, people: int, *, seconds: float) -> list[float]:
    """Seconds from sending an answer to having the reply, which holds the pair after next."""
    waited: list[float] = []
    with Server(store, people) as server:
        until = time.monotonic() + seconds

        def person(k: int) -> None:
            rng = random.Random(k)
            time.sleep(rng.random())
            with closing(Client(server, server.tokens[k])) as client:
                state = client.ask("next", {})
                while time.monotonic() < until and state["pairs"]:
                    time.sleep(rng.uniform(0.5, 1.5))
                    lease, answer = state["pairs"][0]["lease"], rng.choice(("left", "right"))
                    start = time.perf_counter()
                    state = client.ask("answer", {"lease": lease, "answer": answer})
                    waited.append(time.perf_counter() - start)

        def watcher() -> None:
            with closing(Client(server, server.admin, "admin")) as client:
                while time.monotonic() < until:
                    client.ask("state", None)
                    time.sleep(3)

        at_once([partial(person, k) for k in range(people)] + [watcher])
    return waited


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
    findings, lock, total = Findings(), threading.Lock(), clients * answers
    with Server(store, clients, lease=lease) as server:

        def kill_half_way() -> None:
            while len(findings.acknowledged) < total / 2:
                time.sleep(0.01)
            server.kill()
            server.start()

        hurried = [
            partial(hasty, k, server, answers, lease, findings, lock) for k in range(clients)
        ]
        at_once([*hurried, kill_half_way])
    check(store, findings, total)
    return findings


def hasty(
    k: int, server: Server, answers: int, lease: float, findings: Findings, lock: threading.Lock
) -> None:
    """One client, until the server has acknowledged that many answers."""
    rng, n_acknowledged = random.Random(k), 0
    client, other = (Client(server, server.tokens[k]) for _ in range(2))
    state = client.ask("next", {})
    while n_acknowledged < answers:
        if not state["pairs"]:
            state = client.ask("next", {})
            continue
        answer = rng.choice(("left", "right", "tie", "skip"))
        body = {"lease": state["pairs"][0]["lease"], "answer": answer}
        if rng.random() < 1 / 100:
            time.sleep(lease * rng.uniform(0.9, 1.3))
        presses = [partial(client.ask, "answer", body), partial(other.ask, "answer", body)]
        is_double = rng.random() < 0.1
        state = at_once(presses if is_double else presses[:1])[0]
        with lock:
            findings.twice += is_double
            if client.status == 200:
                findings.acknowledged[body["lease"]] = answer
                n_acknowledged += 1
            else:
                findings.expired += 1
    with lock:
        findings.retried += client.retried
    client.close()
    other.close()


def check(store: Path, findings: Findings, total: int) -> None:
    """Compare what was acknowledged with what the database holds."""
    with open_store(store) as opened, opened.database.transaction() as connection:
        judged = connection.execute(select(JudgementRow.__table__)).all()
        leases = connection.execute(select(LeaseRow.__table__)).all()
    stored = {judgement.lease: judgement for judgement in judged}
    findings.lost = sum(lease not in stored for lease in findings.acknowledged)
    findings.lost += max(0, total - len(findings.acknowledged))
    changed = (
        lease in stored and _word(stored[lease]) != answer
        for lease, answer in findings.acknowledged.items()
    )
    # Every row was acknowledged, each lease has one row, and the row says what was answered.
    findings.wrong = sum(changed) + (len(judged) - len(stored))
    findings.wrong += len(stored.keys() - findings.acknowledged.keys())
    numbers = Counter(judgement.number for judgement in judged)
    findings.wrong += sum(n not in numbers for n in range(1, len(judged) + 1))
    findings.shared = _overlaps(
        leases, {lease: judgement.at for lease, judgement in stored.items()}
    )


def _word(judgement: Any) -> str:
    """The answer of a judgement's row in the words of the page."""
    return Judgement("", judgement.items, judgement.answer, judgement.best).word


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

    def __init__(self, server: Server, token: str, door: str = "a") -> None:
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}/{door}/{token}")
        self.retried, self.status = 0, 0

    def close(self) -> None:
        self._client.close()

    def ask(self, what: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """The reply to a request; it is sent again while the server is away or busy."""
        until = time.monotonic() + 60
        while True:
            with suppress(httpx.HTTPError):
                method = "GET" if body is None else "POST"
                reply = self._client.request(method, what, json=body, timeout=15)
                self.status = reply.status_code
                if self.status < 429:
                    state: dict[str, Any] = reply.json()
                    return state
            if time.monotonic() > until:
                raise RuntimeError(f"no answer from the server for a minute: {self.status}")
            self.retried += 1
            time.sleep(0.1)


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    """The results of functions that run at once; the first fault is raised at the end."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
