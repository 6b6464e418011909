"""The family of functions of three grid squares, in one or more groups (MMDS 3.8.5).

A function says yes to a print that occupies all its squares; those are in "the" bucket of the
function, all others in buckets of their own, which are not kept. Prints are candidates if they
share a bucket in every group: OR over the functions of a group, AND over groups.

A print may have one grid or, where it is unknown how two prints lie to each other, one around each
of its minutiae. A function then says yes if any of them occupies its squares, so that neither a
shift of the finger nor, with ``alignment="turn"``, a turn changes its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from simdb import kernels
from simdb.arrays import Bools, Float64s, Int32s, Int64s, UInt16s, UInt64s
from simdb.kinds.fingerprints.items import Prints, grid_settings
from simdb.lsh.family import BucketKeys, Family, derived_words, mixed, secret_words
from simdb.ragged import offsets_of

if TYPE_CHECKING:
    from simdb.kinds.fingerprints import Fingerprint

MOST_PRINTS = 16_384  # looked at by ``unfindable``
UNFINDABLE_SHARE = 0.02  # of all prints, above which it is a warning
_WORDS = 4  # a signature is a whole number of 64-bit words


class SquaresFamily:
    """Sign prints by the functions that say yes to them.

    A signature is the bit set of its grid's occupied squares or, with grids around minutiae, of the
    functions that say yes in any of them, which is smaller than so many grids.

    Attributes:
        finds_equal: in each group where no function says yes to a print it has a key of its own:
            a hash of its squares or, with grids around minutiae, of its minutiae, which four more
            words of the signature hold (zeros where it is not needed).
        words: a signature is uint16 (words,), a multiple of 4.
        band_words: 0: a signature has no bands.
        functions: int32 (groups * functions of a group, squares of a function), distinct in a row.
    """

    def __init__(self, kind: Fingerprint, secret: bytes) -> None:
        columns, rows = kind.function_grid
        squares = columns * rows * kind.sectors
        self.band_words = 0
        self.groups = kind.groups
        self.group_size = kind.functions
        self.functions = chosen_functions(
            squares, kind.groups * kind.functions, kind.squares_a_function, secret
        )
        self._around = kind.around_minutiae
        self._turned = kind.alignment == "turn"
        self._grid = grid_settings(kind, columns, rows)
        bits = len(self.functions) if self._around else squares
        self.words = (bits + 63) // 64 * _WORDS
        self._secret = derived_words(secret, b"simdb.squares.k", 1)[0]
        self._equal_secret = secret_words(secret, b"simdb.squares.eq", 4).astype("<u8").tobytes()
        self.finds_equal = False

    def find_equal(self) -> None:
        """Give prints keys of their own from now on, where no function says yes."""
        self.finds_equal = True
        self.words += _WORDS * self._around

    def sign(self, features: Prints) -> UInt16s:
        """Return the signatures, uint16 (n, words), of a batch of prints."""
        if self._around:
            signatures = kernels.fingerprints.functions_of_minutiae(
                features.minutiae, features.offsets, self._grid, self._turned, self.functions
            )
            return self._with_hashes(signatures, features) if self.finds_equal else signatures
        grids = np.ascontiguousarray(features.grids).astype("<u8", copy=False)
        return grids.view("<u2").astype(np.uint16, copy=False)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the keys of the functions that say yes, and their groups.

        A print whose groups do not all have one is in no pair, but with its equals.
        """
        numbers, offsets = kernels.fingerprints.members(self.yes(signatures))
        groups = (numbers // self.group_size).astype(np.uint8)
        keys = BucketKeys(self.keys_of(numbers), offsets, groups, self.groups)
        if not self.finds_equal:
            return keys
        prints, lacking = np.nonzero(~self._has_key(numbers, offsets))
        if not prints.size:
            return keys
        own = mixed(self._hashes(signatures, prints) + lacking.astype(np.uint64))
        owners = np.append(np.repeat(np.arange(len(keys)), keys.sizes), prints)
        order = np.argsort(owners, kind="stable")
        return BucketKeys(
            np.append(keys.values, own)[order],
            offsets_of(keys.sizes + np.bincount(prints, minlength=len(keys))),
            np.append(groups, lacking.astype(np.uint8))[order],
            self.groups,
        )

    def _has_key(self, numbers: Int64s, offsets: Int64s) -> Bools:
        """Return in which groups functions say yes to prints, (n, groups)."""
        has_key = np.zeros((offsets.size - 1, self.groups), np.bool_)
        prints = np.repeat(np.arange(len(has_key)), np.diff(offsets))
        has_key[prints, numbers // self.group_size] = True
        return has_key

    def _with_hashes(self, signatures: UInt16s, features: Prints) -> UInt16s:
        """Add to signatures the hashes of the minutiae of prints without a key in some group."""
        has_key = self._has_key(*kernels.fingerprints.members(signatures))
        hashes = np.zeros(len(signatures), "<u8")
        for place in np.flatnonzero(~has_key.all(axis=1)).tolist():
            begin, end = features.offsets[place : place + 2]
            hashes[place] = self._hash(features.minutiae[begin:end].astype("<i4").tobytes())
        own = hashes.view("<u2").reshape(-1, _WORDS).astype(np.uint16)
        return np.concatenate((signatures, own), axis=1)

    def _hashes(self, signatures: UInt16s, prints: Int64s) -> UInt64s:
        """Return what is a print's own, of some prints: a hash of it, which its signature tells."""
        if self._around:
            own = np.ascontiguousarray(signatures[prints, -_WORDS:]).astype("<u2")
            return own.view("<u8").astype(np.uint64).ravel()
        squares = signatures.astype("<u2")
        hashes = [self._hash(squares[place].tobytes()) for place in prints.tolist()]
        return np.array(hashes, np.uint64)

    def _hash(self, content: bytes) -> int:
        digest = blake2b(self._equal_secret + content, digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def keys_of(self, numbers: Int64s) -> UInt64s:
        """Return the bucket keys of functions by number; two functions never have the same."""
        return mixed(numbers.astype(np.uint64) + self._secret)

    def yes(self, signatures: UInt16s) -> UInt16s:
        """Return the bit sets of the functions that say yes: uint16 (n, words of functions)."""
        if signatures.ndim != 2 or signatures.shape[1] != self.words:
            raise ValueError(
                f"signatures of shape {signatures.shape} do not have {self.words} words"
            )
        if self._around:
            of_hash = _WORDS * self.finds_equal
            return np.ascontiguousarray(signatures[:, : self.words - of_hash])
        return kernels.fingerprints.functions_of_grids(signatures, self.functions)

    def first_shared(self, left: UInt16s, right: UInt16s) -> Int64s:
        """Return for pairs of signatures the smallest number of a function that both share.

        int64 (m,), a function of the first group; -1 if they share none in some group, and are
        thus no candidates.
        """
        if self._around:
            left, right = self.yes(left), self.yes(right)
        else:
            left = right = self.yes(left & right)
        return kernels.fingerprints.first_shared(left, right, self.group_size, self.groups)

    def needed_matches(self, bound: object) -> int:
        return 0


def unfindable(family: Family, signatures: Iterator[UInt16s], live: int) -> dict[str, Any]:
    """Count the prints to which, in some group, no function says yes: they are in no pair.

    Exact up to ``MOST_PRINTS``, an estimate by every so many-th print beyond.
    """
    assert isinstance(family, SquaresFamily)
    step = max(1, -(-live // MOST_PRINTS))
    lost = step * sum(
        int(np.count_nonzero(family.first_shared(rows[::step], rows[::step]) < 0))
        for rows in signatures
    )
    warnings = []
    if lost > UNFINDABLE_SHARE * live:
        warnings.append(
            f"{'about ' * (step > 1)}{lost:,} of {live:,} prints are in no bucket"
            f"{' but that of their equals' * family.finds_equal}: the probable index does not find "
            "what is like them; more functions, larger squares or fewer squares a function put "
            "them into some"
        )
    return {"in_no_bucket": lost, "warnings": warnings}


def chosen_functions(squares: int, count: int, size: int, secret: bytes) -> Int32s:
    """Choose functions of ``size`` different squares each, int32 (count, size), by a secret."""
    chosen = np.empty((0, size), np.int64)
    portion = 2 * count
    while len(chosen) < count:
        # Words are a stream, so that a longer one begins with the shorter; few rows are refused.
        words = derived_words(secret, b"simdb.squares", portion * size)
        rows = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * squares
        drawn = rows.astype(np.int64).reshape(portion, size)
        ordered = np.sort(drawn, axis=1)
        chosen = ordered[(ordered[:, 1:] != ordered[:, :-1]).all(axis=1)][:count]
        portion *= 2
    return chosen.astype(np.int32)


def share_of_functions(shared: Int64s, squares: int, size: int) -> Float64s:
    """Return the share of all functions that say yes to two prints, by the squares they share.

    A function is any ``size`` different squares, all equally likely: of c shared ones among s,
    C(c, size) / C(s, size) of the functions say yes to both. It is exact for the two prints,
    wherever on the plate minutiae are frequent; the mean over pairs with independent squares is the
    chapter's product of densities (MMDS 3.8.5). ``And(groups, Or(functions))`` of it is the
    probability, over the choice of functions, that the two are candidates.

    Args:
        shared: int64 (n,), squares that both prints of a pair occupy.
        squares: of the grid.
        size: squares of a function.
    """
    share = np.ones(shared.shape)
    for place in range(size):
        share *= np.maximum(shared - place, 0) / (squares - place)
    return share
