"""The set-up script, the corpus maker and the benchmark's own parts."""

from __future__ import annotations

import json
import os
import random
import sys
from fractions import Fraction
from itertools import combinations, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pytest

from tests import conftest
from tests.support.processes import CHECKOUT, ended, forked
from tools import make_corpus, run
from tools.benchmarks import children, corpora, oracle, peers, pipelines, registry, report


def shingles(text: str, size: int = 9) -> set[str]:
    text = " ".join(text.split())
    if not text:
        return set()
    return {text[i : i + size] for i in range(max(1, len(text) - size + 1))}


# The set-up script.


def test_an_old_python_is_refused_by_version():
    assert "3.11 or newer" in str(run.missing_requirement((3, 10, 4), has_venv=True))
    assert run.missing_requirement((3, 11, 0), has_venv=True) is None
    assert run.missing_requirement((4, 0, 0), has_venv=True) is None


def test_a_missing_venv_is_answered_with_the_package_to_install():
    message = str(run.missing_requirement((3, 12, 1), has_venv=False))
    assert "apt-get install -y python3-venv" in message
    assert "python3.12-venv" in message


def test_set_up_is_done_again_only_when_something_changed(tmp_path, monkeypatch):
    python = run.python_of(tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    assert not run.is_set_up(tmp_path, None)
    noted, stamp = run.state_of("test"), tmp_path / run.STAMP
    stamp.write_text(json.dumps(noted))
    assert run.is_set_up(tmp_path, "test")
    assert run.is_set_up(tmp_path, None)  # what has more serves too
    assert not run.is_set_up(tmp_path, "dev")
    for changed in ({"pyproject": "2"}, {"checkout": "elsewhere"}):
        stamp.write_text(json.dumps({**noted, **changed}))
        assert not run.is_set_up(tmp_path, "test")
    stamp.write_text("cut sho")
    assert not run.is_set_up(tmp_path, None)


def test_an_environment_is_compiled_in_as_soon_as_it_has_what_kernels_need(monkeypatch):
    steps: list[Any] = []
    monkeypatch.setattr(run, "is_set_up", lambda *_: False)
    monkeypatch.setattr(run, "make", lambda *_: steps.append("made"))

    def compiled(*_: object) -> int:
        steps.append("compiled")
        return 0

    monkeypatch.setattr(run, "checked", compiled)
    monkeypatch.setattr(run, "complete", lambda _, group: steps.append(group))
    monkeypatch.setattr(run, "python_of", lambda _: "false")
    monkeypatch.setattr(run, "run", lambda *command, **_: 0)
    assert run.run_tests([]) == 0
    assert steps[0] == "made"
    assert sorted(steps[1:]) == ["compiled", "compiled", "test"]


def test_what_uv_cannot_install_pip_does(tmp_path, monkeypatch):
    ran: list[str] = []
    codes = {"uv": 0, "pip": 0}

    def run_command(program: Any, *rest: Any) -> int:
        ran.append(Path(program).name if rest[0] == "pip" else "pip")
        return codes[ran[-1]]

    def installed() -> list[str]:
        ran.clear()
        run.install(tmp_path, "--group", "test")
        return ran

    monkeypatch.setattr(run, "run", run_command)
    python = run.python_of(tmp_path)
    python.parent.mkdir()
    assert installed() == ["pip", "pip"]
    python.with_name("uv").touch()
    assert installed() == ["uv"]
    codes["uv"] = 1
    assert installed() == ["uv", "pip", "pip"]


def test_other_pythons_are_found_by_version_but_not_those_that_do_not_start(tmp_path, monkeypatch):
    versions = {"3.11.2": "3.11", "3.12.9": "3.12", "3.13.0": "3.13", "3.13.1": "", "3.9.1": "3.9"}
    for full, told in versions.items():
        path = tmp_path / "versions" / full / "bin" / f"python{full.rpartition('.')[0]}"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\necho {told}\n" if told else "#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    own = tmp_path / "versions" / "3.11.2" / "bin" / "python3.11"
    monkeypatch.setattr(sys, "executable", str(own))
    found = {version: path.parents[1].name for version, path in run.other_pythons().items()}
    assert found == {"3.12": "3.12.9", "3.13": "3.13.0"}


def test_every_check_runs_and_the_first_failure_is_the_exit_code(monkeypatch, capfd):
    ran = []

    def run_command(*command, variables=None):
        ran.append(command[2])
        assert Path(variables["TMPDIR"]).is_dir() if command[2] == "pytest" else not variables
        return 5 if command[2] == "pytest" else 0

    monkeypatch.setattr(run, "is_set_up", lambda *_: True)
    monkeypatch.setattr(run, "python_of", lambda _: "false")
    monkeypatch.setattr(run, "run", run_command)
    assert run.run_tests(["-x"]) == 1
    assert ran == ["pytest"]
    said = capfd.readouterr().out
    assert said.index(f"== {run.COMPILING[0][0]} FAILED (1)") < said.index("== pytest")
    assert run.run_checks([]) == 1
    said = capfd.readouterr().out
    assert all(f"== {name} FAILED (1)" in said for name, *_ in run.CHECKS)


def test_an_unknown_command_explains_the_commands_from_any_folder(tmp_path):
    command = (sys.executable, CHECKOUT / "tools" / "run.py", "unheard-of")
    completed = ended(*command, code=2, cwd=tmp_path)
    assert "tools/run.py demo" in completed.stdout


# The options of the test suite.


@pytest.fixture
def run_suite(tmp_path, monkeypatch):
    """Run pytest with simdb's options on one slow, one data and one plain test."""
    suite = tmp_path / "test_suite.py"
    suite.write_text(
        "import pytest\n"
        "@pytest.mark.slow\ndef test_slow(): pass\n"
        "@pytest.mark.data\ndef test_data(data_directory): assert data_directory.is_dir()\n"
        "@pytest.mark.data\ndef test_part(data_directory): pytest.skip('a part is absent')\n"
        "def test_plain(): pass\n"
    )
    monkeypatch.delenv("SIMDB_DATA", raising=False)
    monkeypatch.chdir(CHECKOUT)
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    arguments = ["-q", "-c", os.devnull, "--rootdir", tmp_path, *plugins]

    def run_with(*options, code=0):
        program = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
        return forked(program, *arguments, *options, suite, code=code).stdout

    return run_with


def test_slow_tests_are_deselected_and_data_tests_skipped_unless_asked_for(run_suite):
    assert "1 passed, 2 skipped, 1 deselected" in run_suite()


def test_required_data_turns_every_skip_of_a_data_test_into_a_failure(run_suite, tmp_path):
    said = run_suite("--slow", "--require-data", "--data", tmp_path, code=1)
    assert "1 failed, 3 passed" in said


def test_data_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("SIMDB_DATA", raising=False)
    for options, message in (
        ({"--require-data": True}, "needs --data or SIMDB_DATA"),
        ({"--data": str(tmp_path / "absent")}, "does not exist"),
    ):
        config: Any = SimpleNamespace(getoption=options.get)
        with pytest.raises(pytest.UsageError, match=message):
            conftest.pytest_configure(config)


# The corpus.


@pytest.fixture(scope="module")
def corpus():
    return dict(make_corpus.documents(2_000, seed=5))


def test_the_corpus_is_the_same_for_the_same_seed(corpus):
    assert dict(islice(make_corpus.documents(2_000, seed=5), 400)) == dict(
        islice(corpus.items(), 400)
    )
    assert dict(make_corpus.documents(400, seed=6)) != dict(make_corpus.documents(400, seed=5))
    assert make_corpus.planted_pairs(2_000, seed=5) == make_corpus.planted_pairs(2_000, seed=5)


def test_documents_have_numbered_keys_and_the_lengths_of_reuters(corpus):
    assert list(corpus) == [f"d{number}" for number in range(2_000)]
    lengths = [len(text.split()) for text in corpus.values()]
    # Medians of 2,000 draws from the measured distribution (median 82) spread by about 2.
    assert 75 <= np.median(lengths) <= 90
    assert min(lengths) >= 10
    assert max(lengths) <= 1668


def test_three_tenths_of_the_documents_carry_shared_passages(corpus):
    carriers = sum("\n\n" in text for text in corpus.values())
    planted = 2 * len(make_corpus.planted_pairs(2_000, seed=5))
    # Planted documents carry none. Five standard deviations of the binomial are 102.
    assert abs(carriers - 0.3 * (2_000 - planted)) < 102
    headers = [text.partition("\n\n")[0][:40] for text in corpus.values() if "\n\n" in text]
    assert len(set(headers)) < 0.95 * len(headers)


def test_planted_pairs_have_the_stated_similarity_and_spread_from_half_to_one(corpus):
    pairs = make_corpus.planted_pairs(2_000, seed=5)
    assert len(pairs) == 20
    for pair in pairs:
        left, right = shingles(corpus[pair.left]), shingles(corpus[pair.right])
        assert pair.similarity == len(left & right) / len(left | right)
        assert int(pair.left[1:]) < int(pair.right[1:])
    similarities = [pair.similarity for pair in make_corpus.planted_pairs(40_000)]
    counts, _ = np.histogram(similarities, bins=[0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0000001])
    assert counts[0] < 0.1 * len(similarities)
    assert min(counts[1:]) > 0.14 * len(similarities)


def test_only_planted_pairs_are_similar(corpus):
    texts = list(corpus.values())
    found = oracle.exact_pairs(texts, Fraction(4, 5))
    planted = {
        (int(pair.left[1:]), int(pair.right[1:])): pair.similarity
        for pair in make_corpus.planted_pairs(2_000, seed=5)
        if pair.similarity >= 0.8
    }
    assert found == planted


def test_the_corpus_is_written_as_lines_with_its_pairs(tmp_path):
    output, pairs = tmp_path / "corpus.jsonl", tmp_path / "pairs.tsv"
    program = (sys.executable, CHECKOUT / "tools" / "make_corpus.py", "--count", 300)
    ended(*program, "--output", output, "--pairs", pairs)
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == list(make_corpus.documents(300))
    assert len(pairs.read_text(encoding="utf-8").splitlines()) == 3


def test_unseen_texts_have_the_words_and_passages_of_the_corpus_but_other_sentences(corpus):
    """Of the running words of a corpus of another seed next to none are known."""
    known = {word.strip(".").lower() for text in corpus.values() for word in text.split()}
    unseen = corpora.unseen_texts(500, 5, 6)
    assert unseen == corpora.unseen_texts(500, 5, 6)
    assert not set(unseen) & set(corpus.values())
    shares = []
    for texts in (unseen, [text for _, text in make_corpus.documents(500, seed=6)]):
        words = [word.strip(".").lower() for text in texts for word in text.split()]
        shares.append(sum(word in known for word in words) / len(words))
    assert shares[0] > 0.9
    assert shares[1] < 0.1
    passages = [
        {part[:60] for text in texts if "\n\n" in text for part in text.split("\n\n")}
        for texts in (unseen, corpus.values())
    ]
    assert len(passages[0] & passages[1]) > 20


# The benchmark.


@pytest.mark.parametrize("threshold", [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10)])
def test_the_oracle_equals_brute_force(threshold):
    chance = random.Random(3)
    words = ["near", "copy", "Öl", "text", "shingle", "set", "of", "the"]
    texts = [" ".join(chance.choices(words, k=chance.randint(0, 12))) for _ in range(40)]
    texts += [text + chance.choice(["", " x", "\n", " the end"]) for text in texts[:30]]
    texts += ["", " ", "a", "a", "12345678", "123456789"]
    sets = [shingles(text) for text in texts]
    expected = {}
    for left, right in combinations(range(len(texts)), 2):
        overlap = len(sets[left] & sets[right])
        union = len(sets[left] | sets[right])
        if union and Fraction(overlap, union) >= threshold:
            expected[left, right] = overlap / union
    assert len(expected) > 10
    assert oracle.exact_pairs(texts, threshold) == expected


def test_the_oracle_keeps_its_answer(tmp_path):
    texts = ["the same text twice", "the same text twice", "another text"]
    first = oracle.cached_exact_pairs(tmp_path, texts, Fraction(4, 5))
    assert first == {(0, 1): 1.0}
    assert len(list(tmp_path.iterdir())) == 1
    assert oracle.cached_exact_pairs(tmp_path, texts, Fraction(4, 5)) == first


def test_a_child_runs_on_the_cores_it_was_given_and_reports_absent_peers():
    answer = children.in_child("tests.tools.test_tools:cores_and_memory", cores=1)
    assert answer["cores"] == 1
    assert 20 * 2**20 <= answer["peak"] - answer["before"] <= 60 * 2**20
    assert children.in_child("tests.tools.test_tools:missing_library") == {"absent": "no_such_peer"}


def cores_and_memory():
    """A task for a child: hold 40 MB for a moment."""
    import os
    import time

    with children.memory_watched() as watched:
        held = bytearray(b"x") * (40 * 10**6)
        time.sleep(0.1)
        del held
    return {"cores": len(os.sched_getaffinity(0)), **watched}


def missing_library():
    """A task for a child: use a peer that is not installed."""
    import importlib

    return importlib.import_module("no_such_peer")


def test_peers_are_fed_every_shingle():
    assert peers.shingles_of("0123456789a") == ["012345678", "123456789", "23456789a"]
    assert peers.shingles_of("short") == ["short"]


def test_the_report_names_reached_missed_and_absent(tmp_path):
    lines: list[str] = []
    bench = registry.Bench(data=None, work=tmp_path, count=10, announce=lines.append)
    bench.at_most("search", "p50", 0.25, "ms", limit=0.3)
    bench.at_most("search", "p99", 2.5, "ms", limit=2.0, note="cold")
    bench.add(registry.Figure("ingest", "against x", 2.0, "s", peer="x", note="not installed"))
    shown = report.table(bench.figures).splitlines()
    assert len(shown) == 5
    assert "yes" in shown[2]
    assert shown[3].endswith("NO       cold")
    assert "x absent" in shown[4]
    assert len(lines) == 3
    report.write_json(tmp_path / "out.json", bench, ["search"])
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [figure["reached"] for figure in written["figures"]] == [True, False, None]
    assert written["machine"]["packages"]["numpy"] == np.__version__


def test_pipelines_tell_recall_and_precision_of_what_they_keep(tmp_path, monkeypatch):
    words = [f"w{number}" for number in range(40)]
    texts = [" ".join([*words[:-1], str(row // 2)]) for row in range(6)]  # 36 of 38 in common
    texts += [f"another text of its own, number {row}" for row in range(3)]
    table = pyarrow.table({"key": [f"k{row}" for row in range(9)], "text": texts})
    monkeypatch.setattr(pipelines, "table_of", lambda _files: table)
    bench = registry.Bench(tmp_path, tmp_path, 1, announce=lambda _: None)
    pipelines.pipelines(bench)
    (figure,) = bench.figures
    assert figure.value is not None
    assert figure.value > 0
    assert figure.note.endswith("4 rows kept, recall 1.000, precision 1.000")


def test_real_data_must_be_named(tmp_path):
    bench = registry.Bench(data=None, work=tmp_path, count=10)
    with pytest.raises(FileNotFoundError, match="SIMDB_DATA"):
        bench.real_files()
