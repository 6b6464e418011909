"""One session of Spark for all tests of a process."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

import simdb.spark


@pytest.fixture(scope="session")
def spark():
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("needs pyspark: uv pip install --group spark")
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or later")
    # What is compiled for a plan takes longer than the few rows that it is for. A fifth of the rest
    # went to collecting garbage while there was room, and to verifying the classes of Spark.
    java = " ".join(
        (
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
            *("-Xms1g", "-Xmn700m", "-XX:MetaspaceSize=256m"),
            *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
        )
    )
    options = {
        "spark__sql__shuffle__partitions": "2",
        "spark__default__parallelism": "2",
        "spark__driver__extraJavaOptions": java,
        "spark__sql__codegen__wholeStage": "false",
        "spark__sql__codegen__factoryMode": "NO_CODEGEN",
    }
    session = simdb.spark.local_session(cores=2, memory="1g", **options)
    yield session
    session.stop()
