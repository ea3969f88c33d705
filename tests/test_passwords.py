"""The password of a store is shown and written down nowhere, on a server that asks for one."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from cli_helpers import FAST, done, fault, invoke, make_fold
from sqlalchemy import create_engine, make_url, text

from sortnet.errors import StoreError
from store.database.engine import parse_url, without_passwords

pytestmark = pytest.mark.postgresql


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SORTNET_STORE", "PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    make_fold(tmp_path / "fold")


def url_of(postgresql_url: str, password: str | None, *, query: bool = False) -> str:
    url = make_url(postgresql_url).set(username="ann")
    if password is None or not query:
        return url.set(password=password).render_as_string(hide_password=False)
    return url.update_query_dict({"password": password}).render_as_string(hide_password=False)


def parts(password: str) -> list[str]:
    return [quote(password, safe=""), *re.split("[@/]", password)]


def shown(*args: object) -> str:
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    return result.stdout + result.stderr


def in_tables(url: str) -> str:
    """All that is in all tables, as text."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        names = connection.execute(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        )
        found = [
            str(connection.execute(text(f"SELECT * FROM {name}")).all())
            for name in names.scalars().all()
        ]
    engine.dispose()
    assert len(found) > 8
    return "\n".join(found)


def in_files(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.slow
@pytest.mark.parametrize("query", [False, True], ids=["userinfo", "query"])
def test_a_password_is_shown_and_written_nowhere(
    postgresql_url, password, query, tmp_path, monkeypatch
):
    url = url_of(postgresql_url, password, query=query)
    assert "no password supplied" in fault("runs", "--store", url_of(postgresql_url, None))
    quick = (*FAST, "--epochs", "1", "--max-iter", "1")
    shown_text = shown("train", "fold", "--out", "m", "--store", url, *quick)
    assert "run    " in shown_text and "ann@127.0.0.1" in shown_text
    again = ("--store", url, "--overwrite", "--json", *quick)
    shown_text += shown("train", "fold", "--out", "m", *again)
    monkeypatch.setenv("SORTNET_STORE", url)
    shown_text += shown("train", "--resume", "--out", "m")
    for args in (
        ("runs",), ("runs", "--json"), ("show", "last"), ("show", "last", "--json"),
        ("doctor",), ("doctor", "--json"), ("show", "last", "--follow"),
    ):  # fmt: skip
        shown_text += shown(*args)
    done("report", "last", "--output", "report.html")
    for place in (shown_text, in_files(tmp_path), in_tables(postgresql_url)):
        assert not [part for part in parts(password) if part in place]


def test_a_url_whose_password_is_not_escaped_is_refused_without_showing_it(
    postgresql_url, password, tmp_path
):
    url = url_of(postgresql_url, "HERE").replace("HERE", password)
    for args in (("train", "fold", "--out", "m", *FAST), ("runs",), ("items", "list")):
        shown_text = fault(*args, "--store", url)
        assert "%40" in shown_text and "PGPASSWORD" in shown_text
        assert not [part for part in parts(password) if part in shown_text]
    result = invoke("doctor", "--json", "--store", url)
    assert not [part for part in parts(password) if part in result.output]
    assert not (tmp_path / "m").exists()


def test_a_run_goes_on_with_a_password_from_elsewhere(
    postgresql_url, password, tmp_path, monkeypatch
):
    url = url_of(postgresql_url, password)
    done("train", "fold", "--out", "m", "--store", url, *FAST)
    resume = ("train", "--resume", "--out", "m")
    shown_text = fault(*resume)
    for source in ("PGPASSWORD", "~/.pgpass", "SORTNET_STORE", "--store"):
        assert source in shown_text
    done(*resume, "--store", url)
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", password)
        done(*resume)
    (tmp_path / "pass").write_text(f"127.0.0.1:*:*:ann:{password}\n")
    (tmp_path / "pass").chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSFILE", str(tmp_path / "pass"))
        done(*resume)
    monkeypatch.setenv("SORTNET_STORE", url)
    done(*resume)


@pytest.mark.parametrize(
    "word",
    [
        "postgresql://ann:{}@db/x",
        "--store=postgresql://ann:{}@db:5432/x?connect_timeout=1",
        "postgresql://db/x?connect_timeout=1&password={}&user=ann",
        "postgresql://db/x?sslpassword={}",
        "mlflow:https://me:{}@tracking.example.org/a",
    ],
)
@pytest.mark.parametrize("password", ["s3cret", "s3 cret", "s3@c/r:e?t", "s3\ncret", "s3%40"])
def test_no_part_of_a_password_stays_in_what_was_typed(word: str, password: str) -> None:
    shown_text = without_passwords(word.format(password))
    assert shown_text == re.sub(r":?\{\}", "", word)
    assert without_passwords(shown_text) == shown_text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3@c/ret@db/x",
        "postgresql://an/n:s3cret@db/x",
        "postgresql://ann:s3@c?ret@db/x",
        "postgresql://ann:s3/c@ret@db",
        "postgresql+psycopg://ann:s3@cret@db/x",
    ],
)
def test_a_url_that_is_read_otherwise_than_meant_is_refused(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse_url(url)
    assert "s3" not in str(caught.value) and "ret" not in str(caught.value)


@pytest.mark.parametrize(
    "typed",
    [
        "host=db password=s3cret",
        "password = 's3 cret' host=db",
        " dbname=x user=ann password=s3cret",
        "runs.db PASSWORD=s3cret",
    ],
)
def test_a_connection_string_of_keywords_is_refused_without_its_password(
    typed, tmp_path, monkeypatch
):
    before = sorted(tmp_path.rglob("*"))
    message = fault("runs", "--store", typed)
    assert "s3" not in message and "cret" not in message
    assert "postgresql://USER@HOST/DATABASE" in message
    message = fault("train", "fold", "--out", "m", *FAST, "--store", typed)
    assert "s3" not in message and "cret" not in message
    monkeypatch.setenv("SORTNET_STORE", typed)
    assert "s3" not in fault("runs")
    assert sorted(tmp_path.rglob("*")) == before, "no file is called so"


CONNECTIONS = (
    "host=db password=s3cret user=me",
    "host=db password='s3 cret' user=me",
    f"host=db password={'s3cret' * 40}",
    "host=db sslpassword='s3\\'cret",
    "postgresql://u:s3cret@h/x",
    "postgresql://u:s3/c@cret@h/x",
)


@pytest.mark.parametrize(
    "args",
    [
        ("runs", "HERE"),
        ("label", "--until", "HERE"),
        ("train", "--max-iter", "HERE"),
        ("train", "fold", "--out", "HERE"),
        ("rank", "HERE", "fold/test.txt"),
        ("report", "HERE"),
        ("HERE",),
    ],
    ids=" ".join,
)
def test_a_connection_in_the_place_of_another_argument_is_echoed_without_its_password(
    args, tmp_path, monkeypatch
):
    before = sorted(tmp_path.rglob("*"))
    for typed in CONNECTIONS:
        words = [typed if arg == "HERE" else arg for arg in args]
        monkeypatch.setattr("sys.argv", ["sortnet", *words])
        message = fault(*words)
        assert "s3" not in message and "cret" not in message, message
    assert sorted(tmp_path.rglob("*")) == before, "no folder is called so"


def test_a_colon_behind_a_url_is_no_beginning_of_a_password():
    assert "store URL mysql://...: a store is a file" in fault("runs", "--store", "mysql://h/x")
