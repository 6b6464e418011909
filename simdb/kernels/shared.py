"""A shared library of one object file, made without a linker: ELF for x86-64.

LLVM gives an object file, and a linker may not be there. What is linked is the code of one kernel
that names nothing of its own by its address from elsewhere, so little is to be done: sections are
laid out by what may be done with them (read, run, written), places that refer to others are filled
in, and what is outside (``malloc``, functions of Python) is left to the loader. Numbers are those
of the System V ABI (AMD64 supplement) and of its chapter on object files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

PAGE = 4096
_READ, _WRITE, _RUN = 4, 2, 1
# Kinds of sections and flags of them.
_SYMBOLS, _RELOCATIONS, _ZEROES = 2, 4, 8
_IS_WRITTEN, _IS_LOADED, _IS_RUN = 1, 2, 4
# Kinds of relocations: an address, one relative to the place, by a table of addresses, and those of
# the loader.
_ABSOLUTE, _RELATIVE_TO_PLACE, _BY_STUB = 1, 2, 4
_BY_TABLE = {9, 41, 42}
_SET_SYMBOL, _SET_BASE = 6, 8
_STUB = b"\xff\x25"  # jmp *(rip + distance)
_SUB_WORD = 24  # bytes of a symbol, and of a relocation
_HEADER, _PROGRAM_HEADER, _SECTION_HEADER = 64, 56, 64


class NotLinkableError(Exception):
    """An object file with what is not expected of a kernel."""


@dataclass
class _Section:
    """A section of the object file, and where it comes to lie."""

    name: str
    kind: int
    flags: int
    data: bytearray
    alignment: int
    link: int
    info: int
    address: int = 0


@dataclass(frozen=True)
class _Symbol:
    """A symbol: where it is, or section 0 if it is elsewhere."""

    name: str
    section: int
    value: int


@dataclass
class _Part:
    """What is loaded with the same rights."""

    rights: int
    data: bytearray = field(default_factory=bytearray)
    address: int = 0

    def add(self, data: bytes, alignment: int) -> int:
        """Append bytes; return where in the part."""
        self.data += bytes(-len(self.data) % max(1, alignment))
        self.data += data
        return len(self.data) - len(data)


def shared_object(built: bytes, exported: set[str], may_be_outside: Callable[[str], bool]) -> bytes:
    """Link an object file into a shared library that exports some of its symbols.

    Raises:
        NotLinkableError: it is of another machine, or has what is not expected, or names what may
            not be outside.
    """
    sections, symbols = _read(built)
    parts = {rights: _Part(rights) for rights in (_READ, _READ | _RUN, _READ | _WRITE)}
    placed: list[tuple[_Section, _Part, int]] = []
    for section in sections:
        if section.flags & _IS_LOADED and section.name != ".eh_frame":
            part = parts[_rights(section.flags)]
            placed.append((section, part, part.add(section.data, section.alignment)))
    relocations = _relocations(sections)
    stubs, table = {}, {}  # of symbols, where in their parts
    for _, _, kind, which, _ in relocations:
        symbol = symbols[which]
        if (kind == _BY_STUB and not symbol.section) or kind in _BY_TABLE:
            if symbol not in table:
                table[symbol] = parts[_READ | _WRITE].add(bytes(8), 8)
            if kind == _BY_STUB and symbol not in stubs:
                stubs[symbol] = parts[_READ | _RUN].add(bytes(8), 8)
    outside = sorted({symbols[one[3]].name for one in relocations if not symbols[one[3]].section})
    unknown = [name for name in outside if not may_be_outside(name)]
    if unknown:
        raise NotLinkableError(f"{', '.join(unknown)} is not known")
    at_load = sum(one[2] == _ABSOLUTE for one in relocations) + len(table)
    names, hashes, places = _tables(outside, exported)
    in_read = parts[_READ]
    name_place = in_read.add(names, 8)
    hash_place = in_read.add(hashes, 8)
    symbol_place = in_read.add(bytes(_SUB_WORD * len(places)), 8)
    load_place = in_read.add(bytes(_SUB_WORD * at_load), 8)
    dynamic_place = parts[_READ | _WRITE].add(bytes(16 * 9), 8)
    _lay_out(parts)
    for section, part, place in placed:
        section.address = part.address + place
    address_of = {one: sections[one.section].address + one.value for one in symbols if one.section}
    written, code = parts[_READ | _WRITE], parts[_READ | _RUN]
    for symbol, place in stubs.items():
        distance = written.address + table[symbol] - (code.address + place + 6)
        code.data[place : place + 6] = _STUB + struct.pack("<i", distance)
    order = {name: number for number, name in enumerate(places)}
    loads = []
    for symbol, place in table.items():
        where = written.address + place
        if symbol.section:
            loads.append((where, _SET_BASE, address_of[symbol]))
        else:
            loads.append((where, order[symbol.name] << 32 | _SET_SYMBOL, 0))
    by_section = {id(section): (part, place) for section, part, place in placed}
    for section, offset, kind, which, addend in relocations:
        symbol = symbols[which]
        part, start = by_section[id(section)]
        place = section.address + offset
        if kind == _ABSOLUTE:
            if symbol.section:
                loads.append((place, _SET_BASE, address_of[symbol] + addend))
            else:
                loads.append((place, order[symbol.name] << 32 | _ABSOLUTE, addend))
            continue
        if kind in _BY_TABLE:
            target = written.address + table[symbol]
        elif not symbol.section:
            target = code.address + stubs[symbol]
        else:
            target = address_of[symbol]
        distance = target + addend - place
        part.data[start + offset : start + offset + 4] = struct.pack("<i", distance)
    _put(in_read, load_place, b"".join(struct.pack("<QQq", *one) for one in loads))
    by_name = {one.name: one for one in symbols if one.section}
    offsets = _offsets_of(names)
    described = [bytes(_SUB_WORD)]
    for name in [*places][1:]:
        symbol = by_name.get(name)
        address = 0 if symbol is None else address_of[symbol]
        # Of any section but 0: only that is asked for.
        described.append(
            struct.pack("<IBBHQQ", offsets[name], 0x10, 0, 0 if symbol is None else 1, address, 0)
        )
    _put(in_read, symbol_place, b"".join(described))
    at = in_read.address
    entries = (
        *((4, at + hash_place), (5, at + name_place), (6, at + symbol_place), (10, len(names))),
        *((11, _SUB_WORD), (7, at + load_place), (8, _SUB_WORD * len(loads)), (9, _SUB_WORD)),
        (0, 0),
    )
    _put(written, dynamic_place, b"".join(struct.pack("<QQ", *one) for one in entries))
    return _file(parts, written.address + dynamic_place, 16 * len(entries))


def _rights(flags: int) -> int:
    if flags & _IS_RUN:
        return _READ | _RUN
    return _READ | _WRITE if flags & _IS_WRITTEN else _READ


def _put(part: _Part, place: int, data: bytes) -> None:
    part.data[place : place + len(data)] = data


def _text(data: bytes | bytearray, start: int) -> str:
    return bytes(data[start : data.index(0, start)]).decode()


def _read(built: bytes) -> tuple[list[_Section], list[_Symbol]]:
    """Read the sections and the symbols of an object file."""
    if built[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", built, 16) != (1, 62):
        raise NotLinkableError("not an object file for x86-64")
    (start,) = struct.unpack_from("<Q", built, 40)
    count, names_number = struct.unpack_from("<HH", built, 60)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", built, start + _SECTION_HEADER * number)
        for number in range(count)
    ]
    names = built[headers[names_number][4] :]
    sections = []
    for name, kind, flags, _, offset, size, link, info, alignment, _ in headers:
        data = bytearray(size) if kind == _ZEROES else bytearray(built[offset : offset + size])
        title = _text(names, name)
        sections.append(_Section(title, kind, flags, data, alignment, link, info))
    symbols = []
    for table in sections:
        if table.kind == _SYMBOLS:
            strings = sections[table.link].data
            for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", table.data):
                if section >= 0xFF00 and _text(strings, name) and section != 0xFFF1:
                    raise NotLinkableError(f"a symbol of section {section}")
                known = section if section < 0xFF00 else 0
                symbols.append(_Symbol(_text(strings, name), known, value))
    return sections, symbols


def _relocations(sections: list[_Section]) -> list[tuple[_Section, int, int, int, int]]:
    """List the places of loaded sections to fill in: section, offset, kind, symbol and addend."""
    found = []
    for table in sections:
        if table.kind != _RELOCATIONS:
            continue
        of = sections[table.info]
        if not of.flags & _IS_LOADED or of.name == ".eh_frame":
            continue
        for offset, what, addend in struct.iter_unpack("<QQq", table.data):
            kind = what & 0xFFFFFFFF
            if kind not in {_ABSOLUTE, _RELATIVE_TO_PLACE, _BY_STUB, *_BY_TABLE}:
                raise NotLinkableError(f"a relocation of kind {kind}")
            found.append((of, offset, kind, what >> 32, addend))
    return found


def _tables(outside: list[str], exported: set[str]) -> tuple[bytes, bytes, dict[str, int]]:
    """Make the names, the table that finds them by their hash, and their order."""
    places = {name: number for number, name in enumerate(["", *outside, *sorted(exported)])}
    names = b"".join(name.encode() + b"\0" for name in places)
    # One bucket: a chain of all, from the last to none.
    chain = [0, *range(len(places) - 1)]
    hashes = struct.pack(f"<{3 + len(chain)}I", 1, len(chain), len(chain) - 1, *chain)
    return names, hashes, places


def _offsets_of(names: bytes) -> dict[str, int]:
    offsets, place = {}, 0
    for name in names.split(b"\0")[:-1]:
        offsets[name.decode()] = place
        place += len(name) + 1
    return offsets


def _lay_out(parts: dict[int, _Part]) -> None:
    """Give each part pages of its own, at the same place in the file as in memory."""
    place = PAGE  # the headers have the first
    for part in parts.values():
        part.address = place
        place += -(-len(part.data) // PAGE) * PAGE


def _file(parts: dict[int, _Part], dynamic: int, size: int) -> bytes:
    used = [part for part in parts.values() if part.data]
    headers = [struct.pack("<IIQQQQQQ", 1, _READ, 0, 0, 0, PAGE, PAGE, PAGE)]
    for part in used:
        length, where = len(part.data), part.address
        headers.append(struct.pack("<IIQQQQQQ", 1, part.rights, *[where] * 3, length, length, PAGE))
    rights = _READ | _WRITE
    headers.append(struct.pack("<IIQQQQQQ", 2, rights, *[dynamic] * 3, size, size, 8))
    headers.append(struct.pack("<IIQQQQQQ", 0x6474E551, rights, 0, 0, 0, 0, 0, 16))  # the stack
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH",
        3,
        62,
        1,
        0,
        _HEADER,
        0,
        0,
        _HEADER,
        _PROGRAM_HEADER,
        len(headers),
        64,
        0,
        0,
    )
    image = bytearray(head + b"".join(headers))
    for part in used:
        image += bytes(part.address - len(image))
        image += part.data
    return bytes(image)
