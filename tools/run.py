"""Set simdb up in ``.venv`` and run its demonstration or its tests, with nothing but Python.

::

    python3 tools/run.py demo [arguments of tools/demo.py]
    python3 tools/run.py test [arguments of pytest]
    python3 tools/run.py check   # style and types: ruff, mypy; the documents as a site
    python3 tools/run.py versions [arguments of pytest]   # the other Pythons of this machine
    python3 tools/run.py oldest [arguments of pytest]   # the oldest permitted versions of packages
    python3 tools/run.py setup
    python3 tools/run.py coverage [arguments of pytest]   # build/coverage.json, and a table
    python3 tools/run.py release   # build/dist, checked; nothing is uploaded
    python3 tools/run.py audit   # asks PyPI for known weaknesses of what is installed

Only the standard library is imported, and the environment is simdb's own, so this also works
where the system's Python refuses to install packages (PEP 668).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import IO

CHECKOUT = Path(__file__).resolve().parent.parent
ENVIRONMENT = CHECKOUT / ".venv"
OTHERS = CHECKOUT / "build" / "pythons"  # the environments of the other versions, and their output
STAMP = "simdb-setup.json"
GROUPS = (None, "portable", "test", "dev")  # of pyproject.toml; each has those before it
ON_JAVA = "spark"  # what the tests of it need, where there is Java
OLDEST_PYTHON = (3, 11)
# pyspark comes as sources; its wheel is not compressed only to be unpacked: 10 s of 20.
STORED = ("--config-settings-package", "pyspark:--build-option=--compression=stored")
# Behind a proxy that lets nothing be kept, uv fetches it anew for each environment, and would keep
# 1.4 GB of it every time. What is installed of other packages is linked from what uv keeps.
UNKEPT = ("--no-cache-dir",)
OLDEST_PIP = "pip>=25.1"  # the first that installs dependency groups

# What a version of Python could change: kernels, what is public, processes and signals, what is
# read and written. What one version compiles serves all: that which runs all tests compiles all
# kernels, and the others have no numba, but for the newest, which compiles one of each module anew.
COMPILER = "compile"  # the extra
COMPILED_ANEW = ("tests/kernels/test_register.py", "-m", "not heavy")
KERNELS = ("tests/kernels/test_register.py", "-k", "twins")
LEAN = (
    *("tests/database/test_public_api.py", "tests/database/test_programs.py"),
    *("tests/database/test_interrupts.py", "tests/database/test_snapshot.py"),
    *("tests/database/test_collection.py", "tests/database/test_bad_databases.py"),
    *("tests/files", "tests/cli/test_parsing.py"),
    *("-m", "not campaign and not heavy and not data"),
)
# What could depend on the versions of packages: what is stored, tables, commands, statistics.
OLDEST = (
    *(f"tests/{name}" for name in ("database", "files", "cli", "frames", "kinds", "answers")),
    *("tests/exact", "tests/lsh", "tests/linkage", "tests/steps", "tests/recovery"),
    *("-o", "filterwarnings=default"),  # newer packages warn of them
    *("-m", "not campaign and not heavy and not data and not spark"),
)
# They have other words, and show other types, and are not needed to be right.
BESIDE_OLDEST = (
    *("hypothesis", "pytest>=9", "pytest-xdist", "httpx"),
    *("datasets", "datasketch", "pandas", "polars>=1.30", "rensa"),
)
QUIET = ("-p", "no:cacheprovider", "-q")
# Every processor has a worker of its own: threads of small products would only wait for each other.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}

# Before the tests, so that no two of them compile the same; and for the wheel.
COMPILING = tuple(
    (f"compiling the kernels, {part + 1} of 2", "-m", "tests.support.twins", str(part), "2")
    for part in range(2)
)
# Warnings are errors: a link that leads nowhere, a docstring that is no markup.
SITE = ("-m", "sphinx", "-q", "-W", "--keep-going", "-d", "build/site.pickles", "-b", "html")
CHECKS = (
    ("ruff check", "-m", "ruff", "check", "."),
    ("ruff format --check", "-m", "ruff", "format", "--check", "."),
    ("mypy", "-m", "mypy"),
    ("the site of the documents, build/site", *SITE, "docs", "build/site"),
)

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30  # bytes free there; the tests take less than one


def say(message: str) -> None:
    """Tell the person what happens, before the output of the program that does it."""
    print(f"== {message}", flush=True)


def missing_requirement(version: tuple[int, ...], *, has_venv: bool) -> str | None:
    """Say what this machine lacks, or None when it has all that is needed."""
    if version[:2] < OLDEST_PYTHON:
        return (
            f"simdb needs Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or newer; this is "
            f"Python {version[0]}.{version[1]} ({sys.executable}). Start this script with a "
            "newer one, for example: python3.13 tools/run.py"
        )
    if not has_venv:
        return (
            "This Python has no module 'ensurepip', which makes virtual environments. On Debian "
            "and Ubuntu it is in a package of its own:\n"
            "    sudo apt-get update && sudo apt-get install -y python3-venv\n"
            f"(python{version[0]}.{version[1]}-venv if python3 is another version there)"
        )
    return None


def python_of(environment: Path) -> Path:
    """Return the path of an environment's own interpreter."""
    folder, name = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return environment / folder / name


def start(
    *command: str | Path,
    output: int | IO[str] | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """Start a program in the checkout, with no standard input.

    Args:
        command: the program and its arguments.
        output: where it writes; None for where this one does.
        variables: of its environment, besides those of this process.
    """
    settings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0", **variables}
    # What is imported is compiled once: the tests start hundreds of processes.
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=CHECKOUT,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        text=True,
    )


def run(*command: str | Path, variables: Mapping[str, str] = MappingProxyType({})) -> int:
    """Run a program in the checkout and return its exit code."""
    return start(*command, variables=variables).wait()


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of tests, in memory where there is room: no sync waits for a disk."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    folder = tempfile.TemporaryDirectory(prefix="simdb-", dir=MEMORY if has_room else None)
    Path(folder.name).chmod(0o755)  # some tests try what another user may do with a file in it
    return folder


def require(*command: str | Path) -> None:
    """Run a program and leave with its exit code if it fails."""
    code = run(*command)
    if code:
        print(f"failed ({code}): {' '.join(map(str, command))}", file=sys.stderr)
        sys.exit(code)


def is_set_up(environment: Path, group: str | None) -> bool:
    """Tell whether an environment was set up with a group for the present pyproject.toml."""
    try:
        found = json.loads((environment / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    serves = [state_of(richer) for richer in GROUPS[GROUPS.index(group) :]]
    return python_of(environment).exists() and found in serves


def state_of(group: str | None) -> dict[str, object]:
    """What is noted in an environment that was set up with a group."""
    project = (CHECKOUT / "pyproject.toml").read_bytes()
    return {
        "pyproject": hashlib.sha256(project).hexdigest(),
        "checkout": str(CHECKOUT),
        "group": group,
        "beside": beside(group),
    }


def beside(group: str | None) -> list[str]:
    """The groups that are installed with one because of what this machine has."""
    runs_all = group is not None and GROUPS.index(group) >= GROUPS.index("test")
    return [ON_JAVA] if runs_all and shutil.which("java") else []


def set_up(
    environment: Path, base: str | Path, group: str | None, *, extra: str = COMPILER
) -> None:
    """Make an environment and install simdb into it, unless that was done already.

    Args:
        environment: its folder.
        base: the Python that makes it.
        group: of pyproject.toml, what is installed besides; None for nothing.
        extra: of simdb; "" for none.
    """
    if not is_set_up(environment, group):
        make(environment, base, extra=extra)
        complete(environment, group)


def make(environment: Path, base: str | Path, *, extra: str = COMPILER) -> None:
    """Make an environment by another Python and install simdb into it, with what it needs."""
    say(f"Setting up {environment} (once, and again when pyproject.toml changes)")
    python = python_of(environment)
    # Without pip in it, an earlier set-up was cut short: venv then completes what is there.
    if not python.exists() or run(python, "-c", "import pip"):
        require(base, "-m", "venv", environment)
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "uv")
    install(environment, "--editable", f".[{extra}]" if extra else ".")


def complete(environment: Path, group: str | None) -> None:
    """Install what a group of pyproject.toml names into an environment, and note that there."""
    if group:
        project = CHECKOUT / "pyproject.toml"
        install(environment, "--group", f"{project}:{group}")
        for each in beside(group):
            install(environment, "--group", f"{project}:{each}", *UNKEPT)
    (environment / STAMP).write_text(json.dumps(state_of(group)), encoding="utf-8")


def install(environment: Path, *arguments: str) -> None:
    """Install packages into an environment; what is imported of them is compiled then.

    By uv, in a third of the time of pip. Where that cannot, on a platform without it or where only
    pip is told of the index to ask, by pip.
    """
    python = python_of(environment)
    uv = python.with_name("uv" + python.suffix)
    by_uv = (uv, "pip", "install", "--quiet", "--python", python, *STORED)
    if uv.exists() and not run(*by_uv, *arguments):
        return
    say("uv cannot install that here; pip does")
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    require(*pip, "--upgrade", OLDEST_PIP)
    require(*pip, *arguments)


def run_tests(arguments: list[str]) -> int:
    """Compile the kernels, beside the set-up if that is to be done, and run the tests.

    Returns:
        the exit code of the first step that failed, 0 if none did.
    """
    python, workers = python_of(ENVIRONMENT), min(available_processors(), 4)
    is_new = not is_set_up(ENVIRONMENT, "test")
    if is_new:
        make(ENVIRONMENT, sys.executable)
    with ThreadPoolExecutor() as pool:
        compiled = pool.submit(compile_kernels)
        if is_new:
            complete(ENVIRONMENT, "test")
        # What is collected is compiled, once and not by each worker.
        modules = sorted(CHECKOUT.glob("tests/**/test_*.py"))
        collect = (python, "-m", "pytest", "--collect-only", *QUIET)
        parts = [modules[part::workers] for part in range(workers)]
        for each in [start(*collect, *part, output=subprocess.DEVNULL) for part in parts]:
            each.wait()
        failures = [compiled.result()]
    spread = ("-n", str(workers), "--dist", "worksteal")
    say("pytest")
    with temporary_folder() as folder:
        variables = {"TMPDIR": folder, **ONE_THREAD}
        failures.append(run(python, "-m", "pytest", *spread, *arguments, variables=variables))
    return next(filter(None, failures), 0)


def run_checks(_arguments: list[str]) -> int:
    """Check style and types; return the exit code of the first check that failed, or 0."""
    return next(filter(None, [checked(*one) for one in CHECKS]), 0)


def checked(name: str, *command: str) -> int:
    """Run a check, tell what it says and whether it failed, and return its exit code."""
    check = start(python_of(ENVIRONMENT), *command, output=subprocess.PIPE)
    said = check.communicate()[0]
    failed = f" FAILED ({check.returncode}); the others still run" if check.returncode else ""
    say(f"{name}{failed}\n{said}".rstrip())
    return check.returncode


def available_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def other_pythons() -> dict[str, Path]:
    """Return the Pythons of this machine that simdb supports, but for that which runs this."""
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    own = version_of(Path(sys.executable))
    found: dict[str, Path] = {}
    for version in re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project):
        named = [*pyenv.glob(f"{version}.*/bin/python{version}")]
        named += [Path(path) for path in [shutil.which(f"python{version}")] if path]
        for path in named:
            if version_of(path) == version != own:
                found[version] = path
                break
    return found


def version_of(python: Path) -> str:
    """Return the version of a Python that can make environments, "" if it is none."""
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    asked = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return asked.stdout.strip() if asked.returncode == 0 else ""


def compile_kernels() -> int:
    """Compile those that are not kept yet; return the exit code of the first part that failed."""
    with ThreadPoolExecutor() as pool:
        compiled = [pool.submit(checked, *one) for one in COMPILING]
        return next(filter(None, [one.result() for one in compiled]), 0)


def run_versions(arguments: list[str]) -> int:
    """Run the tests that could depend on it on every other Python, beside each other.

    They load the kernels that this one has compiled.

    Returns:
        the exit code of the first that failed, 0 if none did.
    """
    if code := compile_kernels():
        return code
    pythons = other_pythons()
    say(f"The other Pythons of this machine: {', '.join(pythons) or 'none'}")
    newest = max(pythons, key=numbers_of, default=None)
    with ThreadPoolExecutor() as pool:
        tested = [
            pool.submit(test_version, version, base, arguments, compiles=version == newest)
            for version, base in pythons.items()
        ]
        return next(filter(None, [one.result() for one in tested]), 0)


def run_oldest(arguments: list[str]) -> int:
    """Run tests with the oldest versions of what simdb and its extras need that are permitted.

    A few may fail that compare the words of other packages, or need what is only in newer ones.

    Returns:
        the exit code of the first step that failed, 0 if none did.
    """
    if code := compile_kernels():
        return code
    environment = CHECKOUT / "build" / "oldest"
    python = python_of(environment)
    require(sys.executable, "-m", "venv", environment)
    require(python, "-m", "pip", "install", "--quiet", "uv")
    uv = (python.with_name("uv"), "pip", "install", "--quiet", "--python", python)
    extras = "arrow,duckdb,phonetics,plot,report,serve,statistics"
    require(*uv, "--resolution", "lowest-direct", "--editable", f".[{extras}]")
    require(*uv, *BESIDE_OLDEST)
    with temporary_folder() as folder:
        variables = {"TMPDIR": folder, **ONE_THREAD}
        return run(python, "-m", "pytest", *QUIET, *OLDEST, *arguments, variables=variables)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are compared."""
    return tuple(map(int, version.split(".")))


def test_version(version: str, base: Path, arguments: list[str], *, compiles: bool) -> int:
    """Set another Python up and run its tests; return the first exit code that is not 0.

    Only one that ``compiles`` has numba.
    """
    environment = OTHERS / version
    set_up(environment, base, "portable", extra=COMPILER if compiles else "")
    outputs = environment / "compiled.txt", environment / "tests.txt"
    with temporary_folder() as folder, outputs[0].open("w") as anew, outputs[1].open("w") as others:

        def begun(output: IO[str], *tests: str, **variables: str) -> subprocess.Popen[str]:
            settings = {"TMPDIR": folder, **ONE_THREAD, **variables}
            command = ("-m", "pytest", *QUIET, *tests)
            return start(python_of(environment), *command, output=output, variables=settings)

        compiling = begun(anew, *COMPILED_ANEW, NUMBA_CACHE_DIR=folder) if compiles else None
        try:
            rest = begun(others, *KERNELS).wait() or begun(others, *LEAN, *arguments).wait()
        finally:
            compiled = 0 if compiling is None else compiling.wait()
    lines = [line for path in outputs for line in path.read_text("utf-8").splitlines()]
    last = "; ".join(line for line in lines if re.match(r"\d+ (passed|failed|error)", line))
    code = compiled or rest
    say(f"Python {version}: {last or f'ended with {code}'}")
    if code:
        print("\n".join(lines), flush=True)
    return code


def audit(arguments: list[str]) -> int:
    """Ask PyPI for known weaknesses of everything that simdb was installed with.

    Returns:
        0 if none is known; 1 if there are some, or if a package could not be looked up.
    """
    python = python_of(ENVIRONMENT)
    require(python, "-m", "pip", "install", "--quiet", "pip-audit")
    return run(python, "-m", "pip_audit", "--local", "--skip-editable", "--strict", *arguments)


def coverage(arguments: list[str]) -> int:
    """Measure which lines and branches the tests run, in child processes too.

    Of compiled kernels no lines can be seen: they are left out, and looked at alone where
    ``NUMBA_DISABLE_JIT=1`` runs them as Python.

    Returns:
        the exit code of the first of pytest and the reports that failed; the table fails below
        the share that pyproject.toml states.
    """
    python = python_of(ENVIRONMENT)
    (CHECKOUT / "build").mkdir(exist_ok=True)
    interpreted = os.environ.get("NUMBA_DISABLE_JIT") == "1"
    chosen = ("--include" if interpreted else "--omit", "simdb/kernels/*")
    chosen_tests = ["--ignore", "tests/tools", *arguments]  # campaigns and benchmarks only add
    commands = (
        ("erase",),
        ("run", "-m", "pytest", *chosen_tests),
        ("combine", "--quiet"),
        ("json", "--quiet", "-o", "build/coverage.json", "--fail-under", "0", *chosen),
        ("report", *chosen),
    )
    codes = [run(python, "-m", "coverage", *command) for command in commands]
    return next(filter(None, codes), 0)


def build_release(_arguments: list[str]) -> int:
    """Build what a release consists of into build/dist and check it; nothing is uploaded.

    The wheel brings the kernels that are kept in the checkout, and is built by its environment,
    which has all that building needs.

    Returns:
        the exit code of the first step that failed, 0 if none did.
    """
    python = python_of(ENVIRONMENT)
    folder = CHECKOUT / "build" / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    if code := compile_kernels():
        return code
    kernels = {"SIMDB_KERNELS": str(CHECKOUT / "simdb" / "kernels" / "__pycache__")}
    if code := run(
        *(python, "-m", "build", "--no-isolation", "--outdir", folder, CHECKOUT), variables=kernels
    ):
        return code
    built = sorted(folder.iterdir())
    wheels = [path for path in built if path.suffix == ".whl"]
    if code := run(python, "-m", "twine", "check", "--strict", *built):
        return code
    if code := run(python, "-m", "check_wheel_contents", *wheels):
        return code
    say("Built and checked, not uploaded: " + ", ".join(path.name for path in built))
    return 0


def main(arguments: list[str]) -> int:
    """Carry out one command."""
    command, *rest = arguments or ["help"]
    known = {"demo", "test", "check", "versions", "oldest"}
    known |= {"setup", "audit", "coverage", "release"}
    if command not in known:
        print(__doc__)
        return 0 if command in {"help", "-h", "--help"} else 2
    has_venv = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
    missing = missing_requirement(sys.version_info[:3], has_venv=has_venv)
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if command == "test":
        return run_tests(rest)
    set_up(ENVIRONMENT, sys.executable, None if command == "demo" else "dev")
    if command == "demo":
        return run(python_of(ENVIRONMENT), "tools/demo.py", *rest)
    work = {
        "setup": lambda _: 0,
        "audit": audit,
        "check": run_checks,
        "coverage": coverage,
        "oldest": run_oldest,
        "release": build_release,
        "versions": run_versions,
    }
    return work[command](rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
