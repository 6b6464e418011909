"""Libraries beside the methods that do their work: answers are compared, and the time of one core.

Molecules by Tanimoto similarity beside FPSim2 and smbt, hashes by Hamming distance and weighted
sets beside sketchsort, hashes beside two indexes of faiss, weighted sets beside datasketch's
WeightedMinHash, containment beside its LSH Ensemble. What is not installed is reported as absent.
"""

from __future__ import annotations

import importlib
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import simdb
from tools.benchmarks.children import in_child
from tools.benchmarks.corpora import texts_and_passages
from tools.benchmarks.exact_methods import shingles_of
from tools.benchmarks.registry import Bench, Figure, measure
from tools.benchmarks.timing import repeated

HERE = "tools.benchmarks.method_peers"
SEARCHES = 200
MOLECULES, MOLECULE_BITS, MOLECULES_ALIKE = 20_000, 1_024, 0.8
HASHES, HASH_BITS, HASHES_APART = 60_000, 64, 4
WEIGHTED, ELEMENTS, WEIGHTED_ALIKE = 4_000, 1_000, 0.8
TEXTS, PASSAGES, CONTAINED, SHINGLE = 10_000, 500, 0.8, 5
FUNCTIONS = 128  # of a signature

# Parts of molecules: rings with two places, and what may stand there.
RINGS = (
    *("c1cc({})ccc1{}", "c1cc({})cc({})c1", "c1c({})cccc1{}", "c1cc({})ncc1{}", "c1nc({})ccc1{}"),
    *("c1nc({})cnc1{}", "C1CC({})CCC1{}", "C1CN({})CCC1{}", "c1oc({})cc1{}", "c1sc({})cc1{}"),
    *("c1ccc3c(c1)c({})cn3{}", "c1ccc3c(c1)nc({})n3{}", "c1cc3ccc({})cc3cc1{}"),
)
GROUPS = (
    *("C", "CC", "CCC", "C(C)C", "OC", "OCC", "N", "NC", "N(C)C", "CO", "CCO", "CN", "CCN", "SC"),
    *("C#N", "C(=O)O", "C(=O)OC", "C(=O)N", "C(=O)NC", "S(=O)(=O)N", "C(F)(F)F", "NC(C)=O"),
    *("c2ccccc2", "c2ccncc2", "c2ccco2", "c2cccs2", "C2CC2", "C2CCCC2", "C2CCCCC2", "C=C", "C#C"),
    *("N2CCOCC2", "N2CCCC2", "N2CCNCC2", "S(C)(=O)=O", "OC(C)=O", "CC(=O)N", "CCC(=O)O"),
)

Found: TypeAlias = set[tuple[Hashable, Hashable]]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its processor seconds."""
    begun = time.process_time()
    returned = work()
    return returned, time.process_time() - begun


def timed_warm(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the median of its processor seconds after a first one."""
    return work(), repeated(work)["processor"]


def scored(found: Found, true: Found, seconds: float) -> dict[str, Any]:
    """Compare an answer with the true one."""
    right = len(found & true)
    recall, precision = right / max(1, len(true)), right / max(1, len(found))
    return {"seconds": seconds, "recall": recall, "precision": precision, "found": len(found)}


def peers_of(true: Found, **peers: Callable[[], tuple[Iterable[Any], float]]) -> dict[str, Any]:
    """Let peers answer; those that are not installed are absent."""
    answers: dict[str, Any] = {}
    for name, answer in peers.items():
        try:
            found, seconds = answer()
        except ModuleNotFoundError as error:
            answers[name] = {"absent": error.name}
        else:
            answers[name] = scored(set(found), true, seconds)
    return answers


def molecules(seed: int, work: str) -> dict[str, Any]:
    """Search molecules by the Tanimoto similarity of their fingerprints."""
    chemistry = importlib.import_module("rdkit.Chem")
    generators = importlib.import_module("rdkit.Chem.rdFingerprintGenerator")
    generator = random.Random(seed)
    everything = [
        ring.format(*groups) for ring in RINGS for groups in itertools.product(GROUPS, repeat=2)
    ]
    chosen = generator.sample(everything, min(MOLECULES, len(everything)))
    morgan = generators.GetMorganGenerator(radius=2, fpSize=MOLECULE_BITS)
    prints = [morgan.GetFingerprint(chemistry.MolFromSmiles(one)) for one in chosen]
    rows = np.array([np.frombuffer(one.ToBitString().encode(), np.uint8) for one in prints]) - 48
    probes = generator.sample(range(len(chosen)), SEARCHES)
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "m.simdb", sync="batch", threads=1) as database,
    ):
        kind = simdb.Bits(MOLECULE_BITS, "tanimoto")
        stored = database.collection("molecules", kind, threshold=MOLECULES_ALIKE)
        stored.add_many(enumerate(rows))

        def own() -> Found:
            answers = [stored.search(rows[probe], guarantee="exact") for probe in probes]
            pairs = zip(probes, answers, strict=True)
            return {(probe, match.key) for probe, answer in pairs for match in answer}

        def together() -> Found:
            answers = stored.search_many([rows[probe] for probe in probes], guarantee="exact")
            pairs = zip(probes, answers, strict=True)
            return {(probe, match.key) for probe, answer in pairs for match in answer}

        true, seconds = timed_warm(own)
        at_once, together_seconds = timed_warm(together)

        def fpsim2() -> tuple[Found, float]:
            library = importlib.import_module("FPSim2")
            file = str(Path(folder) / "molecules.h5")
            importlib.import_module("FPSim2.io").create_db_file(
                [[one, place] for place, one in enumerate(chosen)],
                *(file, "smiles", "Morgan"),
                {"radius": 2, "fpSize": MOLECULE_BITS},
            )
            engine = library.FPSim2Engine(file)

            def searches() -> Found:
                return {
                    (probe, int(place))
                    for probe in probes
                    for place, _ in engine.similarity(prints[probe], MOLECULES_ALIKE, n_workers=1)
                }

            return timed_warm(searches)

        def smbt() -> tuple[Found, float]:
            sets = [list(one.GetOnBits()) for one in prints]
            index = importlib.import_module("smbt").Index(sets)

            def searches() -> Found:
                return {
                    (probe, place)
                    for probe in probes
                    for place, _ in index.search(sets[probe], MOLECULES_ALIKE)
                }

            return timed_warm(searches)

        return {
            "simdb": scored(true, true, seconds),
            "simdb, search_many": scored(at_once, true, together_seconds),
            **peers_of(true, FPSim2=fpsim2, smbt=smbt),
        }


def hashes(seed: int, work: str) -> dict[str, Any]:
    """Find all pairs of hashes within a Hamming distance."""
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 2, (HASHES, HASH_BITS), np.uint8)
    planted = max(1, HASHES // 60)
    for row in range(planted):
        rows[-1 - row] = rows[row]
        flipped = generator.choice(HASH_BITS, generator.integers(HASHES_APART + 2), replace=False)
        rows[-1 - row, flipped] ^= 1
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "h.simdb", sync="batch", threads=1) as database,
    ):
        stored = database.collection("h", simdb.Bits(HASH_BITS), max_distance=HASHES_APART)
        stored.add_many(enumerate(rows))

        def own() -> Found:
            return {(pair.left, pair.right) for pair in stored.pairs()}

        own()
        true, seconds = timed(own)

    def sketchsort() -> tuple[Found, float]:
        library = importlib.import_module("sketchsort")
        signs = rows.astype(np.float32) * 2 - 1  # the cosine of h differing bits is 1 - 2 h / bits
        most = 2 * (HASHES_APART + 0.5) / HASH_BITS
        found, passed = timed(lambda: library.search(signs, cos_dist=most))
        pairs = zip(found["id1"].tolist(), found["id2"].tolist(), strict=True)
        return {(min(pair), max(pair)) for pair in pairs}, passed

    def faiss(name: str, *shape: int, flipped: int) -> tuple[Found, float]:
        library = importlib.import_module("faiss")
        library.omp_set_num_threads(1)
        packed = np.packbits(rows, axis=1)
        index = getattr(library, name)(HASH_BITS, *shape)
        index.nflip = flipped

        def work() -> Any:
            index.add(packed)
            return index.range_search(packed, HASHES_APART + 1)

        (limits, _, others), passed = timed(work)
        owners = np.repeat(np.arange(HASHES), np.diff(limits.astype(np.int64)))
        first = owners < others  # each pair is found from both sides
        return set(zip(owners[first].tolist(), others[first].tolist(), strict=True)), passed

    hashed = {
        "faiss IndexBinaryHash": partial(faiss, "IndexBinaryHash", 16, flipped=HASHES_APART),
        "faiss IndexBinaryMultiHash": partial(faiss, "IndexBinaryMultiHash", 3, 21, flipped=1),
    }
    return {
        "simdb": scored(true, true, seconds),
        **peers_of(true, sketchsort=sketchsort, **hashed),
    }


def weighted(seed: int, work: str) -> dict[str, Any]:
    """Index weighted sets, and find their similar pairs."""
    generator = np.random.default_rng(seed)
    matrix = np.zeros((WEIGHTED, ELEMENTS), np.float32)
    for row in range(WEIGHTED):
        if row % 4 == 3:  # near the one before
            matrix[row] = matrix[row - 1] * generator.uniform(0.75, 1.25, ELEMENTS)
            continue
        chosen = generator.choice(ELEMENTS, 40, replace=False)
        matrix[row, chosen] = generator.gamma(2.0, 1.0, 40) + 0.01
    items = [{int(place): float(row[place]) for place in np.flatnonzero(row)} for row in matrix]
    kind = simdb.WeightedSet()
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "w.simdb", sync="batch", threads=1) as database,
    ):
        warm = database.collection("warm", kind, threshold=WEIGHTED_ALIKE)
        warm.add_many(enumerate(items[:100]))
        list(warm.pairs(guarantee="probable"))
        stored = database.collection("w", kind, threshold=WEIGHTED_ALIKE)

        def own() -> Found:
            stored.add_many(enumerate(items))
            return {(pair.left, pair.right) for pair in stored.pairs(guarantee="probable")}

        found, seconds = timed(own)
        true: Found = {(pair.left, pair.right) for pair in stored.pairs(guarantee="exact")}

    def datasketch() -> tuple[Found, float]:
        library = importlib.import_module("datasketch")

        def work() -> Found:
            made = library.WeightedMinHashGenerator(ELEMENTS, FUNCTIONS, seed=1)
            sketches = [made.minhash(row) for row in matrix]
            index = library.MinHashLSH(threshold=WEIGHTED_ALIKE, num_perm=FUNCTIONS)
            for place, sketch in enumerate(sketches):
                index.insert(place, sketch)
            return {
                (min(place, other), max(place, other))
                for place, sketch in enumerate(sketches)
                for other in index.query(sketch)
                if other != place
            }

        return timed(work)

    def sketchsort() -> tuple[Found, float]:
        library = importlib.import_module("sketchsort")
        found, passed = timed(lambda: library.search_minmax(matrix, minmax_dist=1 - WEIGHTED_ALIKE))
        pairs = zip(found["id1"].tolist(), found["id2"].tolist(), strict=True)
        return {(min(pair), max(pair)) for pair in pairs}, passed

    return {
        "simdb": scored(found, true, seconds),
        **peers_of(true, datasketch=datasketch, sketchsort=sketchsort),
    }


def containment(seed: int, work: str) -> dict[str, Any]:
    """Find the texts that contain most of a passage, from the texts on."""
    texts, passages = texts_and_passages(TEXTS, PASSAGES, seed)
    kind = simdb.Text(simdb.WordShingles(SHINGLE))
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        simdb.open(Path(folder) / "t.simdb", sync="batch", threads=1) as database,
    ):
        found: Found = set()
        for name in ("warm", "timed"):
            sides = [database.collection(f"{name} {side}", kind) for side in ("texts", "passages")]

            def own(sides: list[simdb.Collection] = sides) -> Found:
                for side, rows in zip(sides, (texts, passages), strict=True):
                    side.add_many(enumerate(rows))
                pairs = sides[1].join(sides[0], CONTAINED, measure="probe-in-stored")
                return {(pair.left, pair.right) for pair in pairs}

            found, seconds = timed(own)
    sets = [shingles_of(text) for text in texts]
    wanted = [shingles_of(passage) for passage in passages]
    places: dict[Any, list[int]] = {}
    for place, shingles in enumerate(sets):
        for shingle in shingles:
            places.setdefault(shingle, []).append(place)
    true: Found = set()
    for number, shingles in enumerate(wanted):
        met = [place for shingle in shingles for place in places.get(shingle, ())]
        counts = np.bincount(np.array(met, np.int64), minlength=1)
        least = CONTAINED * len(shingles)
        true |= {(number, int(place)) for place in np.flatnonzero((counts >= least) & (counts > 0))}

    def datasketch() -> tuple[Found, float]:
        library = importlib.import_module("datasketch")

        def sketched(shingles: Iterable[tuple[str, ...]]) -> Any:
            sketch = library.MinHash(num_perm=FUNCTIONS, seed=1)
            sketch.update_batch([" ".join(one).encode() for one in shingles])
            return sketch

        def work() -> Found:
            index = library.MinHashLSHEnsemble(CONTAINED, FUNCTIONS, 16)
            index.index(
                (place, sketched(own), len(own))
                for place, own in enumerate(map(shingles_of, texts))
                if own
            )
            return {
                (number, place)
                for number, own in enumerate(map(shingles_of, passages))
                if own
                for place in index.query(sketched(own), len(own))
            }

        return timed(work)

    return {
        "simdb": scored(found, true, seconds),
        **peers_of(true, **{"LSH Ensemble of datasketch": datasketch}),
    }


SUBJECTS = {
    "molecules": f"{SEARCHES} searches of {MOLECULES:,} molecules at Tanimoto {MOLECULES_ALIKE}",
    "hashes": f"pairs of {HASHES:,} hashes of {HASH_BITS} bits within {HASHES_APART}",
    "weighted": f"{WEIGHTED:,} weighted sets added, and their pairs at {WEIGHTED_ALIKE}",
    "containment": f"{TEXTS:,} texts added, and which contain one of {PASSAGES} passages",
}


def in_words(answer: dict[str, Any]) -> str:
    """Return how good an answer is."""
    return f"recall {answer['recall']:.3f}, precision {answer['precision']:.3f}"


@measure("method_peers", "molecules, hashes, weighted sets and passages beside their libraries")
def method_peers(bench: Bench) -> None:
    """Report the time, recall and precision of each library."""
    for task, what in SUBJECTS.items():
        timings = in_child(f"{HERE}:{task}", cores=1, seed=bench.seed, work=str(bench.work))
        bench.details[task] = timings
        if "absent" in timings:
            note = f"{timings['absent']} is not installed"
            bench.add(Figure("method_peers", what, None, "s", note=note))
            continue
        own = timings["simdb"]
        for peer, answer in timings.items():
            if peer == "simdb":
                continue
            there = "absent" not in answer
            told = f"{in_words(own)}; {peer}: {in_words(answer) if there else 'not installed'}"
            bench.add(
                Figure(
                    *("method_peers", what, own["seconds"], "s"),
                    peer=peer,
                    peer_value=answer.get("seconds"),
                    ratio=answer["seconds"] / own["seconds"] if there else None,
                    note=told,
                )
            )
