"""Packed bit vectors: distances, scans for the similar ones, set bits, and sampled bits.

Vectors are rows of ``words`` uint64, equal numbers of words in all. Bit i of a vector is bit
``7 - i % 8`` of its byte ``i // 8``, as ``np.packbits`` has it, and its bytes lie in little-endian
words. Bits past the length of a vector are zero.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Int64s, UInt16s, UInt64s
from simdb.kernels.columns import appended
from simdb.kernels.compiler import inlined, kernel, set_bit_count, words_at
from simdb.kernels.hashes import mixed

_ONE = np.uint64(1)
_LANES = 16  # first words that are compared without a branch
_BLOCK = 256  # vectors that are looked at together
_PART = 8_192  # vectors that room is kept for
_WORD_BITS = 16  # of a word of a signature


@inlined
def _place_of(position: np.int64) -> tuple[np.int64, np.uint64]:
    """Return the word of a bit, and how far it lies from the word's lowest bit."""
    within = position & np.int64(63)
    shift = (within & np.int64(56)) | (np.int64(7) - (within & np.int64(7)))
    return position >> np.int64(6), np.uint64(shift)


@kernel
def counts_of_rows(vectors: UInt64s) -> Int64s:
    """Count the set bits of each vector."""
    counts = np.empty(vectors.shape[0], np.int64)
    for row in range(vectors.shape[0]):
        vector = vectors[row]
        count = np.int64(0)
        for word in range(vector.size):
            count += set_bit_count(vector[word])
        counts[row] = count
    return counts


@kernel
def compare_rows(
    left: UInt64s, right: UInt64s, left_rows: Int64s, right_rows: Int64s
) -> tuple[Int64s, Int64s]:
    """Compare vector ``left_rows[i]`` of ``left`` with ``right_rows[i]`` of ``right``.

    Returns:
        how many bits both have set; how many one or the other has.
    """
    common = np.empty(left_rows.size, np.int64)
    united = np.empty(left_rows.size, np.int64)
    for pair in range(left_rows.size):
        one, other = left[left_rows[pair]], right[right_rows[pair]]
        both = np.int64(0)
        either = np.int64(0)
        for word in range(one.size):
            both += set_bit_count(one[word] & other[word])
            either += set_bit_count(one[word] | other[word])
        common[pair] = both
        united[pair] = either
    return common, united


@inlined
def _near_in(
    probe: UInt64s, vectors: UInt64s, limit: int, rows: Int64s, distances: Int64s
) -> np.int64:
    """Write the rows of the near vectors, and their distances; return how many they are."""
    count = vectors.shape[0]
    found = np.int64(0)
    if probe.size == 1:  # several at once by the processor, and few are near
        for begin in range(0, count, _BLOCK):
            end = min(begin + _BLOCK, count)
            nearest = np.int64(64)
            for row in range(begin, end):
                nearest = min(nearest, set_bit_count(vectors[row, 0] ^ probe[0]))
            if nearest > limit:
                continue
            for row in range(begin, end):
                distance = set_bit_count(vectors[row, 0] ^ probe[0])
                if distance <= limit:
                    rows[found] = row
                    distances[found] = distance
                    found += 1
        return found
    for row in range(count):
        distance = np.int64(0)
        for word in range(probe.size):
            distance += set_bit_count(vectors[row, word] ^ probe[word])
        if distance <= limit:
            rows[found] = row
            distances[found] = distance
            found += 1
    return found


@kernel
def scan_hamming(
    probe: UInt64s, counts: Int64s, addresses: Int64s, limit: int, most: int
) -> tuple[Int64s, Int64s]:
    """Find every vector in which at most ``limit`` bits differ from the probe's.

    Args:
        probe: the words of a vector.
        counts: of the vectors in each piece of memory.
        addresses: where the words of these begin, one vector after another.
        most: how many of the nearest are wanted, and what is as near as the last of them; some that
            are farther are left out then. All are wanted if it is 0.

    Returns:
        their rows, counted through all pieces, rising; their Hamming distances.
    """
    # Few are near: to ask the system for room for all takes longer than to look at them.
    rows, distances = np.empty(_PART, np.int64), np.empty(_PART, np.int64)
    all_rows, all_distances = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    at = np.zeros(64 * probe.size + 1, np.int64)  # how many there are at each distance
    within = np.int64(0)  # how many there are within the limit
    nearest = np.int64(limit)
    total = np.int64(0)
    before = np.int64(0)
    size = _BLOCK if most else _PART  # the first few tell where the nearest must be
    for piece in range(counts.size):
        vectors = words_at(addresses[piece], counts[piece], probe.size)
        begin = np.int64(0)
        while begin < counts[piece]:
            part = vectors[begin : min(begin + size, counts[piece])]
            found = _near_in(probe, part, nearest, rows, distances)
            all_rows = appended(all_rows, total, rows, found, before + begin)
            all_distances = appended(all_distances, total, distances, found, 0)
            total += found
            begin += size
            size = min(2 * size, _PART)
            if most:
                for place in range(found):
                    at[distances[place]] += 1
                within += found
                while within - at[nearest] >= most:
                    within -= at[nearest]
                    nearest -= 1
        before += counts[piece]
    return all_rows[:total].copy(), all_distances[:total].copy()


@kernel
def scan_tanimoto(
    probe: UInt64s, vectors: UInt64s, needed: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Find every vector that has enough set bits in common with the probe.

    ``needed`` says how many must be common to two vectors that have so many set in all.

    Returns:
        their rows, rising; the common set bits; the bits that one or the other has set.
    """
    probe_count = np.int64(0)
    for word in range(probe.size):
        probe_count += set_bit_count(probe[word])
    rows = np.empty(vectors.shape[0], np.int64)
    common = np.empty(vectors.shape[0], np.int64)
    united = np.empty(vectors.shape[0], np.int64)
    found = 0
    for row in range(vectors.shape[0]):
        vector = vectors[row]
        both = np.int64(0)
        total = probe_count
        # Its own set bits are counted in the same reading: memory is what a scan waits for.
        for word in range(probe.size):
            both += set_bit_count(vector[word] & probe[word])
            total += set_bit_count(vector[word])
        if both >= needed[total]:
            rows[found] = row
            common[found] = both
            united[found] = total - both
            found += 1
    return rows[:found].copy(), common[:found].copy(), united[:found].copy()


@kernel
def scan_columns(
    probe: UInt64s,
    columns: UInt64s,
    counts: Int64s,
    start: int,
    stop: int,
    words: Int64s,
    needed: Int64s,
) -> tuple[Int64s, Int64s]:
    """Find every vector of a range that has enough set bits in common with the probe.

    Vectors lie side by side, word by word, so that some are compared in one instruction. When what
    is left of the probe cannot make any of a block similar enough, the rest of it is not read.

    Args:
        probe: its words.
        columns: (words, n), the vectors by rising numbers of set bits.
        counts: these numbers.
        start, stop: which vectors are looked at.
        words: in which order; all that are not 0 in the probe.
        needed: how many set bits must be common to two vectors that have so many in all.

    Returns:
        their places, by rising numbers of set bits; the common set bits.
    """
    left = np.empty(words.size + 1, np.int64)  # set bits of the probe from each word on
    left[words.size] = 0
    for turn in range(words.size - 1, -1, -1):
        left[turn] = left[turn + 1] + set_bit_count(probe[words[turn]])
    places = np.empty(stop - start, np.int64)
    common = np.empty(stop - start, np.int64)
    both = np.empty(_BLOCK, np.int64)
    found = 0
    for begin in range(start, stop, _BLOCK):
        size = min(_BLOCK, stop - begin)
        both[:size] = 0
        least, most = needed[left[0] + counts[begin]], left[0]
        for turn in range(words.size):
            column = columns[words[turn], begin : begin + size]
            word = probe[words[turn]]
            best = np.int64(0)
            for lane in range(size):
                both[lane] += set_bit_count(column[lane] & word)
                best = max(best, both[lane])
            most = best + left[turn + 1]
            if most < least:
                break
        if most < least:
            continue
        for lane in range(size):
            if both[lane] >= needed[left[0] + counts[begin + lane]]:
                places[found] = begin + lane
                common[found] = both[lane]
                found += 1
    return places[:found].copy(), common[:found].copy()


@kernel
def near_pairs(
    ones: UInt64s,
    others: UInt64s,
    starts: Int64s,
    stops: Int64s,
    earlier: UInt64s,
    limit: int,
    most: int,
    state: Int64s,
    left: Int64s,
    right: Int64s,
    distances: Int64s,
) -> int:
    """List near pairs of vectors that are equal in one chunk of their bits, and in none before.

    Until the room is full, or so many words are looked at, and those of the last row, however few
    are near.

    Args:
        ones, others: vectors of both sides, (n, words), sorted by the chunk; may be one array.
        starts, stops: of each of ``ones`` which of the others are looked at.
        earlier: (chunks, words), a mask of the bits of each chunk before.
        limit: the largest distance.
        most: words of the others after which this call goes on with no further row, and compares
            no further pair in full.
        state: row of ``ones`` and of the others to go on at; zeros at first, ``len(ones)`` and any
            when all is done.
        left, right, distances: room for rows of both sides and in how many bits they differ.

    Returns:
        how many pairs were written.
    """
    # First words lie side by side, and tell of most pairs: the loop over them reads nothing else.
    heads, other_heads = ones[:, 0].copy(), others[:, 0].copy()
    row, place = state[0], state[1]
    count = looked_at = 0
    while row < heads.size and looked_at < most:
        head, stop = heads[row], stops[row]
        place = max(place, starts[row])
        begun = place
        while place < stop:
            if stop - place >= _LANES:
                # Without a branch in it this is compiled to vector instructions, and says of most
                # blocks that nothing is near.
                near = 0
                for one in other_heads[place : place + _LANES]:
                    near += set_bit_count(head ^ one) <= limit
                if near == 0:
                    place += _LANES
                    continue
            while place < stop and set_bit_count(head ^ other_heads[place]) > limit:
                place += 1
            if place >= stop:
                break
            if count == left.size or looked_at >= most:
                state[0], state[1] = row, place
                return count
            looked_at += (1 + earlier.shape[0]) * ones.shape[1]
            distance = np.int64(0)
            for word in range(ones.shape[1]):
                distance += set_bit_count(ones[row, word] ^ others[place, word])
            # Equal in an earlier chunk too, a pair has come out there already.
            is_first = distance <= limit
            for chunk in range(earlier.shape[0]):
                apart = np.uint64(0)
                for word in range(ones.shape[1]):
                    apart |= (ones[row, word] ^ others[place, word]) & earlier[chunk, word]
                is_first = is_first and apart != np.uint64(0)
            if is_first:
                left[count], right[count], distances[count] = row, place, distance
                count += 1
            place += 1
        looked_at += max(stop - begun, 0)
        row += 1
        place = 0
    state[0], state[1] = row, place
    return count


@kernel
def bit_symbols(vectors: UInt64s, length: int, secret: np.uint64) -> tuple[UInt64s, Int64s]:
    """Give a symbol for every set bit, by rising position, and the offsets of vectors.

    A symbol is the position under a keyed bijection of 64 bits.
    """
    counts = counts_of_rows(vectors)
    offsets = np.zeros(vectors.shape[0] + 1, np.int64)
    for row in range(vectors.shape[0]):
        offsets[row + 1] = offsets[row] + counts[row]
    values = np.empty(offsets[vectors.shape[0]], np.uint64)
    symbols = np.empty(length, np.uint64)
    for position in range(length):
        symbols[position] = mixed(np.uint64(position), secret)
    for row in range(vectors.shape[0]):
        filled = offsets[row]
        for position in range(length):
            word, shift = _place_of(np.int64(position))
            if (vectors[row, word] >> shift) & _ONE and filled < offsets[row + 1]:
                values[filled] = symbols[position]
                filled += 1
    return values, offsets


@kernel
def sampled_bits(vectors: UInt64s, positions: Int64s, bands: int) -> UInt16s:
    """Pack the bits at some positions band by band into words of 16 (MMDS 3.7.1).

    Args:
        vectors: (n, words).
        positions: (bands * rows,), each below 64 * words.
        bands: into how many equal parts the positions fall.

    Returns:
        (n, bands * (rows // 16 + 1)): bit j of a band is bit j % 16 of its word j // 16; the bit
        after its last is set, so that no band is zero.
    """
    rows = positions.size // bands
    width = rows // _WORD_BITS + 1
    signatures = np.zeros((vectors.shape[0], bands * width), np.uint16)
    words = np.empty(positions.size, np.int64)
    shifts = np.empty(positions.size, np.uint64)
    for function in range(positions.size):
        words[function], shifts[function] = _place_of(positions[function])
    for item in range(vectors.shape[0]):
        for function in range(positions.size):
            band, row = function // rows, function % rows
            bit = (vectors[item, words[function]] >> shifts[function]) & _ONE
            signatures[item, band * width + row // _WORD_BITS] |= np.uint16(
                bit << np.uint64(row % _WORD_BITS)
            )
        for band in range(bands):
            marker = np.uint16(1 << (rows % _WORD_BITS))
            signatures[item, band * width + rows // _WORD_BITS] |= marker
    return signatures
