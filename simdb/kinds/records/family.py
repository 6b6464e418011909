"""Candidates of records by equality of fields (MMDS 3.8.2).

A rule sends two records to one bucket if the fields that it names are equal, as they are or
transformed. What agrees in no rule is no candidate, whatever its score: the answer is exact among
candidates, and ``certain_above`` says above which similarity a pair must be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from simdb.arrays import UInt16s, UInt64s
from simdb.kinds.records.items import RecordColumn, RecordFeatures, chained
from simdb.kinds.records.measure import HUNDREDTHS
from simdb.lsh.family import BucketKeys, Family, secret_words
from simdb.ragged import offsets_of

if TYPE_CHECKING:
    from simdb.kinds.records import Field, Record


WORDS_A_RULE = 4
_MOST_FIELDS_SEARCHED = 12
_SECRET_WORDS = 4
_NO_DIGEST = bytes(8)
_KEEPS_SOMETHING = ("lowercase", "first", "last")


class RecordFamily(Family):
    """Hash what each rule makes of a record; equal hashes are one bucket.

    Two different values of a rule have the same hash with a probability of about 2^-63, whoever
    chose them.

    Attributes:
        finds_equal: a record that has a value for no rule has one key, the hash of all its values,
            in the place of that of the first rule. It is odd, and the keys of rules are even.
    """

    def __init__(self, settings: Record, secret: bytes) -> None:
        self.rules = settings.rules
        self.words = WORDS_A_RULE * len(self.rules)
        equals = dict.fromkeys(equal for rule in self.rules for equal in rule)
        self._equals = tuple(equals)
        words = secret_words(secret, b"simdb.record", _SECRET_WORDS * len(equals))
        self._secrets = words.reshape(-1, _SECRET_WORDS).astype("<u8")
        count = sum(map(len, self.rules))
        # Odd factors, so that multiplying is a bijection; another one in each place of each rule.
        self._factors = secret_words(secret, b"simdb.rule", count) | np.uint64(1)
        self.finds_equal = False
        self._secret = secret

    def sign(self, features: RecordFeatures) -> UInt16s:
        """Return the signatures, uint16 (n, words): a hash of 64 bits a rule, 0 for no bucket."""
        hashed = {
            equal: _hashes(features.columns[equal.field], equal.transformations, own.tobytes())
            for equal, own in zip(self._equals, self._secrets, strict=True)
        }
        least = np.uint64(2 if self.finds_equal else 1)
        keys = np.zeros((len(features), len(self.rules)), np.uint64)
        place = 0
        for number, rule in enumerate(self.rules):
            there = np.ones(len(features), np.bool_)
            state = np.zeros(len(features), np.uint64)
            for equal in rule:
                there &= hashed[equal] != 0
                state += hashed[equal] * self._factors[place]
                place += 1
            keys[there, number] = np.maximum(state[there] & ~(least - np.uint64(1)), least)
        alone = ~keys.any(axis=1)
        if self.finds_equal and alone.any():
            keys[alone, 0] = self._hashes_of_all(features)[alone]
        return keys.view(np.uint16)

    def _hashes_of_all(self, features: RecordFeatures) -> UInt64s:
        """Return an odd hash of all values of each record, 0 of one without any."""
        secrets = secret_words(self._secret, b"simdb.equal", 5 * len(features.columns))
        state = np.zeros(len(features), np.uint64)
        there = np.zeros(len(features), np.bool_)
        for column, own in zip(features.columns.values(), secrets.reshape(-1, 5), strict=True):
            hashes = _hashes(column, (), own[:4].astype("<u8").tobytes())
            there |= hashes != 0
            state += hashes * (own[4] | np.uint64(1))
        return np.where(there, state | np.uint64(1), np.uint64(0))

    def keys(self, signatures: UInt16s) -> UInt64s:
        """Return the hashes of signatures, uint64 (n, rules)."""
        return np.ascontiguousarray(signatures).view(np.uint64)

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the bucket keys: one for each rule whose fields all have a value."""
        keys = self.keys(signatures)
        there = keys != 0
        return BucketKeys(keys[there], offsets_of(there.sum(axis=1)))


def _hashes(column: RecordColumn, transformations: Sequence[str], secret: bytes) -> UInt64s:
    """Return a hash of what a part of a rule makes of each record; 0 if nothing is left.

    The values are hashed by BLAKE2b with the secret before them, each different one once.
    """
    texts: Iterable[str] = column.canonical
    if transformations:
        texts = map(chained(transformations), texts)
    digests = b"".join(
        blake2b(secret + text.encode(), digest_size=8).digest() if text else _NO_DIGEST
        for text in texts
    )
    # The last one is what the code of a missing value, -1, refers to.
    hashes = np.frombuffer(digests + _NO_DIGEST, "<u8").astype(np.uint64)
    return hashes[column.codes]


# -- what rules cost ----------------------------------------------------------------------------


def describe_candidates(
    kind: Record, family: Family, signatures: Callable[[], Iterator[UInt16s]]
) -> dict[str, Any]:
    """Return what each rule makes candidates of, without making them, as plain values.

    ``records`` have a value for it, ``buckets`` of them are different, ``largest`` are in one, and
    ``pairs`` are candidates, those of other rules among them. The keys of one rule are held at a
    time. Nothing is left out of a large bucket: the warning says what it costs and what helps.
    """
    assert isinstance(family, RecordFamily)
    rules, warnings = [], []
    for number, rule in enumerate(kind.rules):
        parts = [family.keys(rows)[:, [number]].ravel() for rows in signatures()]
        keys = np.concatenate([np.empty(0, np.uint64), *parts])
        of_rules = keys & np.uint64(family.finds_equal) == 0
        sizes = np.unique_counts(keys[(keys != 0) & of_rules]).counts
        words = " and ".join(map(str, rule))
        records, largest = int(sizes.sum()), int(sizes.max(initial=0))
        pairs = int((sizes * (sizes - 1) // 2).sum())
        rules.append(
            {
                "rule": words,
                "records": records,
                "buckets": sizes.size,
                "largest": largest,
                "pairs": pairs,
            }
        )
        if largest > kind.large_bucket:
            warnings.append(
                f"{largest:,} records are equal in {words}: that rule compares {pairs:,} pairs; "
                "ask for a second field in the same rule, or leave it out"
            )
    return {"rules": rules, "warnings": warnings}


# -- what cannot be missed -----------------------------------------------------------------------


def certain_above(settings: Record) -> Fraction:
    """Return the largest similarity of two records that agree in no rule, from above.

    Such a pair differs, or lacks a value, in one field at least of every rule; the cheapest such
    fields are sought among all choices.
    """
    fields = {field.name: field for field in settings.fields}
    rules = [{equal.field for equal in rule} for rule in settings.rules]
    losses = {name: _least_loss(fields[name]) for rule in rules for name in rule}
    for equal in (equal for rule in settings.rules for equal in rule):
        if any(name.partition(":")[0] not in _KEEPS_SOMETHING for name in equal.transformations):
            losses[equal.field] = 0  # equal values of which nothing is left have no bucket
    if len(losses) > _MOST_FIELDS_SEARCHED:
        return Fraction(1)
    cheapest = min(
        sum(losses[name] for name in chosen)
        for count in range(1, len(losses) + 1)
        for chosen in combinations(losses, count)
        if all(rule.intersection(chosen) for rule in rules)
    )
    return 1 - Fraction(cheapest, HUNDREDTHS * settings.total_weight)


def _least_loss(field: Field) -> int:
    """Return the hundredths that a field surely loses where it differs or has no value."""
    if field.missing == "ignore" or not field.is_text or field.compare == "words":
        return 0  # another number may differ by next to nothing, another text have the same words
    full, tolerance = HUNDREDTHS * field.weight, int(field.tolerance)
    one_letter = full - full * (tolerance**2 - 1) // tolerance**2
    return min(one_letter, full - HUNDREDTHS * field.missing)
