"""The pages and blocks of a damaged file, read without LMDB, which damage can make end the process.

Everything is bounds-checked, nothing is believed: a page counts only under its own number, a
record only when its checksum holds. Of blocks of documents the records are verified and the heads
are not; blocks of items of one width are verified as a whole. Layouts of LMDB 0.9 (``mdb.c``):

A page is its number (8 bytes), 2 bytes unused, flags (2; 1 branch, 2 leaf, 4 overflow), the end of
the offsets of its nodes (2; of an overflow page 4, its pages), and from byte 16 on these offsets.
A node is the low and high half of a number, flags, the size of its key, the key, and what the
number says: on a leaf the size of the value that follows (flag 1: of one on overflow pages, whose
number follows), on a branch, with the flags as its upper part, the page of a child.

What the last commits have left in the log (``storage.file.log``) is read as part of the tables.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Self

from simdb.errors import CorruptionError, NotADatabaseError, StorageError
from simdb.storage.file import log, preflight
from simdb.storage.file.log import Changed
from simdb.storage.file.preflight import (
    BIG_DATA,
    BRANCH,
    LEAF,
    NO_PAGE,
    OVERFLOW,
    PAGE_HEADER,
    SUB_DATABASE,
    nodes_of,
    page_head,
)
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import HEADER_SIZE, Block, split_block
from simdb.storage.tables.layout import Table
from simdb.zstandard import Codec

DEEPEST = 32
_OF_A_STORE = {Table.META, Table.DOCUMENTS, Table.KEYS}  # which every store has
MOST_PAGES = 2**18  # of one value that nothing leads to: damage can name any number
_NUMBER = struct.Struct("<Q")
_PAGES = struct.Struct("<I")
_BLOCK = struct.Struct("<8x III")  # records, their width, the first item number


class RawRecord(NamedTuple):
    """A record as it stands in the file, not verified."""

    key: bytes
    value: bytes


class DamagedFile:
    """The pages of a file, for reading only; NotADatabaseError without a trace of LMDB in it."""

    def __init__(self, path: Path) -> None:
        preflight.require_regular(path)
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.problems: list[tuple[str, str]] = []  # what could not be read, as table and words
        self.roots: dict[Table, int] = {}  # of the newest commit that can be read
        self.entries: dict[Table, int] = {}  # how many records each should have
        self._seen: set[int] = set()
        self._logged = {table: Changed() for table in Table}
        self.log_is_whole = True  # all that the last commits changed could be read
        self.is_foreign = False  # a sound file of another program
        try:
            self._size = os.fstat(self._descriptor).st_size
            self._page_size, main = self._read_metas()
            self._find_roots(main)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def page_count(self) -> int:
        """Whole pages in the file."""
        return self._size // self._page_size

    # -- the beginning -----------------------------------------------------------------------

    def _read_metas(self) -> tuple[int, preflight.Tree | None]:
        """Return the page size, and the main table of the newer meta page that can be read."""
        for page_size in (4_096, *(2**power for power in range(8, 17))):
            metas = [self._meta(place, page_size) for place in (0, page_size)]
            good = sorted(meta for meta in metas if meta is not None)
            if good:
                commits = [meta.commit for meta in metas if meta is not None]
                if len(commits) < 2 or preflight.contradiction(*commits):
                    self.problems.append(("", "a meta page is damaged"))
                newest = good[-1]
                if newest.needed_size > self._size:
                    self.problems.append(("", f"{self._size:,} bytes of {newest.needed_size:,}"))
                return page_size, newest.main
        if self._size < 2 * 4_096:
            raise NotADatabaseError(f"{self._path}: no LMDB page can be read")
        self.problems.append(("", "both meta pages are damaged"))
        return 4_096, None

    def _meta(self, place: int, page_size: int) -> preflight.Meta | None:
        try:
            data = os.pread(self._descriptor, preflight.META_BYTES, place)
            meta = preflight.parse_meta(self._path, data)
        except StorageError:
            return None
        return meta if meta is not None and meta.page_size == page_size else None

    def _find_roots(self, main: preflight.Tree | None) -> None:
        names = dict(zip(layout.TABLE_NAMES, Table, strict=True))
        logged: dict[bytes, bytes] = {}
        before = len(self.problems)
        if main is not None:
            found = 0
            for key, value, flags in self._walk("", main.root):
                found += 1
                tree = preflight.Tree.parse(value) if flags & SUB_DATABASE else None
                if key in names and tree is not None:
                    self.entries[names[key]], self.roots[names[key]] = tree.entries, tree.root
                elif log.is_log(key):
                    logged[key] = value
            if found != main.entries:  # what is missing may be the log of the last commits
                self.problems.append(("", f"{found:,} tables and logs of {main.entries:,}"))
        # The head comes last, though its key is the first.
        for key in sorted(logged, key=lambda key: key[len(log.HEAD_KEY) :] or b"\xff" * 5):
            said = _logged(key, logged[key])
            if said is None:
                self.problems.append(("", f"the log of the last commits (key {key.hex()})"))
                continue
            place, changes = said
            if key == log.HEAD_KEY and place.end - place.first != len(logged) - 1:
                self.problems.append(("", "a segment of the log of the last commits is missing"))
            for table, name, record in changes:
                self._logged[Table(table)].set(name, record)
        self.log_is_whole = not [problem for problem in self.problems[before:] if problem[0] == ""]
        is_sound = main is not None and not self.problems
        self.is_foreign = is_sound and not self.roots.keys() >= _OF_A_STORE
        for table in set(Table) - set(self.roots):
            self.problems.append((table.name.lower(), "the table cannot be found"))

    # -- pages -------------------------------------------------------------------------------

    def _page(self, number: int) -> bytes | None:
        """Return a page, or None if it is not in the file or not that page."""
        if not 2 <= number < self.page_count:
            return None
        page = os.pread(self._descriptor, self._page_size, number * self._page_size)
        if len(page) < self._page_size or _NUMBER.unpack_from(page)[0] != number:
            return None
        return page

    def _value(self, page: bytes, size: int, flags: int, begin: int) -> bytes | None:
        """Return the value of a leaf's node, or None where it is not whole."""
        if not flags & BIG_DATA:
            value = page[begin : begin + size]
            return value if len(value) == size else None
        if begin + _NUMBER.size > len(page):
            return None
        first = _NUMBER.unpack_from(page, begin)[0]
        head = self._page(first)
        if head is None or not page_head(head)[0] & OVERFLOW:
            return None
        pages = -(-(PAGE_HEADER + size) // self._page_size)
        self._seen.update(range(first, min(first + pages, self.page_count)))
        value = os.pread(self._descriptor, size, first * self._page_size + PAGE_HEADER)
        return value if len(value) == size else None

    # -- records -----------------------------------------------------------------------------

    def records(self, table: Table) -> Iterator[RawRecord]:
        """Yield the records of a table by ascending key, as many as can be reached."""
        changed = self._logged[table]
        stored = (record for record in self._stored(table) if record.key not in changed.values)
        logged = (
            RawRecord(key, bytes(value))
            for key in changed.keys
            if (value := changed.values[key]) is not None
        )
        return merge(stored, logged, key=itemgetter(0))

    def _stored(self, table: Table) -> Iterator[RawRecord]:
        root = self.roots.get(table, NO_PAGE)
        if root == NO_PAGE:
            return
        name = table.name.lower()
        found = 0
        last: bytes | None = None
        for key, value, flags in self._walk(name, root):
            if flags & SUB_DATABASE or (last is not None and key <= last):
                self.problems.append((name, f"key {key.hex()} is out of place"))
                continue
            last = key
            found += 1
            yield RawRecord(key, value)
        # A page that says it has fewer nodes than it has looks sound by itself.
        noted = {table_name for table_name, _ in self.problems}
        if found != self.entries[table] and name not in noted:
            self.problems.append((name, f"{found:,} records of {self.entries[table]:,}"))

    def _walk(self, table: str, root: int) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield key, value and flags of the leaves below a page; note what cannot be read."""
        if root == NO_PAGE:
            return
        pending = [(root, 0)]
        walked: set[int] = set()
        while pending:
            number, depth = pending.pop()
            page = self._page(number)
            kind = 0 if page is None else page_head(page)[0]
            if page is None or number in walked or depth > DEEPEST or not kind & (BRANCH | LEAF):
                self.problems.append((table, f"page {number} cannot be read"))
                continue
            walked.add(number)
            self._seen.add(number)
            nodes = list(nodes_of(page))
            if len(nodes) != (page_head(page)[1] - PAGE_HEADER) // 2:
                self.problems.append((table, f"page {number} is damaged"))
            if kind & BRANCH:
                children = [size | flags << 32 for size, flags, _, _ in nodes]
                pending += [(child, depth + 1) for child in reversed(children)]
                continue
            for size, flags, key, begin in nodes:
                value = self._value(page, size, flags, begin)
                if value is None:
                    self.problems.append((table, f"the value of key {key.hex()} cannot be read"))
                else:
                    yield key, value, flags

    def scattered(self) -> Iterator[RawRecord]:
        """Yield what looks like a record on pages that no walk has reached.

        They are lost ones, and old ones that the pages' next use has not overwritten yet: without
        its checksum none is to be believed, and with it, it may have been changed since.
        """
        for page in self._unreached(LEAF):
            for size, flags, key, begin in nodes_of(page):
                value = self._value(page, size, flags, begin)
                if value is not None:
                    yield RawRecord(key, value)
                    if log.is_log(key):
                        said = _logged(key, value)
                        for _, name, new in () if said is None else said[1]:
                            if new is not None:
                                yield RawRecord(name, new)

    def scattered_values(self) -> Iterator[bytes]:
        """Yield what lies on overflow pages that nothing leads to, each with what follows it."""
        for page in self._unreached(OVERFLOW):
            number = _NUMBER.unpack_from(page)[0]
            pages = min(_PAGES.unpack_from(page, 12)[0], self.page_count - number, MOST_PAGES)
            size = pages * self._page_size - PAGE_HEADER
            if size > 0:
                yield os.pread(self._descriptor, size, number * self._page_size + PAGE_HEADER)

    def _unreached(self, kind: int) -> Iterator[bytes]:
        reached = set(self._seen)
        for number in range(2, self.page_count):
            page = None if number in reached else self._page(number)
            if page is not None and page_head(page)[0] & kind:
                yield page


def _logged(key: bytes, record: bytes) -> tuple[log.Place, list[log.Change]] | None:
    """What a record of the log says, None if it is damaged."""
    try:
        return log.decode(key, record)
    except CorruptionError:
        return None


# -- blocks ------------------------------------------------------------------------------------


class SoundRecord(NamedTuple):
    """A record whose checksum holds: a document, or an item of one width without its key."""

    number: int
    key: bytes
    item: bytes
    metadata: bytes


def records_in(block: Block, codec: Codec) -> list[SoundRecord]:
    """The records of a block whose checksums hold; the codec reads those that are compressed."""
    if block.width:
        rows = (bytes(block.record(place)) for place in range(block.numbers.size))
        numbered = zip(block.numbers.tolist(), rows, strict=True)
        return [SoundRecord(number, b"", item, b"") for number, item in numbered]
    documents = (_document(block, place, codec) for place in range(block.numbers.size))
    return [document for document in documents if document is not None]


def _document(block: Block, place: int, codec: Codec) -> SoundRecord | None:
    number = int(block.numbers[place])
    try:
        document = layout.decode_document(number, block.verified_record(place), lambda: codec)
    except (CorruptionError, struct.error, ValueError):
        return None
    found = SoundRecord(number, *map(bytes, document[1:]))
    return found if is_user_key(found.key) else None


def is_user_key(encoded: bytes) -> bool:
    """Whether bytes are an encoded key."""
    try:
        layout.decode_user_key(encoded)
    except CorruptionError:
        return False
    return True


def block_of(key: bytes, value: bytes, width: int = 0) -> Block | None:
    """A block as it stands in a damaged file; None if it is none of items of that width.

    Width 0 stands for documents: the head is not verified then, since each record has a checksum
    of its own, which names its number too.
    """
    content = memoryview(value)
    try:
        if width:
            layout.unseal(Table.ITEMS, key, content)
        return split_block(key, content, width)[0]
    except (struct.error, ValueError, IndexError, CorruptionError):
        return None


def block_within(owner: int, content: bytes, width: int = 0) -> Block | None:
    """The block of an owner that content begins with, as ``block_of`` reads it, or None.

    For values whose keys are lost: the checksum, or the first record's, tells whose it is.
    """
    try:
        count, _, first = _BLOCK.unpack_from(content)
        size = HEADER_SIZE + 4 * (count + count % 2) + count * width
        if not width:
            size += 16 * count + _NUMBER.unpack_from(content, size + 8 * (count - 1))[0]
        block = block_of(layout.pack_numbered(owner, first), content[:size], width)
        if block is not None and not width:
            block.verified_record(0)
    except (struct.error, CorruptionError):
        return None
    return block
