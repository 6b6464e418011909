"""The build hook of the wheel, which brings the kernels compiled: numba need not be installed.

One wheel serves every version of Python, and the processors that ``kept.LEVEL`` names. The kernels
are compiled while it is built, in a minute or two, or taken from the folder that ``SIMDB_KERNELS``
names. Where none can be compiled to be shared, and where simdb is installed to be edited, there are
none, and numba is required: by the wheel, which pip goes by. uv goes by pyproject.toml, and must be
asked for the extra ``compile``.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig

# What the libraries ask of the system is older than its oldest version that wheels are for.
TAG = "py3-none-manylinux_2_17_x86_64"
MOST_PROCESSES = 8  # of some dozen modules
ROOT = Path(__file__).resolve().parents[1]


def _compiler(metadata: Any) -> list[str]:
    """The requirements of the extra that compiles."""
    found: list[str] = metadata.core.optional_dependencies["compile"]
    return found


def _may_compile() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _mark() -> str | None:
    """What kernels have in their names that can be compiled here for a wheel; None if none can."""
    if not _may_compile():
        return None
    sys.path.insert(0, str(ROOT))
    try:
        from simdb.kernels import kept
    finally:
        sys.path.remove(str(ROOT))
    mark = kept.fingerprint()
    return mark if mark is not None and mark.startswith(kept.LEVEL) else None


class CompiledWheel(BuildHookInterface[WheelBuilderConfig]):
    """Compiles the kernels, and puts them into the wheel."""

    _scratch: tempfile.TemporaryDirectory[str] | None = None  # where it has compiled

    def dependencies(self) -> list[str]:
        """What building needs: all that simdb does, since kernels are called to be compiled."""
        if not _may_compile():
            return []
        return [*self.metadata.core.dependencies, *_compiler(self.metadata)]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Find the libraries before the wheel is written."""
        libraries = [] if version == "editable" else self._libraries()
        if not libraries:
            build_data["dependencies"] += _compiler(self.metadata)
            return
        build_data["pure_python"] = False
        build_data["tag"] = TAG
        for library in libraries:
            build_data["force_include"][str(library)] = f"simdb/kernels/compiled/{library.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        del version, build_data, artifact_path
        if self._scratch is not None:
            self._scratch.cleanup()

    def _libraries(self) -> list[Path]:
        """Return those of all kernels, compiled if they are not given; none where none can be."""
        mark = _mark()
        if mark is None:
            return []
        from simdb.kernels.register import BY_NAME  # from the checkout, as in ``_mark``

        given = os.environ.get("SIMDB_KERNELS")
        folder = Path(given) if given else self._compiled()
        found = sorted(folder.glob(f"*-{mark}-*.so"))
        missing = BY_NAME.keys() - {library.name.partition("-")[0] for library in found}
        if missing:
            raise RuntimeError(f"{folder} has no compiled {', '.join(sorted(missing))}")
        return found

    def _compiled(self) -> Path:
        """Compile all kernels, on all processors."""
        self.app.display_info("Compiling the kernels, which takes a minute or two")
        self._scratch = tempfile.TemporaryDirectory(prefix="simdb-kernels-")
        parts = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
        settings = {**os.environ, "NUMBA_CACHE_DIR": self._scratch.name}
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.twins", str(part), str(parts)],
                cwd=self.root,
                env=settings,
            )
            for part in range(parts)
        ]
        codes = [one.wait() for one in started]
        if any(codes):
            raise RuntimeError("the kernels could not be compiled; see above")
        return Path(self._scratch.name) / "simdb"
