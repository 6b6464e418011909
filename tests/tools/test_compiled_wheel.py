"""The wheel brings kernels that are compiled, or requires what compiles them."""

from __future__ import annotations

import venv
from types import SimpleNamespace
from typing import Any

import pytest

from simdb.kernels import kept
from simdb.kernels.register import ENTRIES
from tests.support.processes import CHECKOUT, ended
from tools.compiled_wheel import TAG, CompiledWheel

MARK = kept.fingerprint()
ON_LEVEL = pytest.mark.skipif(
    MARK is None or not MARK.startswith(kept.LEVEL), reason="a wheel brings none for this machine"
)


@pytest.fixture
def built(monkeypatch, tmp_path):
    """What the hook adds to a wheel, from a folder of kernels."""
    monkeypatch.setenv("SIMDB_KERNELS", str(tmp_path))
    project = SimpleNamespace(
        dependencies=["numpy>=2"], optional_dependencies={"compile": ["numba>=0.61"]}
    )
    metadata: Any = SimpleNamespace(core=project)
    hook = CompiledWheel(str(CHECKOUT), {}, None, metadata, str(tmp_path / "dist"), "wheel")  # type: ignore[arg-type] # it has no settings

    def build(version: str = "standard") -> dict[str, Any]:
        data: dict[str, Any] = {"dependencies": [], "force_include": {}, "pure_python": True}
        hook.initialize(version, data)
        hook.finalize(version, data, "the.whl")
        return data

    build.hook = hook  # type: ignore[attr-defined]
    return build


@ON_LEVEL
def test_it_brings_those_of_its_sources_alone_for_all_versions_of_python(built, tmp_path):
    all_of_them = [f"{entry.name}-{MARK}-1.so" for entry in ENTRIES]
    for name in (*all_of_them, "a.b-x86-64-v3-0-1.so", "a.b.pyc"):
        (tmp_path / name).touch()
    data = built()
    assert data["force_include"] == {
        str(tmp_path / name): f"simdb/kernels/compiled/{name}" for name in all_of_them
    }
    assert (data["tag"], data["pure_python"], data["dependencies"]) == (TAG, False, [])
    assert TAG.startswith("py3-none-")


@ON_LEVEL
def test_it_is_not_built_with_some_of_them(built, tmp_path):
    for entry in ENTRIES[1:]:
        (tmp_path / f"{entry.name}-{MARK}-1.so").touch()
    with pytest.raises(RuntimeError, match=f"has no compiled {ENTRIES[0].name}$"):
        built()


def test_what_is_edited_or_has_none_requires_numba(built, monkeypatch):
    edited = built("editable")
    monkeypatch.setattr(kept, "fingerprint", lambda: "of-another-processor-0")
    for data in (edited, built()):
        assert (data["dependencies"], data["force_include"]) == (["numba>=0.61"], {})
        assert data["pure_python"]
        assert "tag" not in data


def test_building_needs_all_that_compiles_where_that_can_be(built, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert built.hook.dependencies() == ["numpy>=2", "numba>=0.61"]
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert built.hook.dependencies() == []


@ON_LEVEL
@pytest.mark.slow
def test_what_pip_builds_of_the_sources_runs_without_a_compiler(tmp_path):
    venv.create(tmp_path / "clean", with_pip=True)
    python, simdb = (tmp_path / "clean" / "bin" / name for name in ("python", "simdb"))
    outside: dict[str, Any] = {"cwd": tmp_path}
    outside["variables"] = {"PYTHONPATH": "", "SIMDB_KERNELS": ""}
    ended(python, "-m", "pip", "install", "--quiet", CHECKOUT, **outside)
    ended(python, "-m", "pip", "check", **outside)
    said = ended(python, "-c", "import numba", code=1, **outside).stderr
    assert "No module named 'numba'" in said
    ended(simdb, "warm", **outside)
