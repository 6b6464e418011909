"""The register of kernels: every compiled function once, with what bounds it and where it is from.

A function that Python calls is an **entry**. It is listed here, its arrays are those of its
annotations, and a plain twin in ``tests/support/twins.py`` computes the same in the obvious way. A
function that only kernels call is **inner**: it is compiled with its callers, and is right if they
are. ``tests/kernels/test_register.py`` holds the code to this, and ``tools/make_kernels.py`` prints
docs/kernels.md from it.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A kernel that Python calls.

    Attributes:
        name: module and function.
        work: what its time grows with.
        section: of *Mining of Massive Datasets*, or what it is from otherwise.
        writes: names of arguments, or fields of them, whose arrays it writes into; it only reads
            the others.
    """

    name: str
    work: str
    section: str = ""
    writes: str = ""

    def is_written(self, name: str) -> bool:
        """Whether it writes into an argument, or a field of one (``found.left``)."""
        return not {name, name.partition(".")[0]}.isdisjoint(self.writes.split())


# n: items, vectors or rows; m: pairs or values; other words are those of the function's arguments.
ENTRIES = (
    Entry("bits.counts_of_rows", "n words"),
    Entry("bits.compare_rows", "m words", "3.1.1, 3.5.5"),
    Entry("bits.scan_hamming", "n words", "3.5.5"),
    Entry("bits.scan_tanimoto", "n words", "3.1.1"),
    Entry("bits.scan_columns", "n words; of a block as many as tell it apart", "3.9.3"),
    Entry(
        "bits.near_pairs", "pairs equal in the chunk", "3.5.5", writes="state left right distances"
    ),
    Entry("bits.bit_symbols", "n length", "3.1.1"),
    Entry("bits.sampled_bits", "n bands rows", "3.7.1"),
    Entry(
        "buckets.next_earlier",
        "members passed over, each once, and compared signatures",
        writes="next_places last_compared similar_to status earlier",
    ),
    Entry(
        "buckets.bucket_pairs",
        "visited pairs, signatures or keys of both each",
        "3.4.1, 3.8.5",
        writes="cursor left right counters",
    ),
    Entry("buckets.share_every_group", "m, the keys of both items each", "3.8.5"),
    Entry("checksums.checksums", "m, their bytes"),
    Entry("columns.order", "bytes that neighbours share, and n log n of them where not sorted"),
    Entry("columns.taken", "bytes of the strings taken"),
    Entry("columns.documents", "bytes"),
    Entry("columns.are_equal", "m, the bytes of both strings each"),
    Entry("columns.copied", "bytes of the strings"),
    Entry("columns.blocks", "bytes"),
    Entry(
        "columns.rows_of_blocks",
        "bytes of the rows; the log of the blocks for each block met",
        writes="rows held",
    ),
    Entry("columns.numbers_of_rows", "rows and blocks"),
    Entry(
        "columns.documents_of_blocks",
        "bytes of the records; the log of the blocks for each block met",
    ),
    Entry(
        "columns.keys_of_documents",
        "bytes of the records; the log of the blocks for each item met",
    ),
    Entry("elements.element_symbols", "bytes"),
    Entry("elements.bag_parts", "bytes; at most `largest` occurrences a bag", "3.1.3"),
    Entry("elements.occurrence_symbols", "occurrences", "3.1.3"),
    Entry("fingerprints.grids_of_minutiae", "minutiae, at most 8 squares each", "3.8.4"),
    Entry("fingerprints.functions_of_minutiae", "minutiae squared, and functions", "3.8.5"),
    Entry("fingerprints.functions_of_grids", "n functions", "3.8.5"),
    Entry("fingerprints.triangles_of_minutiae", "minutiae squared, and triangles", "3.8.5"),
    Entry("fingerprints.members", "n words and set bits", "3.8.5"),
    Entry("fingerprints.first_shared", "m words", "3.8.5"),
    Entry("fingerprints.in_every_group", "m, and group_count item_count / 64", "3.8.5"),
    Entry("fingerprints.couples_of", "the product of both sizes", "3.8.4"),
    Entry("fingerprints.matched_minutiae", "m, the product of both sizes each", "3.8.4"),
    Entry("forest.connect", "m log n, and less where ways were gone before", writes="parents"),
    Entry("forest.roots", "n log n, and less where ways were gone before", writes="parents"),
    Entry("markup.unmarked", "bytes"),
    Entry("order.fill_ranks", "frequent symbols", "3.9.2", writes="ranks.table"),
    Entry("order.symbol_keys", "symbols; a one to one map of 2^64 values", "3.9.2"),
    Entry("order.sort_sets", "symbols", "3.9.2", writes="keys"),
    Entry("order.drop_repeats", "symbols", "3.9.2", writes="keys"),
    Entry("order.identical_representatives", "symbols", "3.9.1"),
    Entry("order.expand_pairs", "pairs written", "3.9.1", writes="state found"),
    Entry("overlaps.probe_overlaps", "symbols", "3.1.1"),
    Entry("overlaps.pair_overlaps", "symbols of all pairs", "3.1.1"),
    Entry("postings.mark_symbols", "prefix symbols", "3.9.4", writes="marks"),
    Entry("postings.marked_entries", "prefix symbols", "3.9.4"),
    Entry("postings.count_slots", "postings", "3.9.4", writes="table"),
    Entry("postings.number_buckets", "slots", "3.9.4"),
    Entry("postings.fill_buckets", "postings", "3.9.4"),
    Entry(
        "postings.bucket_candidates",
        "pairs of postings of fitting sizes",
        "3.9.3, 3.9.6",
        writes="state found counters",
    ),
    Entry(
        "postings.verify_candidates",
        "symbols of the candidates",
        "3.9.6",
        writes="found overlaps counters",
    ),
    Entry("postings.overlaps_reached", "symbols of all pairs, until too many are lost", "3.9.6"),
    Entry("postings.probe_candidates", "hits", "3.9.6"),
    Entry("runs.merge", "rows written, inputs each", writes="positions keys columns"),
    Entry("runs.mark_keys", "n", writes="words"),
    Entry("runs.marked_keys", "m", writes="places"),
    Entry(
        "runs.probe",
        "queries, the logarithm of each run, and rows found",
        writes="found_queries found_chunks found_positions unverified",
    ),
    Entry("runs.sort_by_key", "n; False where keys crowd", writes="order"),
    Entry("runs.gather_column", "rows", writes="values"),
    Entry("shingles.character_shingles", "characters", "3.2.1"),
    Entry("shingles.decoded", "bytes"),
    Entry("shingles.word_places", "characters"),
    Entry("shingles.word_shingles", "characters", "3.2.4"),
    Entry("sketches.fast_sketches", "symbols, about ln rows rounds", "3.3, FOCS 2017"),
    Entry("sketches.classical_sketches", "symbols rows; values below 2^61 - 1", "3.3.5"),
    Entry("sketches.fast_minima", "symbols, about ln rows rounds", "3.3, FOCS 2017"),
    Entry("sketches.classical_minima", "symbols rows", "3.3.5"),
    Entry("sketches.sketches_of_minima", "n rows"),
    Entry("sketches.bucket_keys", "n bands rows; collisions below (rows + 1) / 2^58", "3.4.1"),
    Entry("sketches.matching_rows", "m rows", "3.3.3"),
    Entry("sketches.agreeing_hits", "hits; rows of those that count", "3.4.3"),
    Entry("sketches.agreeing_rows", "m rows", "3.4.3"),
    Entry("strings.gathered", "characters", "3.5.5"),
    Entry("strings.compare_rows", "m, the distance squared or the characters each", "3.5.5"),
    Entry("strings.scan", "n, and the edits squared of those with fitting characters", "3.5.5"),
    Entry("strings.near_bags", "m"),
    Entry("strings.segment_keys", "characters", "VLDB 2011"),
    Entry("strings.probe_keys", "edits squared and characters each", "VLDB 2011"),
    Entry(
        "strings.near_pairs",
        "keys of probes, and entries under them",
        "VLDB 2011",
        writes="state left right distances",
    ),
    Entry("vectors.compare_rows", "m d; errors of the last bit", "3.5.2, 3.5.4"),
    Entry("vectors.scan", "n d", "3.5.2, 3.5.4"),
    Entry("vectors.sign_words", "n functions, and d of those in doubt", "3.7.2"),
    Entry("vectors.line_words", "n functions, and d of those in doubt", "3.7.4"),
    Entry("weighted.dart_sketches", "symbols, and rows log(rows)", "3.3.5, of weights"),
    Entry("weighted.compare_pairs", "symbols of all pairs", "3.1.1, of weights"),
    Entry("weighted.tails", "symbols"),
    Entry("weighted.prefix_ends", "symbols of prefixes", "3.9.4, of weights"),
    Entry(
        "weighted.near_candidates",
        "postings of prefixes, symbols of what fits",
        "3.9.4",
        writes="state seen left right",
    ),
)

BY_NAME = {entry.name: entry for entry in ENTRIES}
