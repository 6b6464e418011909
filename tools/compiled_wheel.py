"""The build hook of the wheel, which brings the kernels compiled: who installs it needs no numba.

One wheel serves every version of Python, and the processors that ``kept.LEVEL`` names. They are
compiled while it is built, in a minute or two, or taken from the folder that ``SIMDB_KERNELS``
names. What is built for another platform, and what is installed to be edited, has none, and
requires numba instead.
"""

from __future__ import annotations

import os
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


class CompiledWheel(BuildHookInterface[WheelBuilderConfig]):
    """Compiles the kernels, and puts them into the wheel."""

    def dependencies(self) -> list[str]:
        """What building needs: all that simdb does, since kernels are called to be compiled."""
        return [*self.metadata.core.dependencies, *self._compiler]

    @property
    def _compiler(self) -> list[str]:
        compiler: list[str] = self.metadata.core.optional_dependencies["compile"]
        return compiler

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Find the libraries before the wheel is written."""
        self._scratch = tempfile.TemporaryDirectory(prefix="simdb-kernels-")
        libraries = [] if version == "editable" else self._libraries()
        if not libraries:
            build_data["dependencies"] += self._compiler
            return
        build_data["pure_python"] = False
        build_data["tag"] = TAG
        for library in libraries:
            build_data["force_include"][str(library)] = f"simdb/kernels/compiled/{library.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        del version, build_data, artifact_path
        self._scratch.cleanup()

    def _libraries(self) -> list[Path]:
        sys.path.insert(0, self.root)
        from simdb.kernels import kept

        mark = kept.fingerprint()
        if mark is None or not mark.startswith(kept.LEVEL):
            return []
        given = os.environ.get("SIMDB_KERNELS")
        folder = Path(given) if given else self._compiled()
        return sorted(folder.glob(f"*-{mark}-*.so"))

    def _compiled(self) -> Path:
        """Compile all kernels, on all processors."""
        self.app.display_info("Compiling the kernels, which takes a minute or two")
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
