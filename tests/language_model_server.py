"""Servers of language models on the loopback interface, which answer by hidden scores."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sortnet.judges.budget import Budget
from sortnet.judges.model_server import HttpAnswer, Server
from sortnet.judges.model_worker import ModelWorker

SIDES = re.compile(r"<A>\n(.*?)\n</A>\s*<B>\n(.*?)\n</B>", re.DOTALL)
ITEM = re.compile(r"<([A-F])>\n(.*?)\n</\1>", re.DOTALL)


@dataclass
class Model:
    """A model that knows how good a text is.

    Attributes:
        score: of a text.
        noise: standard deviation of what it sees of a difference; the same pair is seen the same.
        side: added to the difference in favour of A.
        logprobs: whether it gives log-probabilities.
        key: that it asks for; None: none.
        seconds: that a call takes.
        faults: what to do at the next calls instead: a status, or a function of the request.
        prompts: what it was asked.
        said: what it answers in place of a letter.
    """

    score: Callable[[str], float]
    noise: float = 0.0
    side: float = 0.0
    logprobs: bool = True
    key: str | None = None
    seconds: float = 0.0
    faults: list[object] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    said: Callable[[str], str] = lambda letter: letter
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, body: dict, headers) -> Response:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return _error(401, f"wrong key {headers.get('authorization', '')[7:]}")
        if body["model"] != "judge":
            return _error(404, f"the model {body['model']} does not exist")
        content = body["messages"][0]["content"]
        prompt = content if isinstance(content, str) else content[0]["text"]
        with self.lock:
            self.prompts.append(prompt)
            fault = self.faults.pop(0) if self.faults else None
        if callable(fault):
            return fault(body)
        if isinstance(fault, int):
            return _error(fault, "busy", {"Retry-After": "0"} if fault == 429 else {})
        time.sleep(self.seconds)
        return JSONResponse(self.answer(prompt, wants=bool(body.get("logprobs"))))

    def answer(self, prompt: str, *, wants: bool) -> dict:
        items = ITEM.findall(prompt)
        if len(items) > 2:
            return self.answer_about_set(items, prompt)
        a, b = SIDES.search(prompt).groups()
        rng = np.random.default_rng([len(prompt), *a.encode()[:20], *b.encode()[:20]])
        z = self.score(a) - self.score(b) + self.side + self.noise * rng.standard_normal()
        p = min(max(1 / (1 + math.exp(-z)), 1e-6), 1 - 1e-6)
        letter = "A" if p > 0.5 else "B"
        choice = {"message": {"role": "assistant", "content": self.said(letter)}}
        if wants and self.logprobs:
            top = [{"token": k, "logprob": math.log(v)} for k, v in (("A", p), ("B", 1 - p))]
            choice["logprobs"] = {"content": [{"token": letter, "top_logprobs": top}]}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 1}
        return {"choices": [choice], "usage": usage}

    def answer_about_set(self, items: list[tuple[str, str]], prompt: str) -> dict:
        """Answer with the place of the best text, and of the worst if the prompt asks for it."""
        order = sorted(items, key=lambda item: -self.score(item[1]))
        lines = f"Best: {order[0][0]}"
        if "Worst: " in prompt:
            lines += f"\nWorst: {order[-1][0]}"
        text = self.said(lines)
        choice = {"message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 10}
        return {"choices": [choice], "usage": usage}

    @property
    def pairs(self) -> Counter[tuple[str, str]]:
        """Count how often each pair was asked about in this order."""
        return Counter(SIDES.search(prompt).groups() for prompt in self.prompts)


def _error(status: int, message: str, headers: dict | None = None) -> Response:
    return JSONResponse({"error": {"message": message}}, status, headers)


@contextmanager
def serving(model: Model) -> Iterator[str]:
    """Serve the model in a thread, and yield the URL of the server."""

    async def chat(request: Request) -> Response:
        body = json.loads(await request.body())
        return await run_in_threadpool(model.reply, body, request.headers)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def raw_server(reply: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the URL of a server that answers with bytes: `reply` answers one request.

    A connection has one request. A client that hangs up earlier is no fault.
    """

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(1 << 16) or b"\r\n\r\n"
            head, _, body = request.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            n_bytes_left = int(length[1]) - len(body) if length else 0
            while n_bytes_left > 0:
                n_bytes_left -= len(connection.recv(1 << 16)) or n_bytes_left
            reply(connection)

    def serve() -> None:
        with suppress(OSError):  # the listening socket was closed
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # ends `accept`
            thread.join()


@dataclass
class Answers:
    """Connections to a server that gives these answers, the last one again and again."""

    answers: list[HttpAnswer]
    n_calls: int = 0

    def post(self, body: object) -> HttpAnswer:
        answer = self.answers[min(self.n_calls, len(self.answers) - 1)]
        self.n_calls += 1
        return answer


def worker_of(
    client: object,
    *,
    url: str = "http://127.0.0.1",
    key: str | None = None,
    timeout: float = 60.0,
    patience: float = 0.0,
) -> ModelWorker:
    """Return a worker whose server answers as `client` does."""
    server = Server(url, "judge", key, timeout, patience, Budget())
    server.client = client  # type: ignore[assignment]
    return ModelWorker(server, seed=0)


def pair_made() -> dict:
    """Return a pair in the form in which a worker is asked about it."""
    side = {"id": "a", "text": "some words"}
    messages = [{"role": "user", "content": "Which is better?"}]
    return {"id": "x", "left": side, "right": side | {"id": "b"}, "messages": messages}
