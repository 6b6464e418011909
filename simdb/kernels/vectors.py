"""Vectors of float32: their distances, scans for the near ones, and projections onto directions.

Every sum runs over the components in one fixed order, so that a distance is the same in whatever
batch and on whatever machine it is computed (MMDS 3.5.2, 3.5.4). Differences of float32 in float64
lose at most the last bit.

The projection of a vector onto a direction *is* the sum that ``product`` computes, and the words of
signatures follow from it (MMDS 3.7.2, 3.7.4). A matrix product of a library is only near it, and
nearer or farther by the number of items in the batch, so a signature must not depend on it. It is
used where it is sure: every kernel is given a bound of its error, and computes ``product`` where
the bound leaves a doubt. So equal vectors have equal signatures, in every batch and on every
machine.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Float32s, Float64s, Floats, Int64s, UInt16s, UInt32s
from simdb.kernels.columns import appended, replace_greatest
from simdb.kernels.compiler import in_any_order, inlined, kernel, singles_at

ANGLE, EUCLIDEAN, MANHATTAN, MAXIMUM = range(4)

LANES = 32  # sums kept side by side: what the widest vector units add at once, twice
_DEGREES = 180.0 / np.pi


@kernel
def _total(sums: Float64s) -> np.float64:
    """Return the sum of the lanes, in pairs that lie 16, 8, 4, 2 and 1 apart."""
    apart = LANES // 2
    while apart:
        for lane in range(apart):
            sums[lane] += sums[lane + apart]
        apart //= 2
    return np.float64(sums[0])


@kernel
def _square_of_difference(
    one: Float32s, other: Float32s, one_factor: float, other_factor: float, sums: Float64s
) -> np.float64:
    """Return the squared length of one_factor * one - other_factor * other."""
    sums[:] = 0.0
    whole = one.size - one.size % LANES
    for start in range(0, whole, LANES):
        left, right = one[start : start + LANES], other[start : start + LANES]
        for lane in range(LANES):
            apart = one_factor * np.float64(left[lane]) - other_factor * np.float64(right[lane])
            sums[lane] += apart * apart
    for place in range(whole, one.size):
        apart = one_factor * np.float64(one[place]) - other_factor * np.float64(other[place])
        sums[place - whole] += apart * apart
    return _total(sums)


@kernel
def _sum_of_differences(one: Float32s, other: Float32s, sums: Float64s) -> np.float64:
    """The distance of two vectors in all components together."""
    sums[:] = 0.0
    whole = one.size - one.size % LANES
    for start in range(0, whole, LANES):
        left, right = one[start : start + LANES], other[start : start + LANES]
        for lane in range(LANES):
            sums[lane] += abs(np.float64(left[lane]) - np.float64(right[lane]))
    for place in range(whole, one.size):
        sums[place - whole] += abs(np.float64(one[place]) - np.float64(other[place]))
    return _total(sums)


@kernel
def _largest_difference(one: Float32s, other: Float32s, largest: Float64s) -> np.float64:
    """The distance of two vectors in the component where they are farthest apart."""
    largest[:] = 0.0
    whole = one.size - one.size % LANES
    for start in range(0, whole, LANES):
        left, right = one[start : start + LANES], other[start : start + LANES]
        for lane in range(LANES):
            apart = abs(np.float64(left[lane]) - np.float64(right[lane]))
            largest[lane] = apart if apart > largest[lane] else largest[lane]
    for place in range(whole, one.size):
        apart = abs(np.float64(one[place]) - np.float64(other[place]))
        largest[0] = apart if apart > largest[0] else largest[0]
    for lane in range(LANES):
        largest[0] = largest[lane] if largest[lane] > largest[0] else largest[0]
    return np.float64(largest[0])


@kernel
def distance(one: Float32s, other: Float32s, measure: int, sums: Float64s) -> np.float64:
    """Return the distance of two vectors by the measure of that number.

    An angle is in degrees, 0 to 180, as 2 atan2(|x' - y'|, |x' + y'|) of x and y brought to one
    length (W. Kahan, How Futile are Mindless Assessments of Roundoff, 2006): the arc cosine has no
    digits left below a millionth of a degree. With a zero vector it is 0.
    """
    if measure == EUCLIDEAN:
        return np.float64(np.sqrt(_square_of_difference(one, other, 1.0, 1.0, sums)))
    if measure == MANHATTAN:
        return _sum_of_differences(one, other, sums)
    if measure == MAXIMUM:
        return _largest_difference(one, other, sums)
    # Each is multiplied by the length of the other, which brings both to one length undivided.
    one_length = np.sqrt(_square_of_difference(one, one, 1.0, 0.0, sums))
    other_length = np.sqrt(_square_of_difference(other, other, 1.0, 0.0, sums))
    apart = np.sqrt(_square_of_difference(one, other, other_length, one_length, sums))
    along = np.sqrt(_square_of_difference(one, other, other_length, -one_length, sums))
    return np.float64(2.0 * np.arctan2(apart, along) * _DEGREES)


@kernel
def compare_rows(
    left: Float32s, right: Float32s, left_rows: Int64s, right_rows: Int64s, measure: int
) -> Float64s:
    """Return the distances, float64 (m,), of vectors ``left_rows[i]`` and ``right_rows[i]``."""
    distances = np.empty(left_rows.size, np.float64)
    sums = np.empty(LANES, np.float64)
    for pair in range(left_rows.size):
        one, other = left[left_rows[pair]], right[right_rows[pair]]
        distances[pair] = distance(one, other, measure, sums)
    return distances


# -- scans ---------------------------------------------------------------------------------------

# Components between two looks at whether a vector is far already: a sum takes long to look at. To
# read half of each vector takes longer than to read them whole, which memory hands on before it is
# asked: so of groups of vectors some tell whether the others are read in parts.
AT_ONCE = 128
MAXIMA_AT_ONCE = 32
_GROUP = 256
_GROUPS_A_TRIAL = 16
_READ_IN_PARTS = 0.4  # at most, of the components, where reading stops at a look
_PART = 8_192  # vectors that room is kept for
_FIRST_PART = 256
_SINGLE = 2.0**-24  # half the distance of 1 from the next float32, and the least there is
_LEAST_SINGLE = 2.0**-149
_SHORTEST, _LONGEST = 1e-15, 1e15  # lengths whose squares float32 has with all its digits


@in_any_order
def _squares_apart(
    one: Float32s, others: Float32s, row: int, places: tuple[int, int]
) -> np.float32:
    total = np.float32(0)
    for place in range(np.uint64(places[0]), np.uint64(places[1])):
        apart = one[place] - others[row, place]
        total += apart * apart
    return total


@in_any_order
def _sizes_apart(one: Float32s, others: Float32s, row: int, places: tuple[int, int]) -> np.float32:
    total = np.float32(0)
    for place in range(np.uint64(places[0]), np.uint64(places[1])):
        total += abs(one[place] - others[row, place])
    return total


@in_any_order
def _largest_apart(
    one: Float32s, others: Float32s, row: int, places: tuple[int, int]
) -> np.float32:
    largest = np.float32(0)
    for place in range(np.uint64(places[0]), np.uint64(places[1])):
        apart = abs(one[place] - others[row, place])
        largest = apart if apart > largest else largest
    return largest


@in_any_order
def _product_about(one: Float32s, others: Float32s, row: int) -> tuple[np.float32, np.float32]:
    product, square = np.float32(0), np.float32(0)
    for place in range(one.size):
        product += one[place] * others[row, place]
        square += others[row, place] * others[row, place]
    return product, square


@inlined
def _read_until_far(
    one: Float32s, others: Float32s, row: int, measure: int, most: float
) -> tuple[int, bool]:
    """Return how many components are read, and whether they tell of more than the limit apart.

    ``most`` is the limit with what errors are allowed.
    """
    total = np.float32(0)
    step = MAXIMA_AT_ONCE if measure == MAXIMUM else AT_ONCE
    for begin in range(0, one.size, step):
        places = begin, min(begin + step, one.size)
        if measure == EUCLIDEAN:
            total += _squares_apart(one, others, row, places)
        elif measure == MANHATTAN:
            total += _sizes_apart(one, others, row, places)
        else:
            total = max(total, _largest_apart(one, others, row, places))
        if np.float64(total) > most:
            return places[1], True
    return one.size, False


@inlined
def _is_far(one: Float32s, others: Float32s, row: int, measure: int, most: float) -> bool:
    """Tell whether vectors are apart by more than the limit, when all of them is read."""
    if measure == EUCLIDEAN:
        return bool(np.float64(_squares_apart(one, others, row, (0, one.size))) > most)
    return bool(np.float64(_sizes_apart(one, others, row, (0, one.size))) > most)


@inlined
def _allowed(limit: float, dimension: int, measure: int) -> np.float64:
    """Return what a float32 sum of vectors within the limit cannot exceed; infinite if anything.

    Let u = 2^-24. A difference, its square and the sum of d of these in any order, fused or not,
    are off by at most g(d + 4) of the sum, g(n) = n u / (1 - n u) (Higham, Accuracy and Stability
    of Numerical Algorithms, 3.1), of which twice as much is allowed, since all its terms are at
    least 0; and each term by the least float32, where it is lost.
    """
    reached = limit * limit if measure == EUCLIDEAN else limit
    if not reached < _LONGEST**2:
        return np.float64(np.inf)
    lost = 2 * dimension * _LEAST_SINGLE
    return np.float64(reached * (1 + 2 * (dimension + 16) * _SINGLE) + lost)


@inlined
def _near_in(
    probe: Float32s, vectors: Float32s, measure: int, limit: float
) -> tuple[Int64s, Float64s, int]:
    """Return the rows of the near vectors, their distances, and how many they are."""
    rows = np.empty(vectors.shape[0], np.int64)
    distances = np.empty(vectors.shape[0], np.float64)
    sums = np.empty(LANES, np.float64)
    length = np.sqrt(_square_of_difference(probe, probe, 1.0, 0.0, sums))
    along = (probe / max(length, _SHORTEST)).astype(np.float32)
    # Of a unit vector and another, x, a product and the square of |x| are off by at most
    # g(d + 4) |x| and g(d + 4) |x|^2, and so is their quotient by less than twice as much.
    error = 4 * (probe.size + 16) * _SINGLE
    least = np.cos(min(limit, 180.0) / _DEGREES) - error
    shortest = _SHORTEST if length > _SHORTEST else np.inf  # of those told by it
    most = _allowed(limit, probe.size, measure)
    found = 0
    tries = measure != MAXIMUM and probe.size > AT_ONCE
    in_parts = tries or measure == MAXIMUM
    read = 0  # components, of a group
    for row in range(vectors.shape[0]):
        if tries and row % _GROUP == 0:
            if row % (_GROUP * _GROUPS_A_TRIAL) == 0:
                in_parts = True
            elif row % (_GROUP * _GROUPS_A_TRIAL) == _GROUP:  # after a trial
                in_parts = read <= _READ_IN_PARTS * _GROUP * probe.size
            read = 0
        if measure == ANGLE:
            product, square = _product_about(along, vectors, row)
            size = np.sqrt(np.float64(square))
            if shortest < size < _LONGEST and np.float64(product) < least * size:
                continue
        elif in_parts:
            count, is_far = _read_until_far(probe, vectors, row, measure, most)
            read += count
            if is_far:
                continue
        elif _is_far(probe, vectors, row, measure, most):
            continue
        value = distance(probe, vectors[row], measure, sums)
        if value <= limit:
            rows[found] = row
            distances[found] = value
            found += 1
    return rows, distances, found


@kernel
def scan(
    probe: Float32s, counts: Int64s, addresses: Int64s, measure: int, limit: float, most: int
) -> tuple[Int64s, Float64s]:
    """Find every vector at most ``limit`` from the probe, exactly as ``compare_rows`` has it.

    The distances are computed of vectors that one reading in float32, with a bound of its error,
    does not tell to be far.

    Args:
        probe: (d,).
        counts: of the vectors in each piece of memory.
        addresses: where the components of these begin, one vector after another.
        most: how many of the nearest are wanted, and what is as near as the last of them; some that
            are farther are left out then. All are wanted if it is 0.

    Returns:
        their rows, counted through all pieces, rising; their distances.
    """
    rows, distances = np.empty(0, np.int64), np.empty(0, np.float64)
    nearest = np.full(most, np.inf)  # the distances of so many, the greatest first: a heap
    total = 0
    before = np.int64(0)
    size = _FIRST_PART if most else _PART  # the first few tell where the nearest must be
    for piece in range(counts.size):
        vectors = singles_at(addresses[piece], counts[piece], probe.size)
        begin = np.int64(0)
        while begin < counts[piece]:
            part = vectors[begin : min(begin + size, counts[piece])]
            some, apart, found = _near_in(probe, part, measure, limit)
            rows = appended(rows, total, some, found, before + begin)
            distances = appended(distances, total, apart, found, 0)
            total += found
            begin += size
            size = min(2 * size, _PART)
            if most:
                for place in range(found):
                    if apart[place] < nearest[0]:
                        replace_greatest(nearest, apart[place])
                limit = min(limit, nearest[0])
        before += counts[piece]
    return rows[:total].copy(), distances[:total].copy()


# -- projections ---------------------------------------------------------------------------------

# One below 2^16: buckets are taken modulo this and moved by one, so that no word is zero.
WORD_VALUES = 65_535
_WORD_BITS = 16
_LARGEST_BUCKET = 2.0**52
_ROUNDING = 2.0**-50

_SINGLE_ROUNDING = np.float32(2.0**-21)
_FARTHEST = np.float32(65_000)
_FLOAT_ONE = np.float32(1)
_NOTHING = np.float32(0)
_LOWEST, _SIGN = np.uint32(1), np.uint32(31)
_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_ROWS_AT_ONCE = 8


@kernel
def product(left: Float32s, right: Float32s, sums: Float64s) -> np.float64:
    """Return the dot product of two float32 vectors of one size, in float64.

    Products of two float32 are exact. Of the sums, 32 of them, each takes every 32nd product, as
    far as 32 fit; they are added in pairs that lie 16, 8, 4, 2 and 1 apart, and then the rest one
    by one.
    """
    sums[:] = 0.0
    whole = left.size - left.size % LANES
    for start in range(0, whole, LANES):
        one, other = left[start : start + LANES], right[start : start + LANES]
        for lane in range(LANES):
            sums[lane] += np.float64(one[lane]) * np.float64(other[lane])
    total = _total(sums)
    for place in range(whole, left.size):
        total += np.float64(left[place]) * np.float64(right[place])
    return total


@kernel
def _settle_signs(
    projected: UInt32s,
    limit: np.uint32,
    vector: Float32s,
    directions: Float32s,
    words: UInt16s,
    bands: int,
    sums: Float64s,
) -> None:
    """Set every bit of one vector whose projection is not above the limit as ``product`` says."""
    rows = directions.shape[0] // bands
    width = words.size // bands
    for column in range(projected.size):
        if projected[column] & _MAGNITUDE <= limit:
            row, band = column // bands, column % bands
            bit = np.uint16(1 << (row % _WORD_BITS))
            place = band * width + row // _WORD_BITS
            word = words[place] & (np.uint16(0xFFFF) ^ bit)
            if product(vector, directions[band * rows + row], sums) >= 0:
                word |= bit
            words[place] = word


@inlined
def _set_signs(projected: UInt32s, words: UInt16s, of_bands: UInt16s) -> None:
    """Set the words of one vector by the signs of its projections.

    The bands lie side by side in every row, so that one instruction does the same for many.
    ``of_bands`` is room for a word a band.
    """
    bands = of_bands.size
    width = words.size // bands
    rows = projected.size // bands
    for word in range(width):
        first = word * _WORD_BITS
        stop = min(rows, first + _WORD_BITS)
        marker = np.uint16((1 << (stop - first)) & 0xFFFF)
        for band in range(of_bands.size):
            of_bands[band] = marker
        whole = stop - (stop - first) % _ROWS_AT_ONCE
        for row in range(first, whole, _ROWS_AT_ONCE):
            signs = projected[row * bands :]
            shift = np.uint32(row - first)
            for band in range(of_bands.size):
                bits = np.uint32(0)
                for apart in range(_ROWS_AT_ONCE - 1, -1, -1):
                    sign = signs[np.uint64(apart) * np.uint64(bands) + np.uint64(band)] >> _SIGN
                    bits = (bits << _LOWEST) | (sign ^ _LOWEST)
                of_bands[band] |= np.uint16(bits << shift)
        for row in range(whole, stop):
            signs = projected[row * bands :]
            shift = np.uint32(row - first)
            for band in range(of_bands.size):
                of_bands[band] |= np.uint16(((signs[band] >> _SIGN) ^ _LOWEST) << shift)
        for band in range(bands):
            words[band * width + word] = of_bands[band]


@kernel
def sign_words(
    projections: Float32s, errors: Float32s, vectors: Float32s, directions: Float32s, bands: int
) -> UInt16s:
    """Tell on which side of each hyperplane the vectors, (n, d), lie, a bit each (MMDS 3.7.2).

    All arrays are contiguous. ``projections`` onto the directions are (n, rows * bands), about:
    column r * bands + b is that of row r of band b. ``errors``, (n,), say how far one of each
    vector can be from ``product``; infinity where one can be no finite number. ``directions``, the
    normals of the hyperplanes, are (bands * rows, d), band by band.

    Of the answer, (n, bands * (rows // 16 + 1)), bit j of a band is bit j % 16 of its word j // 16,
    1 where the projection is at least 0; the bit after its last is set, so that no band is zero.
    """
    # Sizes of float32 are in the order of their bits, and infinity is above all that are finite.
    bits, limits = projections.view(np.uint32), errors.view(np.uint32)
    width = directions.shape[0] // bands // _WORD_BITS + 1
    signatures = np.empty((vectors.shape[0], bands * width), np.uint16)
    of_bands = np.empty(bands, np.uint16)
    sums = np.empty(LANES, np.float64)
    for item in range(vectors.shape[0]):
        projected, words = bits[item], signatures[item]
        # An infinite bound doubts every projection, nan among them, whose bits are above infinity.
        limit = limits[item] if limits[item] < _INFINITY else _MAGNITUDE
        doubts = np.uint32(0)
        for column in range(projected.size):
            doubts += np.uint32(projected[column] & _MAGNITUDE <= limit)
        _set_signs(projected, words, of_bands)
        if doubts:
            _settle_signs(projected, limit, vectors[item], directions, words, bands, sums)
    return signatures


@inlined
def _word_of(bucket: np.float64) -> np.uint16:
    """Return the bucket modulo 65,535, plus 1; 1 from 2^52 on, where buckets have no number.

    1 / 65,535 in float64 is off by 2^-64 of itself. So below 2^52 its product with a multiple of
    65,535 rounds to the whole number, and that with any other bucket to no whole number.
    """
    remainder = bucket - np.floor(bucket * (1.0 / WORD_VALUES)) * WORD_VALUES
    known = abs(bucket) < _LARGEST_BUCKET
    return np.uint16(np.int64(remainder if known else 0.0) + 1)


@kernel
def _settle_buckets(
    projected: Floats,
    error: float,
    vector: Float32s,
    directions: Float32s,
    shifts: Float64s,
    bucket_width: float,
    words: UInt16s,
    unsure: Bools,
    sums: Float64s,
) -> None:
    """Set the words of one vector in float64, and by ``product`` where that leaves a doubt."""
    inverse = 1.0 / bucket_width
    doubts = 0
    for function in range(shifts.size):
        quotient = (np.float64(projected[function]) + shifts[function]) * inverse
        bucket = np.floor(quotient)
        within = quotient - bucket
        # Beside the error of the projection those of the sum and of the quotient.
        margin = error * inverse + _ROUNDING * (abs(quotient) + 1.0)
        doubt = not ((within > margin) & (within < 1.0 - margin))
        unsure[function] = doubt
        doubts += np.int64(doubt)
        words[function] = _word_of(bucket)
    if doubts:
        for function in range(shifts.size):
            if unsure[function]:
                exact = product(vector, directions[function], sums) + shifts[function]
                words[function] = _word_of(np.floor(exact / bucket_width))


@kernel
def line_words(
    projections: Floats,
    errors: Floats,
    vectors: Float32s,
    directions: Float32s,
    shifts: Float64s,
    bucket_width: float,
) -> UInt16s:
    """Tell in which bucket of each line the vectors lie, a word each (MMDS 3.7.4).

    The bucket of a projection p is floor((p + shift) / bucket_width). Its word is the bucket modulo
    65,535, plus 1: equal words are equal buckets, but for buckets a multiple of 65,535 apart, or
    from 2^52 on; and none is zero. ``projections`` of the vectors, (n, d), onto the directions,
    (functions, d), are (n, functions), about; ``errors``, (n,), say how far one of each vector can
    be from ``product``; ``shifts`` are from 0 to the bucket width.
    """
    signatures = np.empty((vectors.shape[0], shifts.size), np.uint16)
    unsure = np.empty(shifts.size, np.bool_)
    sums = np.empty(LANES, np.float64)
    inverse = np.float32(1.0 / bucket_width)
    moves = (shifts / bucket_width).astype(np.float32)
    for item in range(vectors.shape[0]):
        projected, words = projections[item], signatures[item]
        error = np.float64(errors[item])
        # In float32 at first, and where that leaves a doubt of one function, all in more digits.
        # The inverse, the projection, their product, the shift and the sum are rounded, so that a
        # quotient q is off by about 2^-24 (4 |q| + 4) at most; it is allowed twice as much.
        least = np.float32(error * (1.0 / bucket_width)) + _SINGLE_ROUNDING
        doubts = np.uint32(0)
        for function in range(moves.size):
            quotient = np.float32(projected[function]) * inverse + moves[function]
            quotient = quotient if abs(quotient) < _FARTHEST else _NOTHING
            bucket = np.floor(quotient)
            within = quotient - bucket
            margin = least + _SINGLE_ROUNDING * abs(quotient)
            doubts += np.uint32(not ((within > margin) & (within < _FLOAT_ONE - margin)))
            number = np.int32(bucket)
            # Below 65,535 in size the bucket modulo 2^16, but for negative ones one less.
            words[function] = np.uint16(number + np.int32(number >= 0))
        if doubts:
            _settle_buckets(
                projected,
                error,
                vectors[item],
                directions,
                shifts,
                bucket_width,
                words,
                unsure,
                sums,
            )
    return signatures
