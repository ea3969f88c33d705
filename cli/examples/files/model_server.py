"""Serve a language model that prefers the longer text, with Python's standard library alone.

    python model_server.py                              serve http://localhost:8000 until Ctrl-C
    python model_server.py --port 8001                  serve another port
    python model_server.py requests.jsonl answers.jsonl answer a file of requests, as providers do

It speaks `POST /v1/chat/completions` with log-probabilities, as the servers of real models do.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ITEM = re.compile(r"<([A-F])>\n(.*?)\n</\1>", re.DOTALL)  # an item in the prompt of SortNet
CHARACTERS = 50  # difference of two lengths that is one unit of log-odds


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request: the letter of the longer text, or the best and the worst of several."""
    content = request["messages"][0]["content"]
    prompt = content if isinstance(content, str) else content[0]["text"]
    lengths = {letter: length(text) for letter, text in ITEM.findall(prompt)}
    if len(lengths) > 2:
        choice = choice_of_set(lengths)
    elif len(lengths) == 2:
        choice = choice_of_pair(lengths["A"] - lengths["B"])
    else:
        raise ValueError("the prompt has no items <A> and <B>")
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 1}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


def length(text: str) -> int:
    """Return the number of characters; of a number its value, as `sortnet doctor` asks about two.

    >>> length("a word"), length("12")
    (6, 12)
    """
    return int(text) if text.isdecimal() else len(text)


def choice_of_pair(difference: int) -> dict[str, Any]:
    """Choose A or B, with the log-probabilities of both letters."""
    log_odds = max(-12.0, min(difference / CHARACTERS, 12.0))
    p_of_a = 1 / (1 + math.exp(-log_odds))
    letter = "A" if p_of_a > 0.5 else "B"
    candidates = [
        {"token": "A", "logprob": math.log(p_of_a)},
        {"token": "B", "logprob": math.log(1 - p_of_a)},
    ]
    token = {"token": letter, "top_logprobs": candidates}
    message = {"role": "assistant", "content": letter}
    return {"message": message, "logprobs": {"content": [token]}}


def choice_of_set(lengths: dict[str, int]) -> dict[str, Any]:
    """Choose the best and the worst of several items."""
    best = max(lengths, key=lambda letter: lengths[letter])
    worst = min(lengths, key=lambda letter: lengths[letter])
    return {"message": {"role": "assistant", "content": f"Best: {best}\nWorst: {worst}"}}


class Handler(BaseHTTPRequestHandler):
    """Answer each request of a connection by `completion`."""

    protocol_version = "HTTP/1.1"  # a connection may have many requests
    wbufsize = -1  # the head and the body of an answer are sent together

    def do_POST(self) -> None:
        """Answer a request; a request that cannot be read is the status 400."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, answer = 200, completion(json.loads(body))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            status, answer = 400, {"error": {"message": str(error)}}
        reply = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing for each request."""


def answer_batch(requests: Path, answers: Path) -> None:
    """Answer a file of requests by a file of answers, in the format of batch services."""
    lines = []
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        response = {"status_code": 200, "body": completion(request["body"])}
        lines.append(json.dumps({"custom_id": request["custom_id"], "response": response}))
    answers.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{answers}: {len(lines)} answers")


def serve(port: int) -> None:
    """Serve on the loopback interface until Ctrl-C."""
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        print(f"http://localhost:{server.server_address[1]} answers until Ctrl-C", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main() -> None:
    """Serve, or answer a file of requests."""
    parser = argparse.ArgumentParser(description="A model that prefers the longer text.")
    parser.add_argument("requests", type=Path, nargs="?", help="file of requests")
    parser.add_argument("answers", type=Path, nargs="?", help="file to write")
    parser.add_argument("--port", type=int, default=8000, help="port to serve")
    options = parser.parse_args()
    if options.requests is None:
        serve(options.port)
    elif options.answers is None:
        parser.error("name the file of answers, too")
    else:
        answer_batch(options.requests, options.answers)


if __name__ == "__main__":
    main()
