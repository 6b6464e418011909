"""XXH3 with 64 bits and a seed, the checksum of the file format, of many records in one call.

The algorithm and its constants are those of the specification of xxHash (Y. Collet, version 0.2.0).
What these return is what the ``xxhash`` package does.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt64s
from simdb.kernels.compiler import (
    add_stripe,
    high_product,
    inlined,
    kernel,
    load_uint8,
    load_uint32,
    load_uint64,
)

# fmt: off
_SECRET = np.array([
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072,
    0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82, 0x8E2443F7744608B8, 0x4C263A81E69035E0,
    0xCB00C391BB52283C, 0xA32E531B8B65D088, 0x4EF90DA297486471, 0xD8ACDEA946EF1938,
    0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A, 0x647378D9C97E9FC8,
    0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5, 0x49DAF0B751DD0D17, 0x9E68D429265516D3,
    0xFCA1477D58BE162B, 0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF,
], np.uint64)
_FIRST_SUMS = np.array([
    0x00000000C2B2AE3D, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
    0x85EBCA77C2B2AE63, 0x0000000085EBCA77, 0x27D4EB2F165667C5, 0x000000009E3779B1,
], np.uint64)
# fmt: on
_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_32 = np.uint64(0x9E3779B1)
_MIX_1 = np.uint64(0x165667919E3779F9)
_MIX_2 = np.uint64(0x9FB21C651E98DF25)
_LOW_HALF = np.uint64((1 << 32) - 1)
_STRIPE = 64  # bytes
_STRIPES_OF_BLOCK = 16


@inlined
def _turned(word: np.uint64, bits: int) -> np.uint64:
    """Return a word turned to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _shifted(word: np.uint64, bits: int) -> np.uint64:
    """Return a word whose high bits are mixed into its low ones."""
    return word ^ (word >> np.uint64(bits))


@inlined
def _reversed(word: np.uint64) -> np.uint64:
    """Return a word with its bytes in the opposite order."""
    mask = np.uint64(0x00FF00FF00FF00FF)
    word = ((word >> np.uint64(8)) & mask) | ((word & mask) << np.uint64(8))
    mask = np.uint64(0x0000FFFF0000FFFF)
    word = ((word >> np.uint64(16)) & mask) | ((word & mask) << np.uint64(16))
    return _turned(word, 32)


@inlined
def _folded(left: np.uint64, right: np.uint64) -> np.uint64:
    """Return both halves of a product, mixed."""
    return (left * right) ^ high_product(left, right)


@kernel
def _finished(word: np.uint64) -> np.uint64:
    """Return a sum whose every bit depends on every bit."""
    return _shifted(_shifted(word, 37) * _MIX_1, 32)


@kernel
def _mixed(data: int, secret: int, seed: np.uint64) -> np.uint64:
    """Return the mix of 16 bytes with 16 bytes of the secret; both are addresses."""
    return _folded(
        load_uint64(data, 0) ^ (load_uint64(secret, 0) + seed),
        load_uint64(data, 1) ^ (load_uint64(secret, 1) - seed),
    )


@kernel
def _of_few(address: int, size: int, seed: np.uint64) -> np.uint64:
    """Return the checksum of at most 16 bytes."""
    length = np.uint64(size)
    if size > 8:
        low = load_uint64(address, 0) ^ ((_SECRET[3] ^ _SECRET[4]) + seed)
        high = load_uint64(address + size - 8, 0) ^ ((_SECRET[5] ^ _SECRET[6]) - seed)
        return _finished(length + _reversed(low) + high + _folded(low, high))
    if size >= 4:
        spread = seed ^ (_reversed(seed & _LOW_HALF) & ~_LOW_HALF)
        first = np.uint64(load_uint32(address, 0))
        last = np.uint64(load_uint32(address + size - 4, 0))
        word = (last + (first << np.uint64(32))) ^ ((_SECRET[1] ^ _SECRET[2]) - spread)
        word ^= _turned(word, 49) ^ _turned(word, 24)
        word *= _MIX_2
        word ^= (word >> np.uint64(35)) + length
        return _shifted(word * _MIX_2, 28)
    if size > 0:
        word = np.uint64(load_uint8(address, size - 1)) | (length << np.uint64(8))
        word |= np.uint64(load_uint8(address, 0)) << np.uint64(16)
        word |= np.uint64(load_uint8(address, size >> 1)) << np.uint64(24)
        word ^= ((_SECRET[0] & _LOW_HALF) ^ (_SECRET[0] >> np.uint64(32))) + seed
    else:
        word = seed ^ _SECRET[7] ^ _SECRET[8]
    word = _shifted(word, 33) * _PRIME_2
    return _shifted(_shifted(word, 29) * _PRIME_3, 32)


@kernel
def _of_some(address: int, secret: int, size: int, seed: np.uint64) -> np.uint64:
    """Return the checksum of 17 to 240 bytes; both are addresses."""
    total = np.uint64(size) * _PRIME_1
    end = address + size
    if size <= 128:
        for pair in range((size - 1) // 32 + 1):
            total += _mixed(address + 16 * pair, secret + 32 * pair, seed)
            total += _mixed(end - 16 * (pair + 1), secret + 32 * pair + 16, seed)
        return _finished(total)
    for part in range(8):
        total += _mixed(address + 16 * part, secret + 16 * part, seed)
    total = _finished(total)
    for part in range(8, size // 16):
        total += _mixed(address + 16 * part, secret + 16 * (part - 8) + 3, seed)
    return _finished(total + _mixed(end - 16, secret + 119, seed))


@kernel
def _of_many(address: int, size: int, seed: np.uint64, own: UInt64s, sums: UInt64s) -> np.uint64:
    """Return the checksum of more than 240 bytes; ``own`` and ``sums`` are room for it."""
    for word in range(0, _SECRET.size, 2):
        own[word] = _SECRET[word] + seed
        own[word + 1] = _SECRET[word + 1] - seed
    for lane in range(8):
        sums[lane] = _FIRST_SUMS[lane]
    secret, sums_at = own.ctypes.data, sums.ctypes.data
    stripes = (size - 1) // _STRIPE
    for stripe in range(stripes):
        within = stripe % _STRIPES_OF_BLOCK
        add_stripe(sums_at, address + _STRIPE * stripe, secret + 8 * within)
        if within == _STRIPES_OF_BLOCK - 1:
            for lane in range(8):
                sums[lane] = (_shifted(sums[lane], 47) ^ own[16 + lane]) * _PRIME_32
    add_stripe(sums_at, address + size - _STRIPE, secret + 121)
    total = np.uint64(size) * _PRIME_1
    for pair in range(4):
        key = secret + 11 + 16 * pair
        total += _folded(
            sums[2 * pair] ^ load_uint64(key, 0), sums[2 * pair + 1] ^ load_uint64(key, 1)
        )
    return _finished(total)


@kernel
def checksum(address: int, size: int, seed: np.uint64, own: UInt64s, sums: UInt64s) -> np.uint64:
    """Return the checksum of some bytes, given by their address.

    ``own`` and ``sums`` are room for it, of 24 and 8 words, which it leaves with what it likes.
    """
    if size <= 16:
        return _of_few(address, size, seed)
    if size <= 240:
        return _of_some(address, _SECRET.ctypes.data, size, seed)
    return _of_many(address, size, seed, own, sums)


@kernel
def checksums(data: UInt8s, begins: Int64s, ends: Int64s, seeds: UInt64s) -> UInt64s:
    """Return the checksum of each of some strings of bytes, under a seed each."""
    found = np.empty(begins.size, np.uint64)
    own, sums = np.empty(24, np.uint64), np.empty(8, np.uint64)
    at = data.ctypes.data
    for place in range(begins.size):
        begin, size = begins[place], ends[place] - begins[place]
        found[place] = checksum(at + begin, size, seeds[place], own, sums)
    return found
