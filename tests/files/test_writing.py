"""Files out: complete, or not there at all."""

import gzip
import io
import json
import os
import resource
import signal
import stat
import sys
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from simdb.errors import UsageError
from simdb.files import open_rows, writing
from simdb.files.writing import Output, json_line, written_together
from simdb.zstandard import library as zstandard
from tests.support.processes import answer_of, interpreted


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail_after_writing(output: Output, error: BaseException | type[BaseException]) -> None:
    output.write(b"half")
    raise error


def _unpacked(packed: bytes) -> bytes:
    content: bytes = zstandard().decompress(packed)
    return content


def test_outputs_appear_together_and_only_at_the_end(tmp_path):
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.write_bytes(b"old")

    with written_together(str(kept), str(removed)) as (first, second):
        first.write(b"new\r\n")
        second.write(b"gone\n")
        assert kept.read_bytes() == b"old"
        assert not removed.exists()

    assert (kept.read_bytes(), removed.read_bytes()) == (b"new\r\n", b"gone\n")
    assert names_in(tmp_path) == ["kept", "removed"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_after_a_failure_nothing_is_left_and_the_target_is_as_it_was(tmp_path, error, suffix):
    target = tmp_path / f"kept{suffix}"
    target.write_bytes(b"old")

    with pytest.raises(error), written_together(str(target)) as (output,):
        fail_after_writing(output, error)

    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == [target.name]


def test_when_one_output_cannot_be_opened_the_other_is_not_left(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="no such folder"),
        written_together(str(tmp_path / "kept"), str(tmp_path / "no" / "removed")),
    ):
        pass

    assert names_in(tmp_path) == []


def test_when_one_output_cannot_be_finished_neither_appears(tmp_path, monkeypatch):
    def full() -> None:
        raise OSError(28, "disk full")

    with (  # noqa: PT012 the error is that of leaving the block
        pytest.raises(OSError, match="full"),
        written_together(str(tmp_path / "kept"), str(tmp_path / "removed")) as (kept, removed),
    ):
        kept.write(b"x")
        monkeypatch.setattr(removed, "finish", full)

    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("suffix", "unpack"),
    [("", bytes), (".gz", gzip.decompress), (".zst", _unpacked)],
)
def test_outputs_are_compressed_by_their_suffix_and_are_the_same_every_time(
    tmp_path, suffix, unpack
):
    contents = []
    for name in ("one", "two"):
        with written_together(str(tmp_path / (name + suffix))) as (output,):
            for number in range(20_000):
                output.write(b"%d\n" % number)
        contents.append((tmp_path / (name + suffix)).read_bytes())

    assert contents[0] == contents[1]
    if suffix == ".gz":
        assert contents[0][4:8] == bytes(4), "no time of writing"
    assert unpack(contents[0]) == b"".join(b"%d\n" % number for number in range(20_000))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_was_written_compressed_is_read_back(tmp_path, suffix):
    path = str(tmp_path / f"rows.jsonl{suffix}")
    with written_together(path) as (output,):
        output.write(json_line({"text": "x"}))

    with open_rows(path) as reader:
        assert [row.item for row in reader] == ["x"]


def test_a_new_file_has_the_usual_mode_and_a_replaced_one_keeps_its_own(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    private = tmp_path / "private"
    private.touch(mode=0o600)
    os.chmod(private, 0o600)  # noqa: PTH101

    with written_together(str(tmp_path / "new"), str(private)):
        pass

    mode = stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert mode == stat.S_IMODE(usual.stat().st_mode)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with written_together(str(tmp_path / "link")) as (output,):
        output.write(b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_what_is_no_ordinary_file_is_written_to_and_never_replaced(tmp_path):
    # A pipe stands for devices: if this fails, the real /dev/null must not be what was replaced.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with written_together(str(pipe)) as (output,):
            output.write(b"x")

        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 10) == b"x"
        assert names_in(tmp_path) == ["pipe"]
    finally:
        os.close(reader)


def test_a_minus_is_standard_output_and_stays_open(monkeypatch):
    class Standard:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdout", Standard)
    with written_together("-") as (output,):
        output.write(b"x\n")

    assert Standard.buffer.getvalue() == b"x\n"


def test_a_folder_is_no_output(tmp_path):
    with pytest.raises(IsADirectoryError), written_together(str(tmp_path)):
        pass


def test_two_outputs_to_one_place_are_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for second in ("a", "link", "./a"):
        with (
            pytest.raises(UsageError, match="two outputs"),
            written_together(str(tmp_path / "a"), f"{tmp_path}/{second}"),
        ):
            pass
    with pytest.raises(UsageError, match="two outputs"), written_together("-", "-"):
        pass


def test_json_lines_hold_characters_themselves_and_floats_with_all_digits():
    assert json_line({"a": "é\n", "b": 0.1 + 0.2}) == (
        '{"a": "é\\n", "b": 0.30000000000000004}\n'.encode()
    )
    assert json.loads(json_line({"a": "\ud800"})) == {"a": "\ud800"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_line({"a": float("nan")})


def test_nothing_that_a_terminal_obeys_stands_in_a_json_line():
    hostile = {"a\x9b31m": "\x1b[31m\x07\x7f\x80\x9f\u061c\u200e\u200f\u2028\u202e\u2066\u2069\x00"}
    line = json_line({"key": hostile, "é": "\U0001f600 \u00ad"})

    assert json.loads(line) == {"key": hostile, "é": "\U0001f600 \u00ad"}
    shown = line.decode().removesuffix("\n")
    assert shown.replace("\u00ad", "").isprintable()
    assert "é" in shown
    assert "\U0001f600" in shown


def test_a_terminal_gets_nothing_that_it_obeys(monkeypatch):
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    class Standard:
        buffer = Terminal()

    monkeypatch.setattr(sys, "stdout", Standard)
    with written_together("-") as (output,):
        output.write("a\x1b[31m\x9b\u202e.txt\té\n".encode() + b"\xff\n")

    assert Standard.buffer.getvalue() == rb"a\x1b[31m\x9b\u202e.txt" + "\té\n".encode() + b"\\xff\n"


KILLED = """
import os, signal, sys
from simdb.files.writing import Output
Output(sys.argv[1]).write(b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    target = tmp_path / "out[1].jsonl"
    interpreted(KILLED, target, code=-signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    (tmp_path / ".out1.jsonl.0123.part").write_bytes(b"of another target")
    assert left.name.endswith(".part")

    with written_together(str(target)) as (living,):
        assert not left.exists()
        with written_together(str(target)) as (second,):
            second.write(b"second")
        living.write(b"living")

    assert target.read_bytes() == b"living"
    assert names_in(tmp_path) == [".out1.jsonl.0123.part", "out[1].jsonl"]


def test_what_cannot_be_written_names_the_output(tmp_path):
    def limited() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            with written_together(str(tmp_path / "a"), str(tmp_path / "b.gz")) as (_, other):
                other.write(os.urandom(200_000))
        except OSError as error:
            return Path(error.filename).name
        return "nothing"

    assert answer_of(limited) == "b.gz"
    assert names_in(tmp_path) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of what is interrupted as it is opened
def test_nothing_is_left_beside_outputs_at_whichever_line_an_interrupt_comes(tmp_path):
    targets = [str(tmp_path / name) for name in ("a", "b.gz")]
    for number in count():
        lines = iter(range(number))

        def traced(frame: FrameType, event: str, _: object, lines: Any = lines) -> Any:
            if frame.f_code.co_filename != writing.__file__:
                return None
            if event == "line" and next(lines, None) is None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return traced

        try:
            sys.settrace(traced)
            with written_together(*targets) as outputs:
                for output in outputs:
                    output.write(b"content")
            break
        except KeyboardInterrupt:
            assert {path.name for path in tmp_path.iterdir()} <= {"a", "b.gz"}
        finally:
            sys.settrace(None)
    assert number > 80
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b.gz"}
