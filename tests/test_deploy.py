"""The services of deploy/compose.yaml as processes: PostgreSQL, `sortnet serve`, Caddy with https.

What compose starts in containers is started here with the same commands, environment and Caddyfile;
only ports and addresses of services are this machine's.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
import yaml
from cli_helpers import done
from conftest import free_port

FOLDER = Path(__file__).parents[1] / "deploy"
WAIT = 300.0


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture
def caddy() -> str:
    found = shutil.which("caddy")
    if found is None and os.environ.get("CI"):
        pytest.fail("caddy is not installed, and CI must test the proxy")
    return found or pytest.skip("caddy is not installed")


def example() -> dict[str, str]:
    lines = (FOLDER / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@contextmanager
def running(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


def asked(url: str, context: ssl.SSLContext, body: object = None) -> Any:
    """The reply to a request as a browser sends it, as soon as the proxy is there."""
    site = "/".join(url.split("/")[:3])
    data = None if body is None else json.dumps(body).encode()
    headers = {"Origin": site, "Content-Type": "application/json"} if data else {}
    deadline = time.monotonic() + WAIT
    while True:
        try:
            with urlopen(Request(url, data, headers), context=context, timeout=WAIT) as reply:
                text = reply.read().decode()
                return text if body is None else json.loads(text)
        except URLError as error:
            if hasattr(error, "code") or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_every_value_of_the_services_is_in_the_example(services: dict[str, Any]) -> None:
    text = (FOLDER / "compose.yaml").read_text()
    assert set(Template(text).get_identifiers()) == set(example())
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert services["sortnet"]["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    assert 'ENTRYPOINT ["sortnet"]' in dockerfile


@pytest.mark.slow
@pytest.mark.postgresql
def test_pages_behind_https_with_judgements_in_postgresql(
    services: dict[str, Any], caddy: str, postgresql_url: str, tmp_path: Path
) -> None:
    https, port = free_port(), free_port()
    values = {**example(), "SITE": f"localhost:{https}", "COLLECTION": "replies"}
    (tmp_path / "replies.csv").write_text("id,text\na,one\nb,two words\nc,three short words\n")
    done("items", "add", "replies", tmp_path / "replies.csv", "--store", postgresql_url)
    command = [Template(word).substitute(values) for word in services["sortnet"]["command"]]
    module = [sys.executable, "-m", "sortnet", *command, "--annotator", "ana", "--port", str(port)]
    proxy = [caddy, *services["proxy"]["command"][1:3], str(FOLDER / "Caddyfile")]
    environment = {
        "SITE": values["SITE"], "PAGES": f"localhost:{port}", "HTTP_PORT": str(free_port()),
        "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path),
    }  # fmt: skip
    with running(module, {"SORTNET_STORE": postgresql_url}) as pages, running(proxy, environment):
        assert pages.stdout is not None
        links = dict(next(pages.stdout).strip().split(": ", 1) for _ in range(2))
        assert links["ana"].startswith(f"https://localhost:{https}/a/")
        authority = tmp_path / "caddy/pki/authorities/local/root.crt"
        deadline = time.monotonic() + WAIT
        while not authority.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        context = ssl.create_default_context(cafile=str(authority))
        assert "replies" in asked(links["admin"], context)
        assert "<html" in asked(links["ana"], context)
        pair = asked(f"{links['ana']}/next", context, {})["pairs"][0]
        reply = asked(f"{links['ana']}/answer", context, {"lease": pair["lease"], "answer": "left"})
        assert reply["answered"] == 1
    (said,) = done("judgements", "export", "replies", "--store", postgresql_url).splitlines()
    assert json.loads(said)["annotator"] == "ana"
