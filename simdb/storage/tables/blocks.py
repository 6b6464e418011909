"""Blocks: records of consecutive item numbers, many in one LMDB value.

A document of its own would waste a third of its last page, so records are kept in blocks of
about ``TARGET_BYTES``. A commit writes its records as new blocks. Small blocks at the end are
joined, ``FAN_IN`` of them or more, when together they are of a higher size class than each of
them, a class being a factor of 8: so a record is rewritten a few times at most. Deleted items
stay in their block until more than ``DEAD_SHARE`` of it is dead.

====== ======== ==============================================================
offset bytes    field
====== ======== ==============================================================
0      8        checksum of the head (variable width) or of all (fixed width)
8      4        records n
12     4        width of a record, 0 when it varies
16     4 n      item numbers, uint32, ascending
..     0 or 4   zeros up to a multiple of 8
..     8 n      (variable width) end of each record, counted from the first, uint64
..     8 n      (variable width) checksum of each record, uint64
..              the records
====== ======== ==============================================================

The *head* is all before the records. With a variable width each record is verified whenever it is
read, and the head whenever the block is looked up: of the last commit, once. With a fixed width a
block is verified when a process first uses it, since scans read it at the speed of memory; again
before it is written anew, so that damage is not sealed by a new checksum; and again by whoever
hands out its records (``verify``).

``ItemBlocks`` is all blocks of records of one width of an owner, in place: to be scanned, or
picked from. Finding hundreds of blocks one by one would take longer than what is done with them.
They are cached by commit: a block lies where it is as long as a snapshot of that commit can be
opened, and the cache is emptied whenever the map moves. So they are used within the transaction
only. The same holds of ``KnownBlocks``, those that were found one by one. From one commit to the
next those are taken over that no commit between can have changed: all before the tail, if nothing
was deleted. Of these a block of more than ``COPY_BELOW`` bytes lies on pages of its own, which LMDB
neither moves nor changes; smaller ones are copied.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash
from msgspec import Meta, Struct

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import CorruptionError
from simdb.ragged import ByteStrings, Pieces, address_of, picked, sizes_of, slices_of
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, pack_numbered, unpack_numbered
from simdb.storage.tables.runs import COPY_BELOW

if TYPE_CHECKING:
    from simdb.threads import Pool, Task

HEADER = struct.Struct("<QII")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 16

Data = bytes | memoryview
_NONE = np.empty(0, np.uint64)


class Block(Struct, frozen=True, eq=False):
    """A block in place; its arrays end with the transaction."""

    key: bytes
    numbers: UInt32s
    width: int
    ends: UInt64s
    checksums: UInt64s
    records: memoryview

    def place(self, number: int) -> int | None:
        """Return where the record of an item number stands, or None."""
        numbers, place = self.numbers, number - int(self.numbers[0])
        if place >= numbers.size or int(numbers[place]) != number:  # there are holes
            place = int(numbers.searchsorted(number))
            if place == numbers.size or int(numbers[place]) != number:
                return None
        return place

    def record(self, position: int) -> memoryview:
        """Return a record, not verified."""
        if self.width:
            return self.records[position * self.width : (position + 1) * self.width]
        begin = int(self.ends[position - 1]) if position else 0
        return self.records[begin : int(self.ends[position])]

    def verified_record(self, position: int) -> memoryview:
        """Return a record of variable width; CorruptionError if it differs from its checksum."""
        record = self.record(position)
        number = int(self.numbers[position])
        if record_checksum(self.key[:4], number, record) != int(self.checksums[position]):
            raise layout.damage(f"item number {number} is damaged")
        return record

    def column(self) -> ByteStrings:
        """Return the records, not verified, as a column."""
        values = np.frombuffer(self.records, np.uint8)
        if self.width:
            return ByteStrings(values, np.arange(self.numbers.size + 1) * self.width)
        offsets = np.zeros(self.ends.size + 1, np.int64)
        offsets[1:] = self.ends
        return ByteStrings(values, offsets)

    def as_rows(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the records of fixed width as the rows of an array."""
        return np.frombuffer(self.records, dtype).reshape(self.numbers.size, -1)


def record_checksum(owner: bytes, number: int, record: Data) -> int:
    """Return the checksum of a record of variable width; it does not name the block."""
    return xxhash.xxh3_64_intdigest(record, seed=(int.from_bytes(owner, "big") << 32) | number)


def _head_size(records: int) -> int:
    """Return the size of the head of a block of records of varying width."""
    return HEADER_SIZE + 4 * (records + records % 2) + 16 * records


def split_block(key: bytes, value: memoryview, width: int) -> tuple[Block, int]:
    """Return the arrays of a block, not verified, and the size of its head."""
    _, count, stored_width = HEADER.unpack_from(value)
    if stored_width != width or not count:
        raise ValueError(f"{count} records of width {stored_width}, expected width {width}")
    numbers = np.frombuffer(value, np.uint32, count, HEADER_SIZE)
    head = HEADER_SIZE + 4 * count + 4 * (count % 2)
    if width:
        if len(value) != head + count * width:
            raise ValueError("wrong length")
        return Block(key, numbers, width, _NONE, _NONE, value[head:]), head
    ends = np.frombuffer(value, np.uint64, count, head)
    checksums = np.frombuffer(value, np.uint64, count, head + 8 * count)
    head += 16 * count
    if len(value) != head + int(ends[-1]):
        raise ValueError("wrong length")
    return Block(key, numbers, 0, ends, checksums, value[head:]), head


class KnownBlocks:
    """Blocks of one owner that were found in one commit, by the first of their item numbers."""

    def __init__(self) -> None:
        self._firsts: list[int] = []  # ascending
        self._blocks: dict[int, Block] = {}
        self._placed: tuple[list[Block], BlockPlaces] = [], BlockPlaces.of([])

    @property
    def placed(self) -> tuple[list[Block], BlockPlaces]:
        """The blocks, or most of many, and where they lie as long as these are kept.

        Many are placed anew as they grow by a quarter: so each is a few times at most.
        """
        known, placed = len(self._blocks), len(self._placed[0])
        if placed < known and (known <= FEW_KNOWN or 5 * placed <= 4 * known):
            found = sorted(self._blocks.copy().values(), key=lambda block: int(block.numbers[0]))
            self._placed = found, BlockPlaces.of(found)
        return self._placed

    def find(self, number: int) -> Block | None:
        """Return the block whose range holds an item number, if it is known."""
        firsts = self._firsts  # which another thread may begin anew
        place = bisect_right(firsts, number)
        block = self._blocks.get(firsts[place - 1]) if place else None
        return block if block is not None and number <= block.numbers[-1] else None

    def note(self, block: Block) -> None:
        """Keep a block; beyond ``MOST_KNOWN`` it begins anew. Threads may do so at once."""
        if len(self._firsts) >= MOST_KNOWN:
            self._firsts, self._blocks, self._placed = [], {}, ([], BlockPlaces.of([]))
        first = int(block.numbers[0])
        self._blocks[first] = block
        insort(self._firsts, first)


FEW_KNOWN = 64  # blocks of an owner that are placed with each that is found
MOST_KNOWN = 4_096  # blocks of an owner, about a kilobyte each
TARGET_BYTES = 131_072
BLOCKS_AT_ONCE = 8  # are made in memory that a processor's own cache holds
FAN_IN = 8  # small blocks that wait before they are joined
DEAD_SHARE = 0.3


# The small blocks at the end, oldest first, as (first item number, bytes).
TailBlock: TypeAlias = tuple[
    Annotated[int, Meta(ge=0, lt=2**32)], Annotated[int, Meta(gt=0, lt=2**40)]
]
Tail: TypeAlias = list[TailBlock]


class BlockReader:
    """The blocks of one owner (a collection or an index) in a transaction.

    ``width`` is that of a record in bytes, 0 when it varies.
    """

    def __init__(
        self, transaction: ReadTransaction, table: Table, owner: int, *, width: int
    ) -> None:
        self._transaction = transaction
        self._table = table
        self._owner = owner
        self._width = width
        self._known: KnownBlocks | None = None

    def find(self, number: int) -> Block | None:
        """Return the block whose range holds an item number, or None."""
        known = self.known()
        if known is None:
            return self._found(number)
        block = known.find(number)
        if block is None:
            block = self._found(number)
            if block is not None:
                known.note(block)
        return block

    def known(self) -> KnownBlocks | None:
        """Return the blocks that were found in this commit; None where none are kept."""
        if self._known is None:
            if not self._transaction.remembers:
                return None
            name = "blocks", self._table, self._owner
            self._known = self._transaction.remembered(name, KnownBlocks)
        self._transaction.require_open()
        return self._known

    def _found(self, number: int) -> Block | None:
        found = self._transaction.floor(self._table, pack_numbered(self._owner, number))
        if found is None:
            return None
        key = bytes(found[0])
        if unpack_numbered(key)[0] != self._owner:
            return None
        block = self._decode(key, found[1])
        return block if number <= block.numbers[-1] else None

    def scan(self, start: int = 0) -> Iterator[Block]:
        """Yield the blocks in the order of item numbers, from the one that holds ``start`` on."""
        prefix = pack_numbered(self._owner, 0)[:4]
        begin = pack_numbered(self._owner, start)
        found = self._transaction.floor(self._table, begin)
        if found is not None and bytes(found[0][:4]) == prefix:
            begin = bytes(found[0])
        for key, value in self._transaction.scan(self._table, prefix, begin):
            block = self._decode(bytes(key), value)
            if block.numbers[-1] >= start:
                yield block

    def all_blocks(self, tail: Tail, lasting: ItemBlocks | None = None) -> ItemBlocks | None:
        """Return all blocks of fixed width in place; None if there are none.

        Those of an earlier state that are ``lasting`` are not read again.
        """
        start = 0 if lasting is None else lasting.end
        found = [ItemRows(block.numbers, block.as_rows(np.uint8)) for block in self.scan(start)]
        return ItemBlocks.of(found, lasting, tail)

    def holding(self, numbers: UInt32s) -> Iterator[tuple[Block, int, int]]:
        """Yield the blocks whose ranges hold ascending item numbers, and which of these they do."""
        begin, listed = 0, numbers.tolist()
        while begin < numbers.size:
            block = self.find(listed[begin])
            if block is None:
                begin += 1
                continue
            end = bisect_right(listed, int(block.numbers[-1]), begin)
            yield block, begin, end
            begin = end

    def locate(self, numbers: UInt32s) -> Iterator[tuple[Block, Int64s, Int64s]]:
        """Find ascending item numbers block by block; those that no block holds are left out.

        Yields a block, the positions in ``numbers`` that it holds, and their places in the block.
        """
        for block, begin, end in self.holding(numbers):
            first, last = int(block.numbers[0]), int(block.numbers[-1])
            wanted = numbers[begin:end]
            if last - first < block.numbers.size:  # no number is missing
                yield block, np.arange(begin, end), wanted.astype(np.int64) - first
                continue
            places = np.searchsorted(block.numbers, wanted)
            held = np.flatnonzero(
                block.numbers[np.minimum(places, block.numbers.size - 1)] == wanted
            )
            yield block, held + begin, places[held]

    def verify(self, key: bytes) -> None:
        """Compare a block of fixed width with its checksum, also if this process has before."""
        value = self._transaction.get(self._table, key)
        if value is None:
            raise CorruptionError(f"a block is missing (key {key.hex()})")
        self._compare(key, value[layout.CHECKSUM_SIZE :], HEADER.unpack_from(value)[0])

    def _decode(self, key: bytes, value: memoryview, *, anew: bool = False) -> Block:
        """Return a block, verified; one of fixed width if it was not, or ``anew``."""
        try:
            block, head = split_block(key, value, self._width)
        except (struct.error, ValueError, IndexError) as error:
            raise CorruptionError(f"a block is damaged (key {key.hex()}): {error}") from error
        expected = HEADER.unpack_from(value)[0]
        covered = value[layout.CHECKSUM_SIZE : None if self._width else head]
        if self._width and not anew:
            caches, name = self._transaction.environment.caches, (self._table, key, expected)
            layout.verify_once(caches, name, lambda: self._compare(key, covered, expected))
        else:
            self._compare(key, covered, expected)
        return block

    def _compare(self, key: bytes, covered: memoryview, expected: int) -> None:
        if layout.checksum(self._table, key, covered) != expected:
            raise layout.damage(f"a block of table {self._table.name} is damaged (key {key.hex()})")


class BlockWriter(BlockReader):
    """Changes the blocks of one owner within a write transaction.

    The tail, the small blocks at the end, is changed in place and stored by the caller.
    """

    def __init__(
        self,
        transaction: WriteTransaction,
        table: Table,
        owner: int,
        tail: Tail,
        *,
        width: int,
        target_bytes: int = TARGET_BYTES,
    ) -> None:
        super().__init__(transaction, table, owner, width=width)
        self._target = target_bytes
        self._writer = transaction
        self._tail = tail
        self.bytes_written = 0

    def append(self, numbers: UInt32s, records: Sequence[Data]) -> None:
        """Write records under ascending item numbers, past every earlier one."""
        column = ByteStrings.of(records)
        if self._width:
            self.append_rows(numbers, column.values.reshape(numbers.size, self._width))
        else:
            self.append_made(numbers, np.diff(column.offsets), column.__getitem__)

    def append_made(
        self,
        numbers: UInt32s,
        sizes: Int64s,
        make: Callable[[slice], ByteStrings],
        pool: Pool | None = None,
    ) -> None:
        """Write records of varying width, as ``append`` does, which are made some at a time.

        The threads of a pool, if one is given, make them, and blocks of them; what they have not
        begun when it is to be written is made here, for they may have other work before it.
        """
        parts = list(slices_of(sizes, self._target))
        portions = [
            parts[place : place + BLOCKS_AT_ONCE] for place in range(0, len(parts), BLOCKS_AT_ONCE)
        ]

        def made(portion: list[slice]) -> tuple[UInt8s, Int64s]:
            rows = slice(portion[0].start, portion[-1].stop)
            cuts = [part.stop - rows.start for part in portion]
            return self._made(numbers[rows], make(rows), cuts)

        begun: list[Task[tuple[UInt8s, Int64s]]] = []
        if pool is not None:
            begun = [pool.submit(made, portion) for portion in portions[1:]]
        tasks = [*[None] * (len(portions) - len(begun)), *begun]
        try:
            for portion, task in zip(portions, tasks, strict=True):
                if task is None or task.cancel():
                    values, bounds = made(portion)
                else:
                    values, bounds = task.result()
                self._tail += self._put_made(numbers, portion, values, bounds)
        finally:
            for task in begun:
                task.cancel()
        self._join_tail()

    def append_rows(self, numbers: UInt32s, rows: npt.NDArray[Any]) -> None:
        """Write the rows of an array as records of fixed width, as ``append`` does."""
        # Of about one size: what is left over would be a small block for good.
        count = min(numbers.size, max(1, round(rows.nbytes / self._target)))
        cuts = [numbers.size * part // count for part in range(count + 1)] if count else []
        for begin, end in pairwise(cuts):
            size = self._put_rows(numbers[begin:end], rows[begin:end])
            self._tail.append((int(numbers[begin]), size))
        self._join_tail()

    def _put_rows(self, numbers: UInt32s, records: npt.NDArray[Any]) -> int:
        """Write a block of records of fixed width."""
        key = pack_numbered(self._owner, int(numbers[0]))
        padding = b"\0" * (4 * (numbers.size % 2))
        header = HEADER.pack(0, numbers.size, self._width)[8:]
        columns = np.ascontiguousarray(numbers).data, padding, np.ascontiguousarray(records).data
        return self._write(key, layout.seal_parts(self._table, key, header, *columns))

    def _put(
        self, numbers: UInt32s, records: ByteStrings, most: int, checksums: UInt64s = _NONE
    ) -> Tail:
        """Write records as blocks of about so many bytes; return their first numbers and sizes.

        Without checksums those of the records are computed.
        """
        parts = list(slices_of(sizes_of(records.offsets), most))
        if self._width:
            rows = records.values.reshape(numbers.size, self._width)
            sizes = [self._put_rows(numbers[part], rows[part]) for part in parts]
            firsts = [int(numbers[part.start]) for part in parts]
            return list(zip(firsts, sizes, strict=True))
        cuts = [part.stop for part in parts]
        return self._put_made(numbers, parts, *self._made(numbers, records, cuts, checksums))

    def _made(
        self,
        numbers: UInt32s,
        records: ByteStrings,
        cuts: list[int],
        checksums: UInt64s = _NONE,
    ) -> tuple[UInt8s, Int64s]:
        """Return blocks that end with the given records, without the checksums of their heads."""
        column = (records.values, records.offsets, numbers)
        bounds = np.array([0, *cuts], np.int64)
        return kernels.columns.blocks(*column, checksums, bounds, np.uint64(self._owner))

    def _put_made(
        self, numbers: UInt32s, parts: list[slice], values: UInt8s, bounds: Int64s
    ) -> Tail:
        """Write blocks of some of the item numbers; return their first numbers and sizes."""
        written: Tail = []
        for part, (begin, end) in zip(parts, pairwise(bounds.tolist()), strict=True):
            first, head = int(numbers[part.start]), _head_size(part.stop - part.start)
            written.append((first, self._put_sealed(first, head, values[begin:end])))
        return written

    def _put_sealed(self, first: int, head: int, value: UInt8s) -> int:
        """Write a block of records of varying width, which lacks the checksum of its head."""
        key = pack_numbered(self._owner, first)
        checksum = layout.checksum(self._table, key, value[layout.CHECKSUM_SIZE : head].data)
        value[: layout.CHECKSUM_SIZE] = np.frombuffer(layout.CHECKSUM.pack(checksum), np.uint8)
        return self._write(key, value.data)

    def _write(self, key: bytes, value: Data) -> int:
        self._writer.put(self._table, key, value)
        self.bytes_written += len(value)
        return len(value)

    # -- joining small blocks ----------------------------------------------------------------

    def _join_tail(self) -> None:
        """Join blocks at the end as long as there are some to be joined."""
        blocks = self._tail
        while (begin := _first_to_join(blocks, self._target)) is not None:
            blocks[begin:] = self._join([first for first, _ in blocks[begin:]])
        enough = self._target // 2
        large = [place for place, (_, size) in enumerate(blocks) if size >= enough]
        if large:
            del blocks[: large[-1] + 1]

    def _join(self, firsts: list[int]) -> Tail:
        # Records keep the checksums they were stored with, so that damage stays visible.
        joined = [self._require(first) for first in firsts]
        numbers = np.concatenate([block.numbers for block in joined])
        checksums = np.concatenate([block.checksums for block in joined])
        records = ByteStrings.concatenated([block.column() for block in joined])
        for first in firsts[1:]:
            self._writer.delete(self._table, pack_numbered(self._owner, first))
        return self._put(numbers, records, records.values.size, checksums)

    def _require(self, first: int) -> Block:
        key = pack_numbered(self._owner, first)
        value = self._transaction.get(self._table, key)
        if value is None:
            raise CorruptionError(f"a block is missing (key {key.hex()})")
        return self._decode(key, value, anew=True)

    # -- dropping the dead -------------------------------------------------------------------

    def drop_dead(
        self,
        block: Block,
        dead: Bools,
        *,
        share: float = DEAD_SHARE,
        in_pieces: bool = False,
    ) -> int:
        """Rewrite a block without its dead records if more than ``share`` of them are dead.

        Returns how many were dropped. The block is as it was found since the last write. With
        ``in_pieces`` what is left of one of fixed width is written as several of about
        ``TARGET_BYTES``: a full map has no place for a large one.
        """
        count = int(np.count_nonzero(dead))
        if not count or count <= share * block.numbers.size:
            return 0
        if self._width:
            self.verify(block.key)
        alive = np.flatnonzero(~dead)
        numbers = block.numbers[alive].copy()
        checksums = block.checksums if self._width else block.checksums[alive].copy()
        records = picked(block.column(), alive)
        most = TARGET_BYTES if in_pieces and self._width else records.values.size
        self._put_for([block.key], numbers, records, most, checksums)
        return count

    def replace(self, keys: Sequence[bytes], numbers: UInt32s, records: ByteStrings) -> None:
        """Write records of varying width in the place of neighbouring blocks with these keys."""
        self._put_for(keys, numbers, records, self._target)
        self._join_tail()

    def _put_for(
        self,
        keys: Sequence[bytes],
        numbers: UInt32s,
        records: ByteStrings,
        most: int,
        checksums: UInt64s = _NONE,
    ) -> None:
        """Write records as ``_put`` does, in the place of neighbouring blocks with these keys."""
        for key in keys:
            self._writer.delete(self._table, key)
        written = self._put(numbers, records, most, checksums)
        gone = {unpack_numbered(key)[1] for key in keys}
        places = [place for place, (first, _) in enumerate(self._tail) if first in gone]
        if places:
            self._tail[places[0] : places[-1] + 1] = written


def _first_to_join(blocks: Tail, target: int) -> int | None:
    """Return the place from which on the blocks at the end are to be joined, or None."""
    total = largest = joined = 0
    for count, (_, size) in enumerate(reversed(blocks), 1):
        if size >= target // 2 or total >= target:
            break
        total += size
        largest = max(largest, size)
        # Of a size class all have as many groups of three bits.
        if (count >= FAN_IN and total.bit_length() // 3 > largest.bit_length() // 3) or (
            count > 1 and total >= target // 2
        ):
            joined = count
    return len(blocks) - joined if joined else None


class BlockPlaces(NamedTuple):
    """Where blocks lie, in the order of item numbers, for kernels that read many of them.

    Attributes:
        firsts, lasts, counts: the item numbers that each begins and ends with, and how many it has.
        addresses: where its item numbers lie.
        sizes: bytes of its records.
    """

    firsts: UInt32s
    lasts: UInt32s
    counts: Int64s
    addresses: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Self:
        """Return the places of blocks, which the caller keeps as long as they are read."""
        found = [
            (
                *(int(block.numbers[0]), int(block.numbers[-1]), block.numbers.size),
                *(address_of(block.numbers), len(block.records)),
            )
            for block in blocks
        ]
        columns = np.array(found, np.int64).reshape(-1, 5).T.copy()
        return cls(columns[0].astype(np.uint32), columns[1].astype(np.uint32), *columns[2:])


ITEM_BLOCK_BYTES = 2**21  # items of one width are scanned, in few and long blocks


class ItemRows(Struct, frozen=True, eq=False):
    """A block: the numbers of its items, uint32 ascending, and the items, uint8 (n, width)."""

    numbers: UInt32s
    rows: UInt8s

    def to_last(self) -> ItemRows:
        """Return it for later commits: a small one may share its page with other records."""
        is_small = self.rows.nbytes < COPY_BELOW
        return ItemRows(self.numbers.copy(), self.rows.copy()) if is_small else self


class ItemBlocks:
    """The blocks, at least one, in the order of item numbers, dead items included."""

    def __init__(self, blocks: list[ItemRows], before: ItemBlocks | None = None) -> None:
        """Take blocks; ``before`` them come these."""
        places = (
            (block.numbers.size, address_of(block.numbers), address_of(block.rows))
            for block in blocks
        )
        self._blocks = blocks
        self._firsts = np.array([block.numbers[0] for block in blocks], np.uint32)
        self._lasts = np.array([block.numbers[-1] for block in blocks], np.uint32)
        self._places = np.array([*places], np.int64).reshape(-1, 3).T.copy()
        if before is not None:
            self._blocks = [*before._blocks, *blocks]
            self._firsts = np.append(before._firsts, self._firsts)
            self._lasts = np.append(before._lasts, self._lasts)
            self._places = np.append(before._places, self._places, axis=1)
        # Where the rows of each begin, counted through all, and where the last ones end.
        self._bounds = np.append(0, self._places[0].cumsum())
        self._width: int = self._blocks[0].rows.shape[1]
        self._whole = Pieces(self._places[0], self._places[2])
        self._bytes = self._width * int(self._bounds[-1])
        self.lasting: ItemBlocks | None = None

    @classmethod
    def of(cls, found: list[ItemRows], lasting: ItemBlocks | None, tail: Tail) -> Self | None:
        """Return ``lasting`` blocks and those found after them, which end with the tail.

        None if there are none. All that are before the tail are the ``lasting`` ones of the answer.
        """
        stay = [block for block in found if not tail or block.numbers[0] < tail[0][0]]
        if stay:
            lasting = cls([block.to_last() for block in stay], lasting)
        if lasting is None and not found:
            return None
        whole = cls(found[len(stay) :], lasting)
        whole.lasting = lasting
        return whole

    @property
    def end(self) -> int:
        """One past the last item number."""
        return int(self._lasts[-1]) + 1

    def __iter__(self) -> Iterator[ItemRows]:
        """Yield the blocks."""
        return iter(self._blocks)

    def pieces(self, most: int) -> Iterator[tuple[int, Pieces]]:
        """Yield how many rows come before, and rows where they lie, some bytes at a time."""
        if self._bytes <= most:
            yield 0, self._whole
            return
        counts, addresses = self._whole
        for some in slices_of(self._width * counts, most):
            yield int(self._bounds[some.start]), Pieces(counts[some], addresses[some])

    def numbers_at(self, before: int, rows: Int64s) -> UInt32s:
        """Return the item numbers of rising rows, which so many rows come before."""
        return kernels.columns.numbers_of_rows(self._bounds, self._places[1], before, rows)

    def pick(self, numbers: UInt32s) -> tuple[Int64s, UInt8s]:
        """Return the positions in ascending item numbers of those stored, and a copy of these."""
        picked = np.empty((numbers.size, self._width), np.uint8)
        held = np.zeros(numbers.size, np.uint8)
        counts, of_numbers, of_rows = self._places
        kernels.columns.rows_of_blocks(
            self._firsts, self._lasts, counts, of_numbers, of_rows, numbers, picked, held
        )
        positions = np.flatnonzero(held)
        return positions, (picked if positions.size == numbers.size else picked[positions])
