"""Items to signatures: the Map of exercise 3.3.7 of MMDS, with the matrix chunked by columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from simdb import arrow
from simdb.arrays import Bools
from simdb.batches.compare import compare_items
from simdb.batches.signer import Signed, Signer
from simdb.errors import BadItemError, ConfigurationError, UsageError
from simdb.exact.thresholds import Threshold
from simdb.kinds.base import Stored
from simdb.ragged import as_bytes
from simdb.recipe import Recipe, require_recipe
from simdb.steps.schemas import ITEMS, SIGNED
from simdb.steps.streams import column_named, record_batches, row_numbers, taken

DIGEST_BYTES = 16
_signers: dict[str, Signer] = {}


def require_served(recipe: Recipe, *, exact: bool = False) -> None:
    """Raise ConfigurationError unless the steps can answer by a recipe.

    Probable answers need bands, or rules, that both items of a pair are in. A family that looks
    into the buckets around a probe (strings, and bits whose index misses nothing) is not served.
    Exact ones need sets of symbols: texts, sets, bags, and bits by Tanimoto similarity.
    """
    require_recipe(recipe).require_same_unicode()
    if exact:
        if not recipe.kind.has_symbols:
            raise ConfigurationError(
                f"exact answers by steps are of sets of symbols, not of {recipe.kind.plural}: ask "
                "for probable ones"
            )
        return
    family = signer_of(recipe).family
    if family is None:
        raise ConfigurationError(
            "the recipe has no probable index: give a threshold, or max_distance"
        )
    if family.looks_around:
        raise ConfigurationError(
            f"the steps do not serve {recipe.kind.plural} looked for in the buckets around "
            "their own, as strings are; bits are not with a recall below 1, as recall=0.99"
        )


def signer_of(recipe: Recipe) -> Signer:
    """Return what signs by a recipe; one a process, since tables of characters take long."""
    name = require_recipe(recipe).fingerprint
    if name not in _signers:
        if len(_signers) >= 8:
            _signers.clear()
        _signers[name] = Signer(recipe)
    return _signers[name]


def threshold_of(recipe: Recipe) -> Threshold:
    """Return the bound of a recipe of similarities."""
    assert isinstance(recipe.bound, Threshold)
    return recipe.bound


def encoded(recipe: Recipe, column: Any) -> tuple[Sequence[Stored], Bools, list[str | None]]:
    """Return the items of a column in canonical form, which are good, and what is wrong.

    The form of a bad one is empty.
    """
    forms = signer_of(recipe).items
    good = np.ones(len(column), np.bool_)
    found = None if column.null_count else arrow.column_of(column)
    whole = None if found is None else forms.encode_column(found)
    if whole is not None:
        return whole, good, [None] * len(column)
    items: list[Stored] = []
    problems: list[str | None] = []
    for value in map(arrow.plain, arrow.values(column)):
        try:
            if value is None:
                raise BadItemError("the item is null")
            if isinstance(value, UnicodeDecodeError):
                raise BadItemError(f"the item is not UTF-8: {value}")
            items.append(forms.encode(value))
            problems.append(None)
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            good[len(items)] = False
            items.append(b"")
            problems.append(str(error))
    return items, good, problems


def encode(recipe: Recipe, batches: Iterable[Any]) -> Iterator[Any]:
    """(number, item) -> ``ITEMS``: the items in canonical form, as ``verify`` takes them.

    Bad items are left out: ``sign`` has told of them. UsageError: a number is below 0.
    """
    for batch in record_batches(batches):
        numbers = row_numbers(batch)
        items, good, _ = encoded(recipe, column_named(batch, "item"))
        made = arrow.library().array(as_bytes(items), arrow.library().binary())
        whole = ITEMS.batch(numbers, made)
        yield taken(whole, np.flatnonzero(good))


def sign(recipe: Recipe, batches: Iterable[Any], *, exact: bool = False) -> Iterator[Any]:
    """(number, item) -> ``SIGNED``: a digest and a signature of each item.

    Items of equal digests are copies of each other: as similar as items can be. It is null where
    equal items are none, as sets without elements, or records that lack a field. A bad item has a
    ``problem``, and neither digest nor signature. For ``exact`` steps there are no signatures.
    UsageError: a number is below 0.
    """
    require_served(recipe, exact=exact)
    library = arrow.library()
    keyed_by_secret = hashlib.blake2b(digest_size=DIGEST_BYTES, key=recipe.secret)
    for batch in record_batches(batches):
        if not batch.num_rows:
            continue
        numbers = row_numbers(batch)
        items, good, problems = encoded(recipe, column_named(batch, "item"))
        places = np.flatnonzero(good)
        sound = items if good.all() else [items[place] for place in places.tolist()]
        signed = None if exact else signer_of(recipe).sign_unsorted(sound)
        digests: list[bytes | None] = [None] * len(items)
        copied = _may_be_copies(recipe, sound, signed).tolist()
        for place, item, some in zip(places.tolist(), sound, copied, strict=True):
            if some:
                keyed = keyed_by_secret.copy()
                keyed.update(item)
                digests[place] = keyed.digest()
        signatures = library.nulls(len(items), library.binary())
        if signed is not None:
            signatures = arrow.bytes_column(signed.signatures)
            if places.size < len(items):
                rank = np.maximum(np.cumsum(good) - 1, 0)
                signatures = signatures.take(library.array(rank, mask=~good))
        yield SIGNED.batch(
            numbers,
            library.array(digests, library.binary()),
            signatures,
            library.array(problems, library.string()),
        )


def _may_be_copies(recipe: Recipe, items: Sequence[Stored], signed: Signed | None) -> Bools:
    """Tell which items are as similar to an equal one as can be, and found with it."""
    signer = signer_of(recipe)
    if signed is None:
        return signer.symbols(items).sizes > 0
    copied: Bools = signed.comparable & (signed.buckets.sizes > 0)
    if not signer.kind.has_symbols and items:
        every = np.arange(len(items))
        own = compare_items(signer, items, every, every)
        copied &= recipe.bound.meets_many(own.numerators, own.denominators)
        copied &= own.values() == signer.kind.identical_value
    return copied
