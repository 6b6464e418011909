"""Functions of grid squares: signatures, bucket keys, first shared function, candidates."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

import simdb
from simdb.kernels import bits
from simdb.kernels import fingerprints as kernels
from simdb.kinds import Fingerprint
from simdb.kinds import fingerprints as describing_rules
from simdb.kinds.fingerprints import (
    FingerprintItems,
    SquaresFamily,
    TrianglesFamily,
    chosen_functions,
    share_of_functions,
)
from simdb.lsh.amplification import And, Or
from simdb.ragged import read_only
from tests.support import fingerprint_oracle as oracle
from tools.print_rates import candidate_pairs, packed, rates_of, second_prints, simulated_rates

SECRET = b"secret"
KINDS = [
    Fingerprint(100, 60, square=12, border=2, functions=100, alignment=alignment, sectors=sectors)
    for alignment in ("none", "shift", "turn")
    for sectors in (1, 4)
]


def prints_of(kind: Fingerprint, counts: tuple[int, ...]) -> list[list[oracle.Minutia]]:
    random = np.random.default_rng(7)
    return [oracle.random_print(random, count, kind) for count in counts]


def slow_yes(family: SquaresFamily, kind: Fingerprint, one: list[oracle.Minutia]) -> set[int]:
    around = kind.alignment != "none"
    grids = oracle.grids_around(one, kind) if around else [oracle.grid_of(one, kind)]
    return oracle.yes(grids, family.functions.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_the_functions_that_say_yes_are_those_of_the_slow_way(kind: Fingerprint) -> None:
    items, family = FingerprintItems(kind), SquaresFamily(kind, SECRET)
    prints = prints_of(kind, (1, 3, 70))  # 70 grids do not fit into one word
    signatures = family.sign(items.features([items.encode(one) for one in prints]))
    assert signatures.dtype == np.uint16
    assert signatures.shape == (3, family.words)
    expected = [slow_yes(family, kind, one) for one in prints]
    assert [oracle.bits(row) for row in family.yes(signatures)] == expected
    assert any(expected)
    keys = family.bucket_keys(signatures)
    assert keys.groups is not None
    for number, functions in enumerate(expected):
        own = slice(int(keys.offsets[number]), int(keys.offsets[number + 1]))
        numbers = np.array(sorted(functions), np.int64)
        assert np.array_equal(keys.values[own], family.keys_of(numbers))
        assert np.array_equal(keys.groups[own], numbers // 100)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_shared_function_is_that_of_the_slow_way(kind: Fingerprint) -> None:
    items, family = FingerprintItems(kind), SquaresFamily(kind, SECRET)
    prints = prints_of(kind, (2, 15, 20, 25))
    signatures = family.sign(items.features([items.encode(one) for one in prints]))
    left, right = np.triu_indices(len(prints))
    functions = [slow_yes(family, kind, one) for one in prints]
    expected = []
    for one, other in zip(left, right, strict=True):
        shared = functions[one] & functions[other]
        if kind.alignment == "none":
            grids = [oracle.grid_of(prints[number], kind) for number in (one, other)]
            assert shared == oracle.yes([grids[0] & grids[1]], family.functions.tolist())
        expected.append(oracle.first_shared(functions[one], functions[other], 100, 2))
    first = family.first_shared(signatures[left], signatures[right])
    assert first.tolist() == expected
    assert -1 in expected
    found = candidate_pairs(family, signatures[left], signatures[right])
    assert np.array_equal(found, first >= 0)


def test_first_shared_bits_at_the_borders_of_words_and_groups():
    random = np.random.default_rng(3)
    for groups, size in ((1, 64), (2, 30), (3, 21), (4, 16)):
        rows = (random.random((200, 64)) < random.random((200, 1))).astype(np.uint8)
        signatures = np.packbits(rows, axis=1, bitorder="little").view("<u2").astype(np.uint16)
        rows[:, groups * size :] = 0
        left, right = signatures[:100], signatures[100:]
        expected = [
            oracle.first_shared(
                set(np.flatnonzero(one).tolist()), set(np.flatnonzero(other).tolist()), size, groups
            )
            for one, other in zip(rows[:100], rows[100:], strict=True)
        ]
        assert kernels.first_shared(left, right, size, groups).tolist() == expected


def test_a_print_moved_on_the_plate_keeps_its_functions():
    kind = Fingerprint(200, 200, square=12, reach=60, functions=300, alignment="shift", sectors=4)
    items, family = FingerprintItems(kind), SquaresFamily(kind, SECRET)
    one = oracle.random_print(np.random.default_rng(1), 30, Fingerprint(100, 60))
    moved = [(x + 91, y + 77, direction) for x, y, direction in one]
    signatures = family.sign(items.features([items.encode(one), items.encode(moved)]))
    assert np.array_equal(signatures[0], signatures[1])
    assert signatures.any()


def test_a_print_turned_by_a_right_angle_keeps_its_functions():
    kind = Fingerprint(200, 200, square=12, reach=60, functions=300, alignment="turn", sectors=4)
    items, family = FingerprintItems(kind), SquaresFamily(kind, SECRET)
    one = oracle.random_print(np.random.default_rng(1), 40, Fingerprint(150, 150))
    turned = [(180 - y, x, (direction + 90) % 360) for x, y, direction in one]
    signatures = family.sign(items.features([items.encode(one), items.encode(turned)]))
    words = read_only(signatures.view(np.uint64))
    both, either = bits.compare_rows(words, words, np.array([0]), np.array([1]))
    assert either[0] > 25
    assert both[0] / either[0] > 0.95  # cosines are rounded


def test_functions_are_of_distinct_squares_and_depend_on_the_secret_only():
    functions = chosen_functions(20, 500, 3, SECRET)
    assert functions.shape == (500, 3)
    assert (functions[:, :-1] < functions[:, 1:]).all()
    assert set(np.unique(functions).tolist()) == set(range(20))
    assert np.array_equal(functions[:100], chosen_functions(20, 100, 3, SECRET))
    assert not np.array_equal(functions, chosen_functions(20, 500, 3, b"other"))
    assert chosen_functions(3, 10, 3, SECRET).tolist() == [[0, 1, 2]] * 10


def test_keys_of_functions_differ_and_depend_on_the_secret():
    kind = Fingerprint(100, 60)
    numbers = np.arange(65_536)
    keys = [SquaresFamily(kind, secret).keys_of(numbers) for secret in (b"one", b"two")]
    assert len(np.unique(np.concatenate(keys))) == 2 * 65_536


def test_signatures_of_another_width_are_refused():
    family = SquaresFamily(Fingerprint(100, 60), SECRET)
    with pytest.raises(ValueError, match="do not have 4 words"):
        family.bucket_keys(np.zeros((1, 8), np.uint16))


def test_items_in_every_group_are_those_of_sets():
    random = np.random.default_rng(5)
    for group_count in (1, 2, 3):
        for item_count in (1, 63, 64, 65, 300):
            members = random.integers(0, item_count + 3, 400).astype(np.uint32)
            groups = random.integers(0, group_count, 400).astype(np.uint8)
            sets = [set(members[groups == group].tolist()) for group in range(group_count)]
            expected = sorted(set.intersection(*sets) & set(range(item_count)))
            found = kernels.in_every_group(members, groups, group_count, item_count)
            assert found.dtype == np.uint32
            assert found.tolist() == expected


def test_overlaps_are_those_of_sets():
    random = np.random.default_rng(6)
    sets = random.integers(0, 2**64, (10, 3), dtype=np.uint64)
    sets[0] = 0
    sets[1] = np.uint64(2**64 - 1)
    positions = np.array([9, 0, 1, 5])
    common, either = bits.compare_rows(read_only(sets), read_only(sets), np.full(4, 4), positions)
    rows = [oracle.bits(row) for row in sets]
    assert common.tolist() == [len(rows[4] & rows[place]) for place in positions]
    assert either.tolist() == [len(rows[4] | rows[place]) for place in positions]


def test_members_are_the_set_bits():
    random = np.random.default_rng(8)
    signatures = random.integers(0, 2**16, (5, 4)).astype(np.uint16)
    numbers, offsets = kernels.members(signatures)
    for row in range(5):
        own = numbers[offsets[row] : offsets[row + 1]].tolist()
        assert own == sorted(oracle.bits(signatures[row]))


def test_rates_count_all_pairs():
    kind = Fingerprint(40, 20, square=4, border=0, functions=50, groups=1)
    family = SquaresFamily(kind, SECRET)
    random = np.random.default_rng(9)
    signatures = packed(family, random.random((30, 50)) < 0.4)
    fingers = np.arange(30) // 3
    left, right = np.triu_indices(30, 1)
    found = candidate_pairs(family, signatures[left], signatures[right])
    mated = fingers[left] == fingers[right]
    rates = rates_of(family, signatures, fingers)
    assert rates.looked_at == pytest.approx(found[~mated].mean())
    assert rates.false_negatives == pytest.approx(1 - found[mated].mean())


def test_prints_that_differ_in_fullness_meet_more_often_in_both_groups():
    kind = Fingerprint(
        1_000, 1, items="squares", measure="squares", square=1, border=0, functions=256
    )
    family = SquaresFamily(kind, SECRET)
    densities, kept = np.full(1_000, 0.2), np.full(1_000, 0.8)
    alike = simulated_rates(family, densities, kept, prints=500)
    mixed = simulated_rates(family, densities, kept, fullness=np.array([0.5, 1.5]), prints=500)
    assert mixed.looked_at > 1.5 * alike.looked_at


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_share_of_functions_counts_all_of_them(size: int) -> None:
    for shared in range(8):
        every = list(combinations(range(7), size))
        inside = sum(max(function) < shared for function in every)
        (share,) = share_of_functions(np.array([shared]), 7, size)
        assert share == pytest.approx(inside / len(every))


def test_candidates_over_many_choices_of_functions_are_as_the_shared_squares_say():
    kind = Fingerprint(
        100, 1, items="squares", measure="squares", square=1, border=0, functions=200, groups=2
    )
    random = np.random.default_rng(11)
    occupied = random.random((40, 100)) < random.uniform(0.2, 0.6, (40, 1))
    left, right = np.triu_indices(40, 1)
    shared = (occupied[left] & occupied[right]).sum(axis=1)
    chances = And(2, Or(200)).probability(share_of_functions(shared, 100, 3))
    found = np.zeros(len(left))
    families = [SquaresFamily(kind, b"%d" % number) for number in range(200)]
    for family in families:
        signatures = packed(family, occupied)
        found += candidate_pairs(family, signatures[left], signatures[right])
    found /= len(families)
    assert 0.1 < chances.mean() < 0.9
    assert found.mean() == pytest.approx(chances.mean(), abs=0.01)
    # 780 pairs: five standard deviations of each.
    bound = 5 * np.sqrt(chances * (1 - chances) / len(families)) + 1 / len(families)
    assert (np.abs(found - chances) < bound).all()


def test_second_prints_keep_squares_and_density():
    random = np.random.default_rng(12)
    densities, kept = np.repeat([0.1, 0.3, 1.0], 400), np.repeat([0.6, 0.8, 1.0], 400)
    for scale in (0.5, 1.0):
        wanted = np.broadcast_to(densities * scale, (400, 1_200))
        first = random.random(wanted.shape) < wanted
        second = second_prints(random, first, wanted, densities, kept)
        for part in (slice(0, 400), slice(400, 800), slice(800, 1_200)):
            chance, ordinary = wanted[0, part.start], densities[part.start]
            # 8,000 occupied squares at least: standard errors below 0.006.
            assert second[:, part].mean() == pytest.approx(chance, abs=0.005)
            again = second[:, part][first[:, part]].mean()
            beyond = 0.0 if ordinary == 1 else (kept[part.start] - ordinary) / (1 - ordinary)
            assert again == pytest.approx(chance + (1 - chance) * beyond, abs=0.02)
            if scale == 1.0:
                assert again == pytest.approx(kept[part.start], abs=0.02)


def test_stats_tell_groups_of_functions_from_groups_that_are_kept(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        plain = database.create_collection("plain", simdb.Fingerprint(80, 80), threshold=0.5)
        kept = database.create_collection("kept", plain.kind, threshold=0.5, groups="chain")
        for prints, told in ((plain, None), (kept, {"method": "chain", "bounds": [0.5]})):
            settings = prints.stats()["settings"]
            assert (settings["groups"], settings["kept_groups"]) == (2, told)


def test_stats_warn_of_prints_that_the_index_cannot_find(tmp_path):
    kind = simdb.Fingerprint(80, 80, square=10, border=0, measure="squares", functions=64)
    generator = random.Random(1)

    def minutiae(count: int) -> list[tuple[int, int, int]]:
        return [
            (generator.randrange(80), generator.randrange(80), generator.randrange(360))
            for _ in range(count)
        ]

    with simdb.open(tmp_path / "s.simdb") as database:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(simdb.Fingerprint, "may_miss_equals", False)
            prints = database.collection("prints", kind, threshold=0.5, seed=1)
        assert prints.stats()["in_no_bucket"] == 0
        prints.add_many((f"full {number}", minutiae(60)) for number in range(40))
        rich = prints.stats()
        assert (rich["in_no_bucket"], rich["warnings"]) == (0, [])
        prints.add_many((f"poor {number}", minutiae(5)) for number in range(20))
        poor = prints.stats()
        stored = [(entry.key, entry.item) for entry in prints.items()]
        lost = [
            key
            for key, item in stored
            if not prints.search(item, threshold=1, guarantee="probable")
        ]
        assert poor["in_no_bucket"] == len(lost) > 1
        assert f"{len(lost)} of 60 prints are in no bucket: " in poor["warnings"][0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(describing_rules, "MOST_PRINTS", 30)
            estimated = prints.stats()
        assert estimated["in_no_bucket"] % 2 == 0
        assert abs(estimated["in_no_bucket"] - len(lost)) <= 10
        assert estimated["warnings"][0].startswith("about ")
        prints.rebuild()
        assert prints.stats()["in_no_bucket"] == len(lost)
        assert "in no bucket but that of their equals: " in prints.stats()["warnings"][0]
        assert all(prints.search(item, threshold=1, guarantee="probable") for _, item in stored)
        prints.delete_many(lost)
        assert prints.stats()["in_no_bucket"] == 0


# -- triangles -------------------------------------------------------------------------------------

TRIANGLES = Fingerprint(
    200, 200, alignment="triangles", square=8, border=1, sectors=16, functions=200
)


def triangles_signed(*prints: list[oracle.Minutia]) -> tuple[TrianglesFamily, np.ndarray]:
    items, family = FingerprintItems(TRIANGLES), TrianglesFamily(TRIANGLES, SECRET)
    family.find_equal()
    return family, family.sign(items.features([items.encode(one) for one in prints]))


def test_triangles_of_a_print_that_was_shifted_and_turned_by_right_angles_are_the_same():
    one = oracle.random_print(np.random.default_rng(1), 30, Fingerprint(100, 60))
    shifted = [(x + 91, y + 77, direction) for x, y, direction in one]
    turned = [(180 - y, x, (direction + 90) % 360) for x, y, direction in one]
    _, signatures = triangles_signed(one, shifted, turned)
    assert signatures.any()
    assert np.array_equal(signatures[0], signatures[1])
    assert np.array_equal(signatures[0], signatures[2])


def test_triangles_of_a_print_that_was_turned_by_any_angle_are_mostly_the_same():
    one = oracle.random_print(np.random.default_rng(2), 40, Fingerprint(120, 120))
    cosine, sine = np.cos(np.radians(33)), np.sin(np.radians(33))
    turned = [
        (90 + cosine * x - sine * y, 10 + sine * x + cosine * y, direction + 33)
        for x, y, direction in one
    ]
    family, signatures = triangles_signed(one, turned)
    numbers, offsets = family.numbers(signatures)
    left, right = (set(numbers[slice(*offsets[i : i + 2])].tolist()) for i in (0, 1))
    assert len(left & right) > 0.9 * len(left) > 200


def test_keys_of_triangles_belong_to_groups_and_a_print_without_has_its_own():
    couple = [(10.0, 10.0, 0.0), (30.0, 10.0, 90.0)]
    one = oracle.random_print(np.random.default_rng(3), 30, Fingerprint(100, 60))
    family, signatures = triangles_signed(one, couple, couple[:1], couple)
    keys = family.bucket_keys(signatures)
    rows = [keys.values[slice(*keys.offsets[i : i + 2])].tolist() for i in range(4)]
    assert len(rows[0]) > 100
    assert len(rows[1]) == 2  # one a group, and no triangle
    assert rows[1] == rows[3] != rows[2]
    assert keys.groups is not None
    assert set(keys.groups.tolist()) == {0, 1}
    assert family.count_lacking(signatures) == 3


def test_of_many_triangles_those_with_the_smallest_hashes_are_kept():
    one = oracle.random_print(np.random.default_rng(4), 100, Fingerprint(200, 200))
    items = FingerprintItems(TRIANGLES)
    features = items.features([items.encode(one)])
    many, few = (
        TrianglesFamily(TRIANGLES.changed(functions=functions), SECRET) for functions in (4_000, 20)
    )
    rows = [family.numbers(family.sign(features))[0].tolist() for family in (many, few)]
    for group in (0, 1):
        of_group = [[number for number in row if number >> 32 == group] for row in rows]
        assert of_group[1] == of_group[0][:20]
        assert len(of_group[0]) > 200


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"measure": "squares"}, "lays no grid and needs measure='minutiae'"),
        ({"functions": 9_000}, "at most 16,384 shapes of triangles a print, not .* = 18,000"),
        ({"neighbours": 1}, "neighbours"),
        ({"items": "squares", "measure": "squares"}, "needs measure='squares' and alignment"),
    ],
)
def test_settings_of_triangles_that_cannot_be_are_refused(changed, message):
    with pytest.raises(simdb.ConfigurationError, match=message):
        TRIANGLES.changed(**changed)


def test_a_store_of_triangles_finds_prints_and_is_sound(tmp_path):
    random = np.random.default_rng(5)
    prints = [oracle.random_print(random, 30, Fingerprint(200, 200)) for _ in range(20)]
    prints.append([(1.0, 1.0, 1.0)])
    with simdb.open(tmp_path / "p.simdb") as database:
        stored = database.collection("p", TRIANGLES, threshold=0.5, seed=1)
        stored.add_many(enumerate(prints))
        assert stored.stats()["in_no_bucket"] == 1
        for key, one in enumerate(prints):
            assert stored.search(one)[0].key == key
        near = [(x, y, direction + 2) for x, y, direction in prints[3][:25]]
        assert [match.key for match in stored.search(near)] == [3]
        assert not database.check(deep=True).problems


def test_groups_connect_the_pairs_that_meet_in_every_group_and_no_others(tmp_path):
    generator = random.Random(5)

    def drawn(count: int) -> list[tuple[float, float, float]]:
        return [
            (generator.uniform(10, 290), generator.uniform(10, 290), generator.uniform(0, 359))
            for _ in range(count)
        ]

    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        kind = Fingerprint(300, 300)
        collection = db.collection("c", kind, threshold=0.4, seed=1, groups="chain")
        for number in range(60):
            whole = drawn(12)
            collection.add_many([(2 * number, whole), (2 * number + 1, whole[:-1])])
        pairs = [{pair.left, pair.right} for pair in collection.pairs(guarantee="probable")]
        assert 0 < len(pairs) < 60
        kept = [set(group.keys) for group in collection.kept_groups()]
        for groups in (collection.groups(), collection.groups(where=lambda _: True)):
            found = [set(group.keys) for group in groups]
            assert sorted(map(min, found)) == sorted(map(min, pairs)) == sorted(map(min, kept))
