"""pyspark, loaded on use, and a session on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import simdb.errors
from simdb.errors import ConfigurationError, SimdbError, UsageError
from simdb.extras import of_extra

_DAMAGED = "cannot be read as Parquet: it may be damaged, or cut off"
# What Spark says of a path, and what is wrong with it.
_WRONG = (
    (re.compile(r"(\S+) is not a Parquet file"), "is not a Parquet file"),
    (re.compile(r"Encountered error while reading file (.+?)\. +(?:Could|SQLSTATE)"), _DAMAGED),
    (re.compile(r"Parent path is not a directory: (\S+)"), "is not a folder"),
    (re.compile(r"Mkdirs failed to create (\S+?)(?:/_temporary\S*)?(?:\s|$)"), "cannot be written"),
)
_TOLD = re.compile(r"simdb\.errors\.(\w+): (.*?)(?:\n|$)")
_PATH = re.compile(
    r"\[(?:PATH_NOT_FOUND|PATH_ALREADY_EXISTS)\] (.*?)\.(?: Set mode| SQLSTATE|\n|$)"
)


def library(name: str = "pyspark.sql") -> ModuleType:
    """Return a module of pyspark; MissingExtraError names the extra that has it."""
    with of_extra("spark", "Apache Spark needs"):
        return import_module(name)


def functions() -> ModuleType:
    """Return Spark's functions of columns."""
    return library("pyspark.sql.functions")


def column(name: str) -> Any:
    """Return the column of a name, whatever is in it: Spark reads ``a.b`` as a part of ``a``."""
    return functions().col("`" + name.replace("`", "``") + "`")


def local_session(
    *, cores: int | None = None, memory: str = "2g", master: str | None = None, **settings: str
) -> Any:
    """Return a ``SparkSession`` on this machine, or of the master given; one that runs is taken.

    The functions of ``simdb.spark`` take the session of their frames, and change none.

    Args:
        cores: of this machine; all without it.
        memory: of the driver's JVM, as Spark writes it.
        master: where Spark runs, in the place of this machine.
        settings: of Spark, with ``__`` for each dot: ``spark__sql__shuffle__partitions="8"``.

    Raises:
        MissingExtraError: pyspark is not installed.
        ConfigurationError: there is no Java, or it does not start.
    """
    session = library().SparkSession
    on_this = master is None or master.startswith("local")
    if on_this:
        # The workers are to be the Python that runs this, and nothing asks the network for a name.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    require_java()
    builder = session.builder.master(master or f"local[{cores or '*'}]").appName("simdb")
    chosen = {"spark.driver.memory": memory, "spark.log.level": "ERROR"}
    if on_this:
        chosen |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    chosen |= {name.replace("__", "."): value for name, value in settings.items()}
    for name, value in chosen.items():
        builder = builder.config(name, value)
    try:
        context = library("pyspark").SparkContext
        with _without_interrupts(lambda: getattr(context, "_gateway", None) is not None):
            return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY" in str(error):
            raise ConfigurationError(f"Spark's Java does not start: {error}") from error
        raise


@contextmanager
def _without_interrupts(is_up: Callable[[], bool]) -> Iterator[None]:
    """Hold back what raises KeyboardInterrupt until Java is up: amid its start it would never end.

    One that came before is raised at the end.
    """
    held: list[int] = []
    own: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def hold(number: int, frame: FrameType | None) -> None:
        if is_up():
            own[number](number, frame)
        else:
            held.append(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler):
                own[number] = handler
                signal.signal(number, hold)
    try:
        yield
    finally:
        for known, handler in own.items():
            if signal.getsignal(known) is hold:  # unless Spark has put its own there
                signal.signal(known, handler)
        if held:
            signal.raise_signal(held[0])


def session(*, submitted: bool, master: str | None, memory: str) -> Any:
    """Return the session of a command: that of ``spark-submit``, or a new one."""
    if submitted:
        return library().SparkSession.builder.getOrCreate()
    return local_session(master=master, memory=memory)


def require_java() -> None:
    """Raise ConfigurationError where there is no Java that Spark could be started with."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME names {home}, which has none" if home else "there is none on the PATH"
        raise ConfigurationError(
            f"Apache Spark needs Java 17 or later, and {where}: install a runtime "
            "(openjdk-17-jre-headless), or set JAVA_HOME"
        )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of simdb that a task has raised as what they are, not as Spark tells them.

    A path that is missing, or there already, or cannot be read or written, is a UsageError.
    """
    try:
        yield
    except SimdbError:
        raise
    except Exception as error:
        path = _PATH.search(str(error))
        if path is not None:
            raise UsageError(path[1]) from error
        if "[UNABLE_TO_INFER_SCHEMA]" in str(error):
            raise UsageError("the input has no Parquet file, or only empty ones") from error
        for said, wrong in _WRONG:
            other = said.search(str(error))
            if other is not None:
                raise UsageError(f"{other[1]} {wrong}") from error
        told = _TOLD.search(str(error))
        kind = getattr(simdb.errors, told[1], None) if told else None
        if told is None or not (isinstance(kind, type) and issubclass(kind, SimdbError)):
            raise
        try:
            found = kind(told[2])
        except TypeError:
            raise error from None
        raise found from error
