"""Bytes from outside: importers and decoders are fed what no program would write.

An input may be refused, by the errors that are documented; any other exception, a killed process,
or more than a second is a failure. With atheris in the environment its coverage chooses the
inputs; without it they are mutations of the corpus, as many as there is time for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.cli.settings import KindOptions
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions
from simdb.kinds.ratings import Stars
from simdb.opened.catalogue import CollectionSettings
from simdb.recovery import dump
from simdb.recovery import pages as salvage
from simdb.recovery.pages import block_within
from simdb.storage.collection.manifest import Manifest
from simdb.storage.file import log
from simdb.storage.tables import layout, runs
from simdb.storage.tables.layout import Table
from simdb.zstandard import library as zstandard
from tools.campaigns import children, kills
from tools.campaigns.children import Say
from tools.campaigns.registry import Run, campaign
from tools.campaigns.subjects import SUBJECTS

SLOWEST = 1.0  # seconds
INPUTS_A_CHILD = 4_000
KEY = layout.pack_chunk(1, 2, 3)


def _read_file(folder: Path, name: str, options: ReadingOptions) -> Callable[[bytes], None]:
    path = folder / name

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with open_rows(str(path), options) as reader:
            for row in reader:
                assert row.problem is not None or row.item is not None

    return read


def _decode_chunk(data: bytes) -> None:
    chunk = runs.decode_chunk(Table.BANDS, KEY, memoryview(data), 1)
    assert chunk.keys.size


def _decode_sealed_chunk(data: bytes) -> None:
    """Take the bytes for what follows the checksums, which an attacker can compute."""
    summary = layout.seal(Table.BANDS, KEY, data[:16])
    _decode_chunk(layout.seal(Table.BANDS, KEY, summary + data[16:]))


def _load_log(data: bytes) -> None:
    """Take the bytes for the head of the log, and for every segment that it names."""
    head = layout.seal(log.CHECKSUM_SEED, log.HEAD_KEY, data)

    def segment(key: bytes) -> bytes:
        number = int.from_bytes(key[len(log.HEAD_KEY) :], "big")
        return layout.seal(log.CHECKSUM_SEED, key, data) if number % 16 else b""

    loaded = log.Log.load(head, log.Log(), segment)
    for changed in loaded.tables:
        assert changed.keys == sorted(changed.values)


def _decode_block(data: bytes) -> None:
    block = block_within(1, data)
    assert block is None or block.numbers.size


def _decode_document(data: bytes) -> None:
    document = layout.decode_document(1, memoryview(data))
    assert len(document.key) + len(document.item) < len(data)


def _decode_item(kind: simdb.kinds.Kind) -> Callable[[bytes], None]:
    """Return what reads an item of stored bytes, whatever these are, and compares it."""
    items = kind.make_items(bytes(16))

    def decode(data: bytes) -> None:
        if items.width:
            data = data.ljust(items.width, b"\1")[: items.width]
        with contextlib.suppress(simdb.SimdbError):
            items.features([data])
        item = items.decode(data)
        assert items.decode(items.encode(item)) is not None

    return decode


def _describe_kind(data: bytes) -> None:
    """Take the bytes for what stands behind ``--settings`` on a command line."""
    text = data.decode(errors="surrogateescape").replace("\0", "")
    KindOptions(settings="{" + text).new()


def _read_catalogue(folder: Path) -> Callable[[bytes], None]:
    """Take the bytes for what a dump says of its collections, under settings that there are."""
    dumped = folder / "dumped"
    dumped.mkdir(exist_ok=True)

    def read(data: bytes) -> None:
        (dumped / "simdb.json").write_bytes(data)
        for part in dump.read(dumped):
            assert part.settings.name is not None
            part.settings.family()

    return read


def _decode_state(data: bytes) -> None:
    state = Manifest.decode(memoryview(data))
    assert isinstance(state.live, int)


def _walk_pages(folder: Path) -> Callable[[bytes], None]:
    path = folder / "pages"

    def walk(data: bytes) -> None:
        path.write_bytes(data)
        with salvage.DamagedFile(path) as file:
            for table in Table:
                for _ in file.records(table):
                    pass
            for _ in file.scattered():
                pass
            for _ in file.scattered_values():
                pass

    return walk


PEOPLE = simdb.Record([simdb.Field("name"), simdb.Field("town")])


def targets(folder: Path) -> dict[str, Callable[[bytes], Any]]:
    """Return what is fed, by name."""
    by_id = ReadingOptions(id_field="id")
    named = {
        "jsonl texts": _read_file(folder, "a.jsonl", by_id),
        "jsonl sets": _read_file(folder, "s.jsonl", ReadingOptions(kind=simdb.Set())),
        "csv texts": _read_file(folder, "a.csv", by_id),
        "csv sets": _read_file(folder, "s.csv", ReadingOptions(kind=simdb.Set(), separator=",")),
        "lines": _read_file(folder, "s.txt", ReadingOptions(kind=simdb.Set())),
        "baskets": _read_file(folder, "s.basket", ReadingOptions(kind=simdb.Set())),
        "text file": _read_file(folder, "a.txt", ReadingOptions()),
        "gzip": _read_file(folder, "a.jsonl.gz", ReadingOptions()),
        "zst": _read_file(folder, "a.jsonl.zst", ReadingOptions()),
        "bags": _read_file(folder, "b.jsonl", ReadingOptions(kind=simdb.Bag())),
        "vectors": _read_file(folder, "v.jsonl", ReadingOptions(kind=simdb.Vector(2))),
        "npy": _read_file(folder, "v.npy", ReadingOptions(kind=simdb.Vector(2))),
        "npz": _read_file(folder, "v.npz", ReadingOptions(kind=simdb.Vector(2), id_field="id")),
        "bits": _read_file(folder, "b.csv", ReadingOptions(kind=simdb.Bits(16))),
        "strings": _read_file(folder, "w.csv", ReadingOptions(kind=simdb.String())),
        "signatures": _read_file(folder, "h.npy", ReadingOptions(kind=simdb.Signature(3))),
        "weights": _read_file(folder, "w.jsonl", ReadingOptions(kind=simdb.WeightedSet())),
        "prints": _read_file(folder, "p.jsonl", ReadingOptions(kind=simdb.Fingerprint(300, 300))),
        "records": _read_file(folder, "r.csv", ReadingOptions(("name", "town"), kind=PEOPLE)),
        "ratings": _read_file(
            folder, "m.csv", ReadingOptions(("item",), "user", kind=simdb.Bag(), ratings=Stars())
        ),
        "values": layout.unpack,
        "settings": lambda data: CollectionSettings.decode("name", data),
        "state": _decode_state,
        "user keys": layout.decode_user_key,
        "log": _load_log,
        "chunks": _decode_chunk,
        "sealed chunks": _decode_sealed_chunk,
        "blocks": _decode_block,
        "pages": _walk_pages(folder),
        "documents": _decode_document,
        "--settings": _describe_kind,
        "catalogues of dumps": _read_catalogue(folder),
    }
    items = {f"stored {name}": _decode_item(subject.kind) for name, subject in SUBJECTS.items()}
    return named | items


def _saved(save: Callable[..., None]) -> bytes:
    stream = io.BytesIO()
    save(stream, np.arange(6, dtype=np.float32).reshape(2, 3))
    return stream.getvalue()


def corpus(folder: Path, seed: int) -> list[bytes]:
    """Return bytes to begin with: rows of every format, records and pages of a real store."""
    import gzip

    rows = [{"id": number, "text": f"text {number} é", "n": [1, 2.5, None]} for number in range(5)]
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    found = [
        *(b"", lines, b'\xef\xbb\xbfid,text\n1,"a ""b""\nc"\n2,d\n', b"a b c\n1 2 3\n\n\xff\xfe"),
        *(gzip.compress(lines), b'[1,2,"x"]\n{"text":"a"}\n{"text":1e999}\n' + b"[" * 3_000),
        *(_saved(np.save), _saved(partial(np.savez, id=np.arange(3), v=np.eye(3, dtype="f4")))),
        *(b"id,text\n1,0110\n2,ffff\n", b"name,town\nBill,York\n,\n", b"[[1.5,2,90],[3,4,-1e9]]"),
        *(b"user,item,rating\nann,m1,5\nann,m2,0.5\nbob,m1,x\n", b'{"text":{"a":2,"b":-1}}'),
        *(b'{"text": ["a", 5]}', b'{"id": ' + b"9" * 5_000 + b"}", b"\0" * 100),
        *(layout.pack({"a": [1, "b", 2.5, b"c", None]}), layout.pack([[1] * 9] * 9)),
        b'"kind":"record","fields":["a",{"name":"b","weight":2}],"candidates":[["a"],["b"]]}',
        *(b'"kind":"text","shingles":{"of":"word","size":3}}', b'"kind":"bits","length":9e9}'),
        *(b"\x01" + bytes(8), b"\x02key", b"\x02\xff"),
    ]
    found.append(zstandard().compress(lines))
    path = folder / "corpus.simdb"
    model = kills.build(path, seed, 12, SUBJECTS)
    assert model
    with simdb.open(path, threads=1) as database:
        database.dump(folder / "dump")
    found.append((folder / "dump" / "simdb.json").read_bytes())
    content = path.read_bytes()
    found.append(content[: 16 * 4_096])
    with salvage.DamagedFile(path) as file:
        for table in Table:
            found += [record.value for record in file.records(table)][:20]
            found += [record.value[8:] for record in file.records(table)][:20]
    changes: list[log.Change] = [(Table.KEYS, b"key", b"value"), (Table.ITEMS, b"item", None)]
    for place in (log.Place(7, 1, 3, 200), log.Place(7, 3, 3, 0)):
        found.append(log.encode(log.HEAD_KEY, place, changes)[layout.CHECKSUM_SIZE :])
    number = np.arange(9, dtype=np.uint64)
    found.append(runs.encode_chunk(Table.BANDS, KEY, number, number.astype(np.uint32)[np.newaxis]))
    return found


def mutated(generator: random.Random, inputs: list[bytes]) -> bytes:
    """Return one of the inputs, changed here and there."""
    data = bytearray(generator.choice(inputs))
    for _ in range(generator.choice([0, 1, 1, 2, 4, 16])):
        place = generator.randrange(len(data) + 1)
        choice = generator.randrange(6)
        if choice == 0:
            data[place:place] = generator.randbytes(generator.choice([1, 2, 8, 100]))
        elif choice == 1:
            del data[place : place + generator.choice([1, 4, 50, 4_000])]
        elif choice == 2 and data:
            data[place % len(data)] ^= 1 << generator.randrange(8)
        elif choice == 3:
            other = generator.choice(inputs)
            begin = generator.randrange(len(other) + 1)
            data[place:place] = other[begin : begin + generator.choice([8, 64, 4_096])]
        elif choice == 4:
            extreme = generator.choice([b"\xff" * 4, b"\0" * 8, b"\xff" * 8, b"\x7f", b'"', b"\n"])
            data[place : place + len(extreme)] = extreme
        else:
            data *= generator.choice([1, 2, 3])
    return bytes(data[:200_000])


def _feed(target: Callable[[bytes], Any], data: bytes) -> str:
    """Return what is wrong with how a target took its input."""
    began = time.perf_counter()
    try:
        target(data)
    except simdb.SimdbError:
        pass
    except MemoryError:
        return "no memory"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"{type(error).__name__}: {error}"[:300]
    taken = time.perf_counter() - began
    return f"{taken:.1f} s for {len(data):,} bytes" if taken > SLOWEST else ""


def _by_atheris(
    target: Callable[[bytes], Any], seeds: list[bytes], folder: Path, seconds: int
) -> None:
    """Let atheris choose inputs; a failure ends the process, and the input is kept."""
    import atheris  # type: ignore[import-untyped,unused-ignore]

    begin = folder / "seeds"
    begin.mkdir(exist_ok=True)
    for number, data in enumerate(seeds):
        (begin / str(number)).write_bytes(data)

    def once(data: bytes) -> None:
        wrong = _feed(target, data)
        if wrong:
            (folder / "failure").write_text(f"{wrong} for {data[:500]!r}")
            raise RuntimeError(wrong)

    quiet = os.open(os.devnull, os.O_WRONLY)
    told = os.open(str(folder / "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(quiet, 1)
    os.dup2(told, 2)
    options = [f"-max_total_time={seconds}", "-max_len=65536", f"-artifact_prefix={folder}/"]
    atheris.instrument_func(once)
    atheris.Setup(["torture", *options, "-print_final_stats=1", str(begin)], once)
    atheris.Fuzz()


@campaign(
    "fuzz",
    "importers and decoders fed with mutations; the long form by atheris",
    short=1,
    long=6_300,
    timed=True,
)
def fuzz(run: Run) -> None:
    """Feed the targets for so many seconds, each for its share of them."""
    known = targets(run.work)
    for name in run.targets:
        if name not in known:
            run.fail(f"there is no target {name!r}; there are: {', '.join(known)}")
    chosen = [name for name in known if not run.targets or name in run.targets]
    seconds = run.count / max(1, len(chosen))
    guided = seconds >= 10 and importlib.util.find_spec("atheris") is not None
    run.outcomes["inputs chosen by atheris" if guided else "inputs mutated at random"] = 1
    inputs = corpus(run.work, run.seed)
    for name in chosen:
        folder = run.work / name.replace(" ", "-")
        folder.mkdir()
        if guided:
            _guided(run, name, folder, inputs, round(seconds))
        else:
            _mutated(run, name, folder, inputs, seconds)
        run.trial()


def _guided(run: Run, name: str, folder: Path, inputs: list[bytes], seconds: int) -> None:
    ending = children.Child(
        lambda _: _by_atheris(targets(folder)[name], inputs, folder, seconds)
    ).end(seconds + 120)
    failure = folder / "failure"
    if failure.exists():
        run.fail(f"{name}: {failure.read_text()}")
    elif ending.died:
        run.fail(f"{name}: {ending.how}")
    told = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    for line in told.splitlines():
        if line.startswith("stat::number_of_executed_units"):
            run.outcomes[f"{name}: inputs"] = int(line.split()[-1])


def _mutated(run: Run, name: str, folder: Path, inputs: list[bytes], seconds: float) -> None:
    until = time.monotonic() + seconds
    first = 0
    while time.monotonic() < until and len(run.failures) < 20:

        def work(say: Say, first: int = first) -> None:
            target = targets(folder)[name]
            for number in range(first, first + INPUTS_A_CHILD):
                if time.monotonic() > until:
                    break
                data = mutated(random.Random(f"{run.seed} {name} {number}"), inputs)
                wrong = _feed(target, data)
                if wrong:
                    say([number, f"{wrong} for {data[:200]!r}"])
                    break
            say([number, ""])

        ending = children.Child(work).end(seconds + 60)
        for number, wrong in ending.answers:
            if wrong:
                run.fail(f"{name}, input {number}: {wrong}")
        if ending.died or ending.error or not ending.answers:
            run.fail(f"{name}, from input {first}: {ending.how}")
            return
        run.outcomes[f"{name}: inputs"] += ending.answers[-1][0] + 1 - first
        first = ending.answers[-1][0] + 1
        if any(wrong for _, wrong in ending.answers):
            return
