"""Settings tried on a sample: what each threshold removes, what yes and no on pairs say."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdb
from simdb import tuning
from simdb.database import open_throwaway
from simdb.errors import ConfigurationError
from simdb.tuning import LOWEST, Example, judge, to_judge
from tests.support.commands import done, failed, run, write_rows
from tests.support.similarities import jaccard

WORDS = [f"word{number}" for number in range(300)]
TRIED = (
    ("word:1 lowercase", simdb.Text(simdb.WordShingles(1), lowercase=True)),
    ("character:9", simdb.Text()),
    ("profile chat", simdb.Text.profile("chat")),
)


def corpus(count: int = 40) -> list[str]:
    """Texts of which each fourth is the one before it, changed, and each fifth in capitals."""
    generator = random.Random(1)
    texts: list[str] = []
    for number in range(count):
        words = generator.sample(WORDS, 40)
        if number % 4 == 3:
            words = texts[-1].lower().split()
            words[: number % 7] = ["changed"] * (number % 7)
        text = " ".join(words)
        texts.append(text.upper() if number % 5 == 4 else text)
    return texts


def removed_by(texts: list[str], threshold: float) -> int:
    """How many texts are similar to one kept before them, by their lower-case words."""
    kept: list[str] = []
    for text in texts:
        words = text.lower().split()
        if not any(jaccard(words, other.lower().split()) >= threshold for other in kept):
            kept.append(text)
    return len(texts) - len(kept)


@pytest.fixture(scope="module")
def found() -> simdb.Tuning:
    return simdb.tune(corpus(), tried=TRIED)


def test_each_threshold_removes_what_dedupe_would(found: simdb.Tuning) -> None:
    texts = corpus()
    of_words, of_characters, _ = found.trials
    assert [one.rows for one in of_words.removals] == [
        removed_by(texts, one.threshold) for one in of_words.removals
    ]
    assert of_words.removals[0].rows > of_characters.removals[0].rows  # capitals are others
    for trial in found.trials:
        assert sum(trial.histogram) == len(trial.pairs)
        for one in trial.removals:
            assert all(pair.similarity >= one.threshold for pair in one.above)
            assert all(LOWEST <= pair.similarity < one.threshold for pair in one.below)
            near = [abs(pair.similarity - one.threshold) < 0.05 - 1e-9 for pair in trial.pairs]
            assert one.beside == sum(near)
            assert one.bytes <= found.bytes
    choices = [(trial, one) for trial in found.trials for one in trial.removals if one.rows]
    least = min((one for _, one in choices), key=lambda one: one.beside / one.rows)
    allowed = least.beside / least.rows + max(least.beside, 1) ** 0.5 / least.rows
    steady = [(trial, one) for trial, one in choices if one.beside / one.rows <= allowed]
    assert found.proposed is steady[0][0]
    assert found.threshold == max(one.threshold for trial, one in steady if trial is found.proposed)
    assert f"within 0.05 of the threshold {found.threshold:g}" in found.reason
    assert len(str(found).splitlines()) == 3 + len(found.trials)
    assert found.texts == tuple(texts)


def test_a_later_setting_is_proposed_only_where_it_is_clearly_steadier() -> None:
    def trial(name: str, *beside_and_rows: tuple[int, int]) -> tuning.Trial:
        removals = tuple(
            tuning.Removal(threshold, rows, 0, beside, (), ())
            for threshold, (beside, rows) in zip((0.7, 0.8), beside_and_rows, strict=True)
        )
        return tuning.Trial(name, simdb.Text(), removals, (), 1, 1.0, ())

    def proposed(*trials: tuning.Trial) -> tuple[str, float]:
        found, removal, reason = tuning._proposed(trials, (0.7, 0.8), 500)
        assert reason.startswith(f"{found.name} removes ")
        assert ("sample of 500 is too small" in reason) == (removal.rows < tuning.FEW)
        return found.name, removal.threshold

    assert proposed(trial("first", (8, 60), (12, 60)), trial("other", (6, 57), (30, 50))) == (
        "first",
        0.7,
    )
    assert proposed(trial("first", (40, 60), (50, 60)), trial("other", (6, 57), (5, 57))) == (
        "other",
        0.8,
    )
    assert proposed(trial("first", (0, 3), (0, 2))) == ("first", 0.8)


def test_more_pairs_to_judge_than_there_are_take_no_time(found: simdb.Tuning) -> None:
    trial = found.trials[0]
    assert len(to_judge(trial, 10**15)) == len(trial.pairs)
    assert to_judge(replace(trial, pairs=()), 10**15) == []


def test_yes_and_no_tell_precision_and_recall_with_intervals(found: simdb.Tuning) -> None:
    trial = found.trials[0]
    pairs = to_judge(trial, 12)
    assert len({(pair.left, pair.right) for pair in pairs}) == min(12, len(trial.pairs))
    answers = {(pair.left, pair.right): pair.similarity >= 0.7 for pair in trial.pairs}
    for one in judge(trial, answers):
        above = [pair for pair in trial.pairs if pair.similarity >= one.threshold - 1e-9]
        true = [pair for pair in above if pair.similarity >= 0.7]
        if one.threshold in (0.6, 0.7, 0.8, 0.9) and one.precision is not None:
            assert one.precision == pytest.approx(len(true) / len(above))
            assert one.recall == pytest.approx(
                len(true) / sum(pair.similarity >= 0.7 for pair in trial.pairs)
            )
            assert one.precision_interval is not None
            assert one.precision_interval[0] <= one.precision <= one.precision_interval[1]
    assert all(one.recall is None for one in judge(trial, {}))


def test_intervals_know_that_one_text_is_in_many_pairs() -> None:
    def width(pairs: list[Example]) -> float:
        trial: Any = tuning.Trial(
            "", simdb.Text(), (), (0,) * 9 + (len(pairs),), 1, 1.0, tuple(pairs)
        )
        answers = {(pair.left, pair.right): pair.left % 2 == 0 for pair in pairs}
        (told,) = judge(trial, answers, thresholds=[0.9])
        assert told.precision_interval is not None
        return told.precision_interval[1] - told.precision_interval[0]

    apart = [Example(2 * number + number % 2, 500 + number, 1.0) for number in range(40)]
    stars = [Example(number % 4, 500 + number, 1.0) for number in range(40)]
    assert width(stars) > 1.3 * width(apart)
    agreed = [pair for pair in apart if pair.left % 2 == 0]  # all are said to be the same
    assert width(agreed) == pytest.approx(1 - 0.025 ** (1 / len(agreed)))
    assert width(agreed[:3]) > 0.7


def test_too_little_and_impossible_thresholds_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="there are 1"):
        simdb.tune(["one"])
    with pytest.raises(ConfigurationError, match="at most 1, not 0"):
        simdb.tune(corpus(), thresholds=[0.3])
    assert simdb.tune(["a b", "c d"], tried=TRIED).threshold == 0.8  # nothing is similar


def test_the_command_proposes_another_and_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRIED", TRIED)
    source = write_rows(tmp_path / "in.jsonl", [{"text": text} for text in corpus()])
    shown = done("tune", source, "--examples", 1).stdout
    for part in (
        "40 rows",
        "word:1 lowercase",
        "at 0.7",
        "proposed:",
        "processor seconds",
        "within 0.05 of the threshold",
        "simdb dedupe",
        "row 3",
        "0.95: ",
    ):
        assert part in shown, shown
    told = json.loads(done("tune", source, "--json", "--examples", 2).stdout)
    assert told["trials"][0]["removals"][0]["above"][0]["left"]
    assert {len(trial["histogram"]) for trial in told["trials"]} == {10}
    assert done(*told["command"].split()[1:-1], tmp_path / "kept.jsonl").exit_code == 0
    monkeypatch.setattr(tuning, "TRIED", TRIED[2:])
    by_profile = done("tune", source).stdout.splitlines()[-1].split()
    assert by_profile[-6:-4] == ["--profile", "chat"]
    assert done(*by_profile[1:-1], tmp_path / "chat.jsonl").exit_code == 0
    asked = done("tune", source, "--ask", 4, stdin="maybe\ny\nn\n?\nq\n").stdout
    assert "precision" in asked
    assert "to " in asked
    assert "not known" in run("tune", source, "--ask", 4, stdin="q\n").stderr
    assert "asks questions" in failed("tune", source, "--ask", 4, "--json")
    ended = done("tune", source, "--ask", 4, stdin="y\nn\n").stdout  # no more to be read
    assert "precision" in ended
    assert "proposed:" in ended


def test_a_report_does_not_overwrite_the_input(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "page.html", [{"text": text} for text in corpus()])
    before = source.read_bytes()
    told = failed("tune", source, "--format", "jsonl", "--report", source)
    assert "is an input" in told
    assert source.read_bytes() == before


def test_settings_are_tried_with_the_threads_and_the_memory_that_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[dict[str, Any]] = []

    def noted(path: Path, **lent: Any) -> simdb.Database:
        allowed.append(lent)
        return open_throwaway(path, **lent)

    monkeypatch.setattr(tuning, "open_throwaway", noted)
    monkeypatch.setattr(tuning, "TRIED", TRIED[:1])
    source = write_rows(tmp_path / "in.jsonl", [{"text": "one two three"}] * 3)
    done("--threads", "1", "--memory", "64", "tune", source)
    assert allowed == [{"threads": 1, "memory": 64 * 2**20}]


def test_texts_that_are_all_empty_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRIED", TRIED)
    source = write_rows(tmp_path / "in.jsonl", [{"text": ""}] * 3)
    assert "3 rows of 0 bytes" in done("tune", source).stdout


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["a.tsv"], "kept.tsv"),
        (["--", "-a.tsv"], "kept.tsv"),
        (["a.dat", "--format", "csv", "--delimiter", ";"], "kept.csv"),
        (["latin.csv", "--encoding", "latin-1"], "kept.csv"),
        (["a.txt", "--format", "lines"], "kept.txt"),
        (["texts", "--pattern", "*.md"], "kept.txt"),
        (["part-*.jsonl"], "kept.jsonl"),
        (["part-1.jsonl", "a.tsv"], "kept/"),
    ],
)
def test_the_proposed_command_runs(
    arguments: list[str], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRIED", TRIED[:1])
    monkeypatch.chdir(tmp_path)
    texts = [f"{text} é" for text in corpus(8)]
    write_rows(tmp_path / "part-1.jsonl", [{"text": text} for text in texts[:4]])
    write_rows(tmp_path / "part-2.jsonl", [{"text": text} for text in texts[4:]])
    rows = ["text{}n", *(f"{text}{{}}1" for text in texts), ""]
    for name, between, encoding in (
        ("a.tsv", "\t", "utf-8"),
        ("-a.tsv", "\t", "utf-8"),
        ("a.dat", ";", "utf-8"),
        ("latin.csv", ",", "latin-1"),
        ("a.txt", "", "utf-8"),
    ):
        content = "\n".join(rows).format(*[between] * (len(rows) - 1))
        (tmp_path / name).write_text(content, encoding=encoding)
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "texts" / f"{number}.md").write_text(text, encoding="utf-8")
        (tmp_path / "texts" / f"{number}.txt").write_text("another", encoding="utf-8")
    command = shlex.split(json.loads(done("tune", "--json", *arguments).stdout)["command"])
    assert command[-1] == output
    assert done(*command[1:]).exit_code == 0
    assert (tmp_path / output).exists()


def test_what_cannot_be_tried_is_refused() -> None:
    tune: Any = simdb.tune
    with pytest.raises(simdb.BadItemError, match="row 1 is not a text, but int"):
        tune(["a", 2, "c"])
    wrong: list[dict[str, Any]] = [
        *({"thresholds": value} for value in ((), ("0.8",), 0.8, [10**400])),
        *({"sample": value} for value in (-1, 2.5)),
    ]
    for given in wrong:
        with pytest.raises(simdb.ConfigurationError):
            tune(["a b", "c d"], **given)


def test_numbers_of_other_types_are_tried() -> None:
    texts = [f"the quick brown fox number {number // 2}" for number in range(40)]
    tried = [("words", simdb.Text(simdb.WordShingles(1)))]
    tune: Any = simdb.tune
    given = tune(texts, thresholds=np.array([0.8, 0.9]), sample=np.int64(40), tried=tried)
    plain = tune(texts, thresholds=[0.8, 0.9], sample=40, tried=tried)
    assert given.trials[0].removals == plain.trials[0].removals
    same = tune(texts, thresholds=iter([Fraction(4, 5)]), tried=tried)
    assert same.trials[0].removals == plain.trials[0].removals[:1]
    assert tune(texts, thresholds=[np.float32(0.8)], tried=tried).trials


def test_pairs_below_the_lowest_threshold_count_as_beside_it() -> None:
    words = [f"w{number}" for number in range(200)]
    texts = [" ".join(words[:100]), " ".join(words[:65] + words[100:135])]  # 65 / 135 is 0.481
    tried = [("words", simdb.Text(simdb.WordShingles(1)))]
    (trial,) = simdb.tune(texts, thresholds=[0.51], tried=tried).trials
    assert trial.removals[0].beside == 1
    assert trial.pairs == ()
    assert sum(trial.histogram) == 0


def test_pairs_that_are_too_many_to_keep_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(WORDS[place : place + 30]) for place in range(60)] + ["the same"] * 20
    (every,) = simdb.tune(texts, tried=TRIED[:1]).trials
    monkeypatch.setattr(tuning, "MOST_KEPT", 55)
    monkeypatch.setattr(tuning, "_MATRIX", 1_000)
    (some,) = simdb.tune(texts, tried=TRIED[:1]).trials
    assert sum(every.histogram) == len(every.pairs) > 500
    assert some.histogram == every.histogram
    for one, other in zip(some.removals, every.removals, strict=True):
        assert (one.rows, one.bytes, one.beside) == (other.rows, other.bytes, other.beside)
    assert set(some.pairs) < set(every.pairs)
    kept = np.bincount([tuning._bin(one) for one in some.pairs]).tolist()
    assert kept == [min(5, many) for many in every.histogram]
    answers = {(one.left, one.right): one.similarity >= 0.8 for one in every.pairs}
    for told, known in zip(judge(some, answers), judge(every, answers), strict=True):
        assert told.precision == pytest.approx(known.precision)


def of_similarities(*counts: tuple[int, int, int]) -> list[str]:
    """Pairs of texts of so many words, of which so many are common, so many times."""
    texts = []
    for number, (times, common, each) in enumerate(counts):
        for time in range(times):
            words = [f"w{number}x{time}x{place}" for place in range(2 * each - common)]
            texts += [" ".join(words[:each]), " ".join(words[each - common :])]
    return texts


WORD = [("word:1", simdb.Text(simdb.WordShingles(1)))]


def test_pairs_at_an_edge_are_in_the_range_that_begins_there() -> None:
    texts = of_similarities((50, 6, 8), (30, 14, 17))  # 6 / 10 and 14 / 20
    (trial,) = simdb.tune(texts, tried=WORD).trials
    assert trial.histogram == (0, 0, 50, 0, 30, 0, 0, 0, 0, 0)
    assert [one.rows for one in trial.removals] == [80, 30, 0, 0]


def shares_held(ask: int, likely: Callable[[float], float], threshold: float) -> tuple[int, float]:
    """Of 100 samples of 400 pairs, how many intervals hold the precision; their mean width."""
    held, width = 0, 0.0
    for seed in range(100):
        generator = random.Random(seed)
        similar = sorted(round(generator.uniform(0.5, 1), 4) for _ in range(400))
        pairs = [Example(2 * n, 2 * n + 1, similarity) for n, similarity in enumerate(similar)]
        truth = {
            (one.left, one.right): generator.random() < likely(one.similarity) for one in pairs
        }
        histogram = tuple(np.bincount([tuning._bin(one) for one in pairs]).tolist())
        trial = tuning.Trial("", simdb.Text(), (), histogram, 1, 1.0, tuple(pairs))
        drawn = [(one.left, one.right) for one in to_judge(trial, ask, seed=seed)]
        (told,) = judge(trial, {one: truth[one] for one in drawn}, thresholds=[threshold])
        above = [truth[one.left, one.right] for one in pairs if one.similarity >= threshold]
        assert told.precision is not None
        assert told.precision_interval is not None
        low, high = told.precision_interval
        assert low <= told.precision <= high
        held += low <= sum(above) / len(above) <= high
        width += (high - low) / 100
    return held, width


def test_pairs_a_whole_range_away_are_not_beside_a_threshold() -> None:
    texts = of_similarities((3, 34, 37), (4, 46, 50), (1, 8, 9))  # 34 / 40, 46 / 54, 8 / 10
    (trial,) = simdb.tune(texts, thresholds=[0.8, 0.9], tried=WORD).trials
    assert 0.85 - 0.8 < 0.05 < 0.9 - 0.85  # by floats they are on one side
    assert [one.beside for one in trial.removals] == [1, 4]


@pytest.mark.parametrize("threshold", [5 / 9, 7 / 9, 2 / 3, 0.55, 8 / 9, 0.78])
def test_a_threshold_is_the_number_that_is_written(threshold: float) -> None:
    """Of which 5 / 9 as a float is a little more."""
    texts = of_similarities((1, 5, 7), (1, 7, 8), (1, 4, 5), (1, 16, 17))
    kind = WORD[0][1]
    (trial,) = simdb.tune(texts, thresholds=[threshold], tried=WORD).trials
    rows = [{"text": text} for text in texts]
    kept = simdb.dedupe(rows, item="text", kind=kind, threshold=threshold)
    assert trial.removals[0].rows == len(rows) - len(kept)


@pytest.mark.parametrize(
    ("ask", "above", "below", "widest"),
    [
        (40, 0.99, 0.99, 0.15),
        pytest.param(40, 0.97, 0.97, 0.17, marks=pytest.mark.slow),
        (20, 0.97, 0.97, 0.28),
        pytest.param(40, 0.7, 0.7, 0.36, marks=pytest.mark.slow),
        (40, 0.99, 0.01, 0.26),
    ],
)
def test_intervals_of_precision_hold_the_truth(
    ask: int, above: float, below: float, widest: float
) -> None:
    held, width = shares_held(ask, lambda value: above if value >= 0.7 else below, 0.6)
    assert held >= 93
    assert width < widest


def test_what_was_not_judged_may_be_true(found: simdb.Tuning) -> None:
    trial = found.trials[0]
    best = trial.pairs[-1]
    (told,) = judge(trial, {(best.left, best.right): True}, thresholds=[0.95])
    assert told.recall is None
    assert told.recall_interval is not None
    assert told.recall_interval[0] < 0.5 < told.recall_interval[1] == 1


def test_ranges_that_nobody_judged_may_be_true_or_not() -> None:
    """Twenty pairs in each range of similarities, all of them true."""
    pairs = [Example(2 * n, 2 * n + 1, 0.5 + (n % 10) / 20 + 0.01) for n in range(200)]
    trial: Any = tuning.Trial("", simdb.Text(), (), (20,) * 10, 1, 1.0, tuple(pairs))
    for asked in range(1, 41):
        drawn = to_judge(trial, 40)[:asked]
        if asked <= 9:
            assert drawn == to_judge(trial, asked)
            edges = sorted({tuning._bin(one) for one in drawn} | {-1, 10})
            assert max(np.diff(edges)) <= 2 * 10 / asked
        for one in judge(trial, {(pair.left, pair.right): True for pair in drawn}):
            assert (one.recall is None) == (asked < 10)
            true = sum(pair.similarity >= one.threshold for pair in pairs) / 200
            assert one.recall_interval is not None
            assert one.recall_interval[0] <= true <= one.recall_interval[1]
            if one.precision_interval is not None:
                assert one.precision_interval[0] <= one.precision_interval[1] == 1


def test_intervals_hold_the_truth_where_few_of_a_large_range_are_asked() -> None:
    below = (1_000, 12, 17), (40, 12, 15)  # 0.55 and 0.67
    texts = of_similarities(*below, (60, 22, 25), (60, 48, 50))  # 0.79, 0.92
    likely = {0: 0.05, 3: 0.5, 5: 0.95, 8: 0.95}
    (trial,) = simdb.tune(texts, tried=WORD).trials
    generator = np.random.default_rng(1)
    truth = {
        (pair.left, pair.right): generator.random() < likely[int(20 * pair.similarity) - 10]
        for pair in trial.pairs
    }
    is_above = [pair.similarity >= 0.7 for pair in trial.pairs]
    yes = np.array([truth[pair.left, pair.right] for pair in trial.pairs])
    true = yes[is_above].sum() / yes.sum()
    held = 0
    for seed in range(40):
        asked = {
            (pair.left, pair.right): truth[pair.left, pair.right]
            for pair in to_judge(trial, 16, seed=seed)
        }
        (told,) = judge(trial, asked, thresholds=[0.7])
        if told.recall is None or told.recall_interval is None:
            continue
        low, high = told.recall_interval
        assert low <= told.recall <= high
        held += low <= true <= high
    assert held >= 38
    for threshold in (0.52, 0.7, 0.72, 0.9):  # at no edge, too
        (told,) = judge(trial, truth, thresholds=[threshold])
        above = np.array([pair.similarity >= threshold for pair in trial.pairs])
        assert told.recall == pytest.approx(yes[above].sum() / yes.sum())
        assert told.precision == pytest.approx(yes[above].mean())
