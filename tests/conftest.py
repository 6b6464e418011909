"""Options, real data, the effort of property tests, the order of tests, an open file."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import numpy as np
import pytest

from simdb.recovery import untrusted
from simdb.storage.file import environment as environments
from simdb.storage.file.environment import Environment
from tests.support import processes

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None)
# The same examples in each run, so that a change is judged by itself; what is drawn anew elsewhere
# finds what they miss.
hypothesis.settings.register_profile(
    "ci", max_examples=25, deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile("nightly", max_examples=2_000, deadline=None)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simdb")
    group.addoption("--slow", action="store_true", help="also run the long forms")
    group.addoption("--data", metavar="FOLDER", help="real data sets (default: SIMDB_DATA)")
    group.addoption(
        "--require-data",
        action="store_true",
        help="fail where a test that needs the data sets would be skipped",
    )


def data_folder(config: pytest.Config) -> Path | None:
    named = config.getoption("--data") or os.environ.get("SIMDB_DATA")
    return Path(named).resolve() if named else None


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is collected: nothing of that is garbage
    # A shell starts its background jobs so, and nohup; the programs that the tests end inherit it.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    folder = data_folder(config)
    if folder is not None and not folder.is_dir():
        raise pytest.UsageError(f"the data folder {folder} does not exist")
    if folder is None and config.getoption("--require-data"):
        raise pytest.UsageError("--require-data needs --data or SIMDB_DATA")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    found = yield
    # Modules of tests hold no examples; to look for some takes a fifth of all collecting.
    if file_path.name.startswith("test_"):
        found = [one for one in found if type(one) is pytest.Module]
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        if slow:
            config.hook.pytest_deselected(items=slow)
            items[:] = [item for item in items if not item.get_closest_marker("slow")]
    if data_folder(config) is None:
        absent = pytest.mark.skip(reason="needs --data or SIMDB_DATA")
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(absent)
    # What takes longest comes first: at the end, small tests keep all workers busy.
    items.sort(key=lambda item: item.get_closest_marker("campaign") is None)


def pytest_collection_finish() -> None:
    # Modules and tests stay to the end. To look through them again and again, as often as usual,
    # takes a seventh of all time.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and item.get_closest_marker("data")
        and item.config.getoption("--require-data")
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped although the data is required"
    return report


@pytest.fixture(scope="session")
def data_directory(request: pytest.FixtureRequest) -> Path:
    """The folder of real data sets; only tests marked ``data`` may ask for it."""
    folder = data_folder(request.config)
    if folder is None:
        pytest.skip("needs --data or SIMDB_DATA")
    return folder


@pytest.fixture(scope="session")
def long_form(request: pytest.FixtureRequest) -> bool:
    """Whether tests that have a long form of their own are to take it."""
    return bool(request.config.getoption("--slow"))


@pytest.fixture
def wrap_around() -> Iterator[None]:
    """For hashes that are computed without the compiler: NumPy warns of what wraps around there."""
    with np.errstate(over="ignore"):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "store.simdb"


@pytest.fixture
def environment(path: Path) -> Iterator[Environment]:
    """A new open file, closed at the end."""
    environment = environments.acquire(
        path, read_only=False, sync="batch", map_size=None, busy_timeout=10
    )
    yield environment
    environments.release(environment)


@pytest.fixture
def forked_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the child that reads an untrusted file be a fork, and no interpreter that begins anew."""
    forking = SimpleNamespace(run=processes.as_forked, DEVNULL=processes.DEVNULL)
    monkeypatch.setattr(untrusted, "subprocess", forking)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that are synced, and names that are given, in their order."""
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def noted(descriptor: int) -> None:
        steps.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def linked(*names: Any, **options: Any) -> None:
        steps.append("linked")
        link(*names, **options)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "link", linked)
    return steps
