"""The self-join of py_stringsimjoin, to be run by a Python that has it.

It does not build for the Pythons and the NumPy that simdb needs, so it has an environment of its
own (version 0.3.6 with Python 3.11; nothing of simdb is in it)::

    python3.11 -m venv peers
    peers/bin/pip install "setuptools<66" wheel "Cython<3" "numpy<2" "pandas<2.3" six joblib pyprind
    peers/bin/pip install --no-build-isolation py_stringmatching py_stringsimjoin
    python tools/bench.py joins --stringsimjoin peers/bin/python --data FOLDER

Called as ``PYTHON stringsimjoin.py SETS.npz THRESHOLD PAIRS.npy``: reads sets as arrays, writes the
pairs of positions, and prints the seconds.
"""

import importlib
import itertools
import json
import sys
import time

import numpy as np

LONG = 5.0


def main() -> None:
    """Join once; again, for the median, if that was short."""
    sets, threshold, pairs = sys.argv[1:]
    pandas = importlib.import_module("pandas")
    joining = importlib.import_module("py_stringsimjoin")
    matching = importlib.import_module("py_stringmatching")
    with np.load(sets) as kept:
        values, offsets = kept["values"].tolist(), kept["offsets"].tolist()
    texts = [" ".join(map(str, values[start:end])) for start, end in itertools.pairwise(offsets)]
    table = pandas.DataFrame({"id": range(len(texts)), "text": texts})
    tokenizer = matching.WhitespaceTokenizer(return_set=True)
    seconds: list[float] = []
    working: list[float] = []
    while len(seconds) < (3 if not seconds or seconds[0] < LONG else 1):
        began, worked = time.perf_counter(), time.process_time()
        found = joining.jaccard_join(
            *(table, table, "id", "id", "text", "text", tokenizer, float(threshold)),
            n_jobs=1,
            show_progress=False,
        )
        working.append(time.process_time() - worked)
        seconds.append(time.perf_counter() - began)
    left, right = found["l_id"].to_numpy(), found["r_id"].to_numpy()
    # It joins two tables: every pair comes twice, and every set is paired with itself.
    once = left < right
    np.save(pairs, np.stack([left[once], right[once]]).astype(np.int64))
    print(
        json.dumps({"seconds": float(np.median(seconds)), "processor": float(np.median(working))})
    )


if __name__ == "__main__":
    main()
