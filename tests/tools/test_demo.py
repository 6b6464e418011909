"""The demo: the functions of the standard library, side by side."""

import ast
import itertools
import json
import os
import textwrap
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.processes import interpreted
from tools import demo
from tools.demo import SHORTEST_SOURCE, iter_functions

BODY = "\n".join(
    f"    value_{number} = {number}  # padding to be long enough" for number in range(6)
)
MODULE = f"""\
import os

@decorated
def top():
{BODY}

def short():
    pass

class Outer:
    class Inner:
        def method(self):
{textwrap.indent(BODY, "        ")}

            def nested():
{textwrap.indent(BODY, "            ")}

if os.name:
    async def top():
{textwrap.indent(BODY, "    ")}
"""


def test_functions_are_named_by_module_and_qualified_name(tmp_path):
    for name in ["a.py", "pack/__init__.py", "pack/b.py", "test/c.py", "site-packages/d.py"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MODULE)
    (tmp_path / "broken.py").write_text("def broken(:")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.py").write_text("(" * 1000)

    found = dict(iter_functions(tmp_path))

    assert set(found) == {
        f"{module}:{name}"
        for module in ("a", "pack", "pack.b")
        for name in ("Outer.Inner.method", "top", "top#2")
    }
    assert found["a:top"].startswith("@decorated\ndef top():\n")
    assert found["a:top"].endswith("value_5 = 5  # padding to be long enough")


def test_the_standard_library_of_this_python_has_functions():
    first = list(itertools.islice(iter_functions(), 300))

    assert len(first) == 300
    assert len({key for key, _ in first}) == 300
    assert all(len(source) >= SHORTEST_SOURCE for _, source in first)
    assert not any("test" in key.split(":")[0].split(".") for key, _ in first)
    assert ast.parse(textwrap.dedent(first[0][1])).body


def test_the_demo_keeps_its_store_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    chosen = [
        (f"m{number}:f", f"def f():\n{BODY}\n    return {number * 1111}\n") for number in range(4)
    ]
    monkeypatch.setattr(demo, "iter_functions", lambda: iter(chosen))
    store = tmp_path / "it's.simdb"

    for added in ("4 added", "0 added"):
        assert demo.main([str(store)]) == 0
        shown = capsys.readouterr()
        for part in ("6 pairs", "m0:f", "return 1111", "|", "groups", "search", "simdb stats"):
            assert part in shown.out
        assert added in shown.out
        assert shown.err.count("compiled once on this machine") == 1
    assert demo.main([str(store), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    stats = run("stats", str(store), "--json")
    assert json.loads(stats.stdout)


WATCHED = """
import itertools, sys
from simdb.kernels.compiler import Kernel
from tools import demo

every, fill = demo.iter_functions, demo._fill
demo.iter_functions = lambda: itertools.islice(every(), 300)

def compiled():
    return sum(
        len(value.variants or ())
        for name, module in list(sys.modules.items())
        if name.startswith("simdb.kernels.")
        for value in vars(module).values()
        if isinstance(value, Kernel)
    )

def watched(*arguments, **options):
    before.append(compiled())
    return fill(*arguments, **options)

before, demo._fill = [], watched
try:
    assert demo.main([sys.argv[1]]) == 0
finally:
    assert before[0] == compiled() > 10, (before, compiled())
"""


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_nothing_is_compiled_while_the_demo_takes_times(tmp_path):
    done = interpreted(WATCHED, tmp_path / "s.simdb")
    assert "A search for a copy" in done.stdout


def test_the_demo_without_a_path_makes_a_folder_and_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = f"def f():\n{BODY}\n"
    monkeypatch.setattr(demo, "iter_functions", lambda: iter([("m:f", source)]))

    assert demo.main([]) == 0

    (store,) = tmp_path.glob("simdb-demo-*/demo.simdb")
    assert str(store) in capsys.readouterr().out


def test_the_demo_says_when_the_sources_are_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "iter_functions", lambda: iter([]))

    assert demo.main([str(Path(tmp_path) / "s.simdb")]) == 2

    assert "not installed" in capsys.readouterr().err
