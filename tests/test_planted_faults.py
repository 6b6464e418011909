"""A fault planted in any layer is noticed by the tests of that layer.

Each is a small change of one place. It is made in a copy of the checkout, where the test that is
named must then fail: with ``--slow``, for it takes minutes. That each of them can still be planted
is tried always.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ended

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Fault:
    """A change of one place, and a quick test that must not pass with it.

    Attributes:
        layer: the room that it is in.
        module: its path within the package.
        right, wrong: what stands there, once, and what is put in its place.
        test: of pytest: a file, a test, or a file and words for ``-k``.
    """

    layer: str
    module: str
    right: str
    wrong: str
    test: str


FAULTS = (
    Fault(
        "",
        "arrow.py",
        "    if len(found) == len(pairs):\n        return found\n",
        "    if len(found) <= len(pairs):\n        return found\n",
        "tests/frames/test_one_call.py -k element_twice",
    ),
    Fault(
        "reports",
        "reports/collection.py",
        "cut = float(np.nextafter(found.bound, np.inf)) if found.is_distance else found.bound",
        "cut = found.bound",
        "tests/cli/test_report.py -k no_near_miss",
    ),
    Fault(
        "",
        "arrow.py",
        '_CHANGED_OF_DUCKDB = frozenset(("uhugeint", "bit", "time with time zone"))',
        '_CHANGED_OF_DUCKDB = frozenset(("uhugeint", "bit"))',
        "tests/frames/test_one_call.py -k would_change",
    ),
    Fault(
        "files",
        "files/databases.py",
        "ends = np.abs(numbers) == np.iinfo(numbers.dtype).max",
        "ends = numbers == np.iinfo(numbers.dtype).max",
        "tests/cli/test_inputs.py -k without_end",
    ),
    Fault(
        "files",
        "files/tables.py",
        "        if options.raw and not arrow.is_sound(batch):\n",
        "        if False:\n",
        "tests/cli/test_tables.py -k not_utf8",
    ),
    Fault(
        "files",
        "files/tables.py",
        "            arrow.require_within(chosen)\n",
        "            pass\n",
        "tests/cli/test_tables.py -k damaged_arrow",
    ),
    Fault(
        "files",
        "files/tables.py",
        "if len(known[name]) > _numbered_by(types[name].index_type):",
        "if len(known[name]) > 2 * _numbered_by(types[name].index_type):",
        "tests/cli/test_tables.py -k outgrow",
    ),
    Fault(
        "answers",
        "answers/buckets.py",
        "probe_of, items, agree = probe_of[promising], items[promising], False",
        "probe_of, items, agree = probe_of[promising], items[~promising], False",
        "tests/answers/test_search_many.py -k single_ones",
    ),
    Fault(
        "answers",
        "answers/entities.py",
        "settings = reader.transaction.environment.history + opened.settings.identity",
        "settings = reader.transaction.environment.uuid.bytes + opened.settings.identity",
        "tests/answers/test_entities.py -k mean_other_items",
    ),
    Fault(
        "answers",
        "answers/exact/method.py",
        "    return reader.number, reader.manifest.changes, history\n",
        "    return reader.number, reader.manifest.changes, 0\n",
        "tests/answers/test_join.py -k left_off",
    ),
    Fault(
        "ingest",
        "ingest/add.py",
        "            if present is not under:\n",
        "            if present is not known:\n",
        "tests/upkeep/test_two_at_once.py -k signed_ahead",
    ),
    Fault(
        "kinds",
        "kinds/base.py",
        "        if not offsets.size or offsets[0] or offsets[-1] != values.size:\n",
        "        if False:\n",
        "tests/kinds/test_a_kind_of_your_own.py -k breaks_the_contract",
    ),
    Fault(
        "",
        "arguments.py",
        "    number = index(value) if is_whole(value) else None\n",
        "    number = value if is_whole(value) else None\n",
        "tests/database/test_bad_arguments.py -k numbers_of_numpy",
    ),
    Fault(
        "kinds",
        "kinds/base.py",
        "        return value if type(value) is str else str.__str__(value)\n",
        "        return value\n",
        "tests/database/test_bad_arguments.py -k classes_of_their_own",
    ),
    Fault(
        "kinds",
        "kinds/base.py",
        "    if size > most:\n",
        "    if False:\n",
        "tests/kinds/test_set_items.py -k before_it_is_read",
    ),
    Fault(
        "upkeep",
        "upkeep/audit.py",
        "errors = [found[item] * total - found.total() * pairs for item, pairs in true.items()]",
        "errors = [found[item] - found.total() / total * pairs for item, pairs in true.items()]",
        "tests/upkeep/test_audit.py -k single_item",
    ),
    Fault(
        "upkeep",
        "upkeep/survey.py",
        "is_known = not isnan(settings.plan.expected_recall(float(bound.fraction)))",
        "is_known = True",
        "tests/upkeep/test_survey.py -k unknown_recall",
    ),
    Fault(
        "cli",
        "cli/tune.py",
        "{one.bytes / max(found.bytes, 1):.1%}",
        "{one.bytes / found.bytes:.1%}",
        "tests/cli/test_tune.py -k all_empty",
    ),
    Fault(
        "cli",
        "cli/tune.py",
        "form = promised if promised in common else common[0]",
        'form = promised or "jsonl"',
        "tests/cli/test_tune.py -k proposed_command",
    ),
    Fault(
        "lsh",
        "lsh/planning.py",
        'count = require_whole("items", items, 0, _MOST_ITEMS, optional=False)',
        "count = items",
        "tests/lsh/test_planning.py -k points_and_of_items",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "isinstance(kind, Kind) and kind.json_form == Text.json_form and kind.has_symbols",
        "isinstance(kind, Kind)",
        "tests/database/test_bad_settings.py -k names_and_settings",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "np.abs(values - threshold) < BIN - 1e-9",
        "np.abs(values - threshold) < BIN",
        "tests/cli/test_tune.py -k whole_range_away",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "is_kept[row] = not np.any(lefts & is_kept)",
        "is_kept[row] = not np.any(lefts)",
        "tests/cli/test_tune.py -k too_many",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "above = np.rint(above * trial.histogram / kept).astype(np.int64)",
        "pass",
        "tests/cli/test_tune.py -k too_many",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "independent = pooled / max(measured, supposed)",
        "independent = pooled / measured",
        "tests/cli/test_tune.py -k hold_the_truth",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "supposed = weights @ np.minimum(doubted * (1 - doubted), pooled)",
        "supposed = weights @ (doubted * (1 - doubted))",
        "tests/cli/test_tune.py -k hold_the_truth",
    ),
    Fault(
        "tuning",
        "tuning.py",
        "return 0.0, (0.0, float(pairs.sum())), 0",
        "return 0.0, (0.0, 0.0), 0",
        "tests/cli/test_tune.py -k not_judged",
    ),
    Fault(
        "linkage",
        "linkage/weights.py",
        "odds[self.pattern] / max(free, LEAST_FREE)\n",
        "odds[self.pattern]\n",
        "tests/linkage/test_weights.py -k probabilities_are_true",
    ),
    Fault(
        "",
        "collection.py",
        "            if containment is not None:\n"
        "                similar = self.kind.parse_bound(threshold, max_distance)\n",
        "            if containment is not None:\n"
        "                similar = self._contained_bound(threshold, max_distance)\n",
        "tests/ingest/test_ordered.py -k similarity_of_their_kind",
    ),
    Fault(
        "kernels",
        "kernels/strings.py",
        "for at_length in range(np.searchsorted(lengths, shortest), lengths.size):",
        "for at_length in range(np.searchsorted(lengths, shortest) + 1, lengths.size):",
        "tests/kinds/test_string.py -k without_a_bound",
    ),
    Fault(
        "kernels",
        "kernels/strings.py",
        "nearest[0] * scale + is_share",
        "nearest[0] * scale - 2 + is_share",
        "tests/answers/test_ranking.py -k wide_bounds",
    ),
    Fault(
        "kernels",
        "kernels/edits.py",
        "                swapped_before = fits >> _HIGHEST\n",
        "                swapped_before = _NOTHING\n",
        "tests/kernels/test_edits.py",
    ),
    Fault(
        "kernels",
        "kernels/edits.py",
        "risen, risen_before = (risen << _ONE) | risen_before, risen >> _HIGHEST",
        "risen, risen_before = (risen << _ONE) | _ONE, risen >> _HIGHEST",
        "tests/kernels/test_edits.py",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "far = values if opened.settings.kind.is_distance else -values",
        "far = values",
        "tests/answers/test_ranking.py -k wide_bounds",
    ),
    Fault(
        "upkeep",
        "upkeep/weigh.py",
        "    matching = {value: min(count, others.get(value, 0)) - is_one for",
        "    matching = {value: min(count, others.get(value, count)) - is_one for",
        "tests/kinds/test_record_weights.py -k equal_by_chance",
    ),
    Fault(
        "upkeep",
        "upkeep/weigh.py",
        "        if share > 1 + _ROUNDING:\n",
        "        if False:\n",
        "tests/kinds/test_record_weights.py -k hundredths",
    ),
    Fault(
        "upkeep",
        "upkeep/weigh.py",
        "(before.settings, before.deleted) == (settings, deleted)",
        "before.deleted == deleted",
        "tests/kinds/test_record_weights.py -k of_other_collections",
    ),
    Fault(
        "upkeep",
        "upkeep/rebuild.py",
        "    if settings.number not in catalogue.numbers(transaction):\n",
        "    if False:\n",
        "tests/upkeep/test_compact.py -k dropped_meanwhile",
    ),
    Fault(
        "steps",
        "steps/graph.py",
        "    if not are_numbers or left.ndim != 1 or left.shape != right.shape:\n",
        "    if not are_numbers:\n",
        "tests/steps/test_steps.py -k no_two_equal",
    ),
    Fault(
        "cli",
        "storage/tables/layout.py",
        "struct.error, AttributeError, TypeError):",
        "struct.error):",
        "tests/cli/test_dedupe.py -k two_types",
    ),
    Fault(
        "files",
        "files/separated.py",
        "        tokens = self.fields_of(raw)\n        self._key(tokens, 0)\n",
        "        tokens = self.fields_of(raw)\n",
        "tests/cli/test_dedupe.py -k no_element",
    ),
    Fault(
        "dedupe",
        "ingest/ordered.py",
        "                        self._standing.stay(document.number)\n",
        "                        pass\n",
        "tests/ingest/test_ordered.py -k that_stays",
    ),
    Fault(
        "cli",
        "cli/dedupe.py",
        "if not raw.endswith(reader.line_ends):",
        'if not raw.endswith((b"\\n", b"\\r")):',
        "tests/cli/test_dedupe.py -k only_a_line_feed",
    ),
    Fault(
        "add",
        "ingest/add.py",
        "for place in fates.again() if of_content}",
        "for place in fates.again()}",
        "tests/ingest/test_add_many.py -k comes_again",
    ),
    Fault(
        "dedupe",
        "ingest/add.py",
        "                if fates.stored[row] in absent or fates.stored[row] not in self._seen\n",
        "                if fates.stored[row] in absent\n",
        "tests/ingest/test_dedupe.py -k keeps_a_third",
    ),
    Fault(
        "kernels",
        "kernels/buckets.py",
        "        elif every_group > 1 or not only_first:\n",
        "        elif every_group > 64 or not only_first:\n",
        "tests/kinds/test_fingerprint_family.py -k in_every_group_and_no_others",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "                met &= far <= np.partition(far, most - 1)[most - 1]\n",
        "                pass\n",
        "tests/answers/test_ranking.py -k wide_bounds",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "            if len(answer) < limit and ranked.numbers.size >= most\n",
        "            if not len(answer)\n",
        "tests/answers/test_ranking.py -k wide_bounds",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "min(wanted, manifest.live) + manifest.tombstones",
        "min(wanted, manifest.live)",
        "tests/answers/test_ranking.py -k wide_bounds",
    ),
    Fault(
        "answers",
        "answers/method.py",
        "np.flatnonzero(~(order > last))",
        "np.flatnonzero(order < last)",
        "tests/answers/test_ranking.py -k in_order",
    ),
    Fault(
        "answers",
        "answers/ranking.py",
        "order[places[begins[full] + self._limit - 1]]",
        "order[places[begins[full]]]",
        "tests/answers/test_ranking.py -k whatever_parts",
    ),
    Fault(
        "dedupe",
        "ingest/ordered.py",
        "bad=[self._bad[row] for row in bad]",
        "bad=[self._bad[row] for row in bad] if end == fit else []",
        "tests/ingest/test_ordered.py -k however_rows_wait",
    ),
    Fault(
        "dedupe",
        "ingest/ordered.py",
        "    if len(set(keys)) == len(keys):\n",
        "    if keys:\n",
        "tests/ingest/test_ordered.py",
    ),
    Fault(
        "cli",
        "files/spilled.py",
        "        end = self._file.seek(0, SEEK_END)\n",
        "        end = self._ends[-1] if self._ends else self._file.seek(0, SEEK_END)\n",
        "tests/cli/test_dedupe.py -k keys_that_come_twice",
    ),
    Fault(
        "dedupe",
        "ingest/removed.py",
        "self._contents(items, rows) != contents[places[rows]]",
        "self._contents(items, rows) == contents[places[rows]]",
        "tests/ingest/test_dedupe.py -k hashes_of_removed",
    ),
    Fault(
        "upkeep",
        "upkeep/survey.py",
        "np.multiply.at(missed, ",
        "np.minimum.at(missed, ",
        "tests/upkeep/test_survey.py -k near_misses",
    ),
    Fault(
        "steps",
        "steps/signing.py",
        "    if least < 0:\n",
        "    if False:\n",
        "tests/steps/test_steps.py -k below_0",
    ),
    Fault(
        "dedupe",
        "ingest/dedupe.py",
        "            stays = ~self._leaving.among(candidates.numbers)\n",
        "            stays = np.ones(candidates.numbers.size, np.bool_)\n",
        "tests/ingest/test_dedupe.py -k removes_nothing",
    ),
    Fault(
        "dedupe",
        "ingest/ordered.py",
        "                    self._standing.stand(document.number, batch.rows[row])\n",
        "                    pass\n",
        "tests/ingest/test_ordered.py -k resembles",
    ),
    Fault(
        "dedupe",
        "ingest/add.py",
        "                fates.renewed.append(row)\n",
        "                pass\n",
        "tests/ingest/test_dedupe.py -k equal_item",
    ),
    Fault(
        "dedupe",
        "ingest/add.py",
        "                fates.left.append(fates.stored[row])\n",
        "                pass\n",
        "tests/ingest/test_dedupe.py -k replaces_it",
    ),
    Fault(
        "results",
        "results.py",
        "        self.token = self._first_token\n",
        "",
        "tests/answers/exact/test_pairs_store.py -k left_off_not_of",
    ),
    Fault(
        "dedupe",
        "ingest/add.py",
        "            self._removed.add(batch.keys, batch.items, gone)\n",
        "            pass\n",
        "tests/ingest/test_dedupe.py -k was_removed",
    ),
    Fault(
        "cli",
        "cli/feed.py",
        "        if len(self._types) == 1:\n",
        "        if self._types:\n",
        "tests/cli/test_outputs.py -k number_whose_text",
    ),
    Fault(
        "cli",
        "cli/feed.py",
        "(is_stored or _hash_of(other) in self._unstored)",
        "is_stored",
        "tests/cli/test_outputs.py -k key_of_both_types",
    ),
    Fault(
        "cli",
        "cli/feed.py",
        "{*self._removed, *map(_hash_of, waiting)}",
        "set(map(_hash_of, waiting))",
        "tests/cli/test_outputs.py -k key_of_a_removed_row",
    ),
    Fault(
        "cli",
        "cli/feed.py",
        "self._types |= target.key_types()",
        "self._types |= {_type_of(next(target.items()).key)} if len(target) else set()",
        "tests/cli/test_outputs.py -k both_types_come_again",
    ),
    Fault(
        "recovery",
        "recovery/repair.py",
        "            if not (salvage.certain or salvage.collections or salvage.lost):\n",
        "            if False:\n",
        "tests/recovery/test_repair.py -k no_store",
    ),
    Fault(
        "answers",
        "metadata.py",
        "    if isinstance(one, bool) or isinstance(other, bool):\n",
        "    if False:\n",
        "tests/answers/test_where.py -k true",
    ),
    Fault(
        "files",
        "arrow.py",
        "        return bool(np.isfinite(given).all())\n",
        "        return True\n",
        "tests/cli/test_inputs.py -k infinities",
    ),
    Fault(
        "files",
        "files/databases.py",
        "[*map(arrow.plain, column)] if float in",
        "[*map(arrow.plain, column)] if complex in",
        "tests/cli/test_inputs.py -k infinities",
    ),
    Fault(
        "files",
        "arrow.py",
        "        if not _FIRST_SECOND <= scalar.value // a_second < _END_SECOND:\n",
        "        if False:\n",
        "tests/frames/test_arrow.py -k iso_s_form",
    ),
    Fault(
        "files",
        "arrow.py",
        "day - day // 1_460 + day // 36_524 - day // 146_096",
        "day - day // 1_460 + day // 36_524",
        "tests/frames/test_arrow.py -k gregorian",
    ),
    Fault(
        "serve",
        "serve/answers.py",
        "missing=asked.missing, at_once=True)",
        "missing=asked.missing)",
        "tests/serve/test_serve.py -k refused_changes_nothing",
    ),
    Fault(
        "serve",
        "serve/application.py",
        "        lane = self._writes if one.writes else self._reads\n",
        "        lane = self._reads\n",
        "tests/serve/test_serve.py -k nobody_who_reads_waits",
    ),
    Fault(
        "ingest",
        "ingest/rows.py",
        "                if key in seen and is_whole:\n",
        "                if False:\n",
        "tests/ingest/test_add_many.py -k at_once_or_none",
    ),
    Fault(
        "ingest",
        "ingest/add.py",
        "        if self._policy.is_whole:\n",
        "        if False:\n",
        "tests/ingest/test_add_many.py -k are_not_cut",
    ),
    Fault(
        "answers",
        "answers/kept.py",
        "    if since > last:\n",
        "    if False:\n",
        "tests/ingest/test_grouping.py -k has_not_been",
    ),
    Fault(
        "opened",
        "opened/catalogue.py",
        "    if present.number != before.number and before.number in numbers(transaction):\n",
        "    if False:\n",
        "tests/database/test_stale_objects.py -k renamed",
    ),
    Fault(
        "answers",
        "answers/exact/memory.py",
        "    for some in slices_of(signer.items.weights(items), LOADED_AT_ONCE):\n",
        "    for some in [slice(None)]:\n",
        "tests/answers/exact/test_pairs_store.py -k long_texts",
    ),
    Fault(
        "groups",
        "linkage/living.py",
        "(-share.size, share.first)",
        "(share.size, share.first)",
        "tests/linkage/test_living.py",
    ),
    Fault(
        "groups",
        "ingest/grouping.py",
        "            edges.update(self._handed_on(level, members, edges))\n",
        "            pass\n",
        "tests/ingest/test_grouping.py -k anew",
    ),
    Fault(
        "dedupe",
        "ingest/dedupe.py",
        "        after = ~self._challenge.before(self._opened, rows, numbers)\n",
        "        after = self._challenge.before(self._opened, rows, numbers)\n",
        "tests/ingest/test_ordered.py -k maximal",
    ),
    Fault(
        "dedupe",
        "ingest/add.py",
        "        return _wrong_from(fates)\n",
        "        return 0\n",
        "tests/ingest/test_ordered.py -k maximal",
    ),
    Fault(
        "kernels",
        "kernels/runs.py",
        "        if not is_marked(marks, np.int64(item)):\n",
        "        if True:\n",
        "tests/storage/test_run_merges.py -k dead",
    ),
    Fault(
        "kernels",
        "kernels/bits.py",
        "\n        if distance <= limit:",
        "\n        if distance < limit:",
        "tests/kinds/test_bits_measures.py",
    ),
    Fault(
        "lsh",
        "lsh/family.py",
        "            return matches\n    return rows",
        "            return matches + 1\n    return rows",
        "tests/lsh/test_banding.py",
    ),
    Fault(
        "lsh",
        "lsh/family.py",
        "words = (words ^ (words >> np.uint64(27))) *",
        "words = (words ^ (words >> np.uint64(28))) *",
        "tests/lsh/test_families.py -k splitmix64",
    ),
    Fault(
        "kinds",
        "kinds/contrast.py",
        "if name in others:",
        "if name not in others:",
        "tests/kinds/test_contrast.py",
    ),
    Fault(
        "kinds",
        "kinds/bits.py",
        "return self.length == other.length",
        "return True",
        "tests/kinds/test_stored_alike.py",
    ),
    Fault(
        "exact",
        "exact/thresholds.py",
        "return max(1, _ceiling(numerator * total_size, numerator + denominator))",
        "return max(1, numerator * total_size // (numerator + denominator))",
        "tests/exact/test_thresholds.py",
    ),
    Fault(
        "kinds",
        "kinds/bags.py",
        "if not 0 <= similarity <= LARGEST_SUM:",
        "if not 0 <= similarity < LARGEST_SUM:",
        "tests/kinds/test_bag_measures.py",
    ),
    Fault(
        "kinds/records",
        "kinds/records/points.py",
        "weights += field.weight * present",
        "weights += field.weight",
        "tests/kinds/test_record_measure.py",
    ),
    Fault(
        "kinds",
        "kinds/fingerprints.py",
        "_SECTOR_BORDER if kind.sectors > 1 else 0",
        "0",
        "tests/kinds/test_fingerprint_items.py",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        'metasync=self.sync == "full"',
        "metasync=False",
        "tests/storage/test_environment.py -k meta_page",
    ),
    Fault(
        "storage/file",
        "storage/file/log.py",
        "begin = self.place.end + 1",
        "begin = self.place.end",
        "tests/storage/test_log.py -k two_processes",
    ),
    Fault(
        "storage/file",
        "storage/file/log.py",
        "and known.place.commit <= place.commit",
        "",
        "tests/storage/test_log.py -k late",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        "                self.put(table, key, value)\n            return\n",
        "                self._hold_back(table, key, value)\n            return\n",
        "tests/storage/test_log.py -k outgrow",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        "        for key in folded.segments():\n            self._transaction.delete(key)\n",
        "",
        "tests/storage/test_log.py -k everybody",
    ),
    Fault(
        "recovery",
        "recovery/repair.py",
        "yield document, self._file.log_is_whole",
        "yield document, True",
        "tests/storage/test_log.py -k damage",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        "        if self._process is not _process:\n            # The parent's",
        "        if False:\n            # The parent's",
        "tests/storage/test_environment_processes.py -k fork",
    ),
    Fault(
        "storage/tables",
        "storage/tables/runs.py",
        "        for key in used_up:\n            self._transaction.delete(self._table, key)\n",
        "",
        "tests/storage/test_runs.py",
    ),
    Fault(
        "storage/tables",
        "storage/tables/runs.py",
        "(len(idle) > 1 or any(r.dead for r in idle))",
        "len(idle) > 1",
        "tests/storage/test_run_merges.py -k full_merge_starts",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        "return bool(commit == self._watch.newest_commit())",
        "return False",
        "tests/storage/test_names.py -k killed_there",
    ),
    Fault(
        "storage/file",
        "storage/file/preflight.py",
        "if kind != (LEAF if tree.depth == 1 else BRANCH) or not (counted and whole):",
        "if not whole:",
        "tests/storage/test_preflight.py -k first_pages",
    ),
    Fault(
        "storage/file",
        "storage/file/environment.py",
        "written[0] + 1 != self.identity",
        "False",
        "tests/database/test_concurrency.py -k another_process",
    ),
    Fault(
        "storage/collection",
        "storage/collection/tombstones.py",
        "& (numbers >> 3 < tombstones.size)",
        "",
        "tests/storage/test_tombstones.py",
    ),
    Fault(
        "opened",
        "opened/catalogue.py",
        "present.number != before.number and present.kind != before.kind",
        "False",
        "tests/database/test_stale_objects.py -k another_kind_is_refused and bits",
    ),
    Fault(
        "answers",
        "answers/buckets.py",
        "words, places, needed.words)",
        "words, places, needed.words + 1)",
        "tests/answers/test_search.py",
    ),
    Fault(
        "answers/exact",
        "answers/exact/method.py",
        "compared.numerators >= criterion",
        "compared.numerators > criterion",
        "tests/answers/exact/test_search_store.py",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "later = others[places] > number",
        "later = others[places] >= number",
        "tests/kinds/test_store_of_every_kind.py -k exact_pairs and record",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "met = opened.reader.alive(of_all)",
        "met = np.ones(of_all.size, np.bool_)",
        "tests/answers/test_scans.py",
    ),
    Fault(
        "storage",
        "storage/tables/blocks.py",
        "rows[cuts[block] : cuts[block + 1]] - self._bounds[block]",
        "rows[cuts[block] : cuts[block + 1]] - self._bounds[block - 1]",
        "tests/answers/test_scans.py",
    ),
    Fault(
        "storage",
        "storage/tables/blocks.py",
        "yield int(self._bounds[some.start]), Pieces",
        "yield int(self._bounds[some.stop]), Pieces",
        "tests/answers/test_scans.py",
    ),
    Fault(
        "kernels",
        "kernels/bits.py",
        "        before += counts[piece]",
        "        before += vectors.shape[0] - 1",
        "tests/kernels/test_register.py -k bit_scans",
    ),
    Fault(
        "ingest",
        "ingest/grouping.py",
        "batch = PairBatch.of(nothing, nothing, told, is_distance=kind.is_distance)",
        "batch = PairBatch(nothing, nothing, told)",
        "tests/ingest/test_grouping.py -k by_distance",
    ),
    Fault(
        "upkeep",
        "upkeep/regroup.py",
        'method = choose(opened.settings, Question("add", bound))',
        'method = choose(opened.settings, Question("pairs", bound))',
        "tests/ingest/test_grouping.py -k by_distance",
    ),
    Fault(
        "answers",
        "answers/slabs.py",
        "forest.connect(numbers[firsts[copies[met]]], numbers[copies[met]])",
        "forest.connect(numbers[firsts[copies]], numbers[copies])",
        "tests/answers/test_groups.py -k nothing_to_compare",
    ),
    Fault(
        "answers",
        "answers/buckets.py",
        "is_planned = admits(settings.bound, self.bound)",
        "is_planned = True",
        "tests/database/test_stale_objects.py -k serves_no_more",
    ),
    Fault(
        "arrow",
        "arrow.py",
        "if array.null_count:  # of a dictionary",
        "if False:  # of a dictionary",
        "tests/frames/test_arrow.py -k values_of_a_dictionary",
    ),
    Fault(
        "answers",
        "answers/choose.py",
        "own = settings.bound if by_jaccard else kind.outer_bound(settings.bound)",
        "own = settings.bound",
        "tests/kinds/test_bag_measures.py -k every_measure",
    ),
    Fault(
        "recovery",
        "recovery/dump.py",
        "if _digest_of_file(file) != digest:",
        "if False:",
        "tests/recovery/test_dump.py -k any_bit",
    ),
    Fault(
        "storage",
        "storage/file/creation.py",
        "lock=False,  # nobody else",
        "lock=True,  # nobody else",
        "tests/storage/test_faults.py -k new_store_on_a_full",
    ),
    Fault(
        "frames",
        "frames.py",
        "{new: row.get(old) for new, old in wanted.items()}",
        "{new: row.get(new) for new, old in wanted.items()}",
        "tests/frames/test_one_call.py -k other_names",
    ),
    Fault(
        "answers",
        "answers/scan.py",
        "opened.reader.transaction.require_open()  # nobody has written",
        "pass  # nobody has written",
        "tests/answers/test_scans.py -k written_over",
    ),
    Fault(
        "kernels",
        "kernels/vectors.py",
        "if np.float64(total) > most:",
        "if np.float64(total) > most / 4:",
        "tests/kernels/test_register.py -k distances_of",
    ),
    Fault(
        "ingest",
        "ingest/ordered.py",
        "    with suppress(OSError):\n        file.close()",
        "    file.close()",
        "tests/ingest/test_ordered.py -k full_disk",
    ),
    Fault(
        "recovery",
        "recovery/untrusted.py",
        "if child.returncode in _NO_STORE:",
        "if False:",
        "tests/recovery/test_untrusted.py -k another_format",
    ),
    Fault(
        "ingest",
        "ingest/given.py",
        "if lacks.any():\n            raise",
        "if False:\n            raise",
        "tests/ingest/test_given_signatures.py -k good_one",
    ),
    Fault(
        "frames",
        "frames.py",
        '[table.of_whole_rows(forms) for table in tables], Set(), {"threshold": 1}\n',
        '[table.of_fields(kind) for table in tables], kind, {"threshold": 1}\n',
        "tests/frames/test_one_call.py -k no_unequal_row_is_lost",
    ),
    Fault(
        "frames",
        "frames.py",
        "        return order.reading(read)\n",
        "        return order\n",
        "tests/frames/test_one_call.py -k no_text_is_compared_by_value",
    ),
    Fault(
        "whole rows",
        "kinds/whole.py",
        "{name: _READ[form](row.get(name))}",
        "{name: str(_READ[form](row.get(name)))}",
        "tests/kinds/test_whole_rows.py -k unequal_values",
    ),
    Fault(
        "whole rows",
        "kinds/whole.py",
        '                forms[name] = "as numbers"\n',
        "                pass\n",
        "tests/frames/test_one_call.py -k numbers_equal_the_texts",
    ),
    Fault(
        "whole rows",
        "files/rows.py",
        "        if self.options.whole_rows is not None:\n",
        "        if False:\n",
        "tests/cli/test_link.py -k nothing_is_learnt",
    ),
    Fault(
        "policies",
        "policies.py",
        "{zone or '+00:00'}",
        "+00:00",
        "tests/ingest/test_ordered.py -k when_they_are",
    ),
    Fault(
        "policies",
        "policies.py",
        "        if term is None:\n            raise",
        "        if False:\n            raise",
        "tests/ingest/test_ordered.py -k cannot_be_read_says_why",
    ),
    Fault(
        "policies",
        "cli/dedupe.py",
        ".naming(key=options.id_field, item=item)",
        "",
        "tests/cli/test_dedupe.py -k names_of_their_fields",
    ),
    Fault(
        "policies",
        "policies.py",
        "                place.append(last)\n",
        "                return self.last\n",
        "tests/ingest/test_ordered.py -k term_that_fails",
    ),
    Fault(
        "policies",
        "policies.py",
        "value is None or self._is_blank(value)",
        "value is None",
        "tests/ingest/test_ordered.py -k blank_text",
    ),
    Fault(
        "policies",
        "policies.py",
        "row.item if isinstance(row.item, _Record) else None):",
        "row.item):",
        "tests/ingest/test_ordered.py -k elements_of_a_bag",
    ),
    Fault(
        "policies",
        "policies.py",
        "return replace(row, item=_Record(row.item)) if self._of_records else row",
        "return row",
        "tests/ingest/test_ordered.py -k numbers_of_a_record",
    ),
    Fault(
        "spark",
        "spark/sessions.py",
        "found = kind(told[2])",
        "found = kind(told[1])",
        "tests/spark/test_spark.py -k error_of_a_task",
    ),
    Fault(
        "steps",
        "steps/streams.py",
        "        cut = int(np.searchsorted(numbers_of(whole.column(key)), last))",
        "        cut = whole.num_rows",
        "tests/steps/test_steps.py -k streams",
    ),
    Fault(
        "batches",
        "batches/signer.py",
        "if known is not bound:",
        "if known is None:",
        "tests/answers/test_search.py -k differ",
    ),
    Fault(
        "lsh",
        "lsh/family.py",
        "if sizes.size and (sizes == sizes[0]).all():",
        "if sizes.size:",
        "tests/lsh/test_bucket_keys.py",
    ),
    Fault(
        "answers",
        "answers/buckets.py",
        "return np.array(distinct, np.uint32), min(map(listed.count, distinct))",
        "return np.array(distinct, np.uint32), max(map(listed.count, distinct))",
        "tests/answers/test_search_many.py",
    ),
    Fault(
        "batches",
        "batches/deciding.py",
        "of_several = ~(begins & ends)",
        "of_several = ~(begins | ends)",
        "tests/ingest/test_dedupe.py",
    ),
    Fault(
        "upkeep",
        "upkeep/rebuild.py",
        " and not catalogue.is_being_built(transaction)",
        "",
        "tests/upkeep/test_two_at_once.py",
    ),
    Fault(
        "recovery",
        "recovery/untrusted.py",
        "    report = database.check(deep=True)\n",
        "    report = database.check()\n",
        "tests/recovery/test_untrusted.py",
    ),
    Fault(
        "upkeep",
        "upkeep/check.py",
        "if size != state.item_bytes:",
        "if False:",
        "tests/upkeep/test_check.py -k wrong_counts",
    ),
    Fault(
        "recovery",
        "recovery/repair.py",
        "        creation.link_into_place(temporary, target)\n",
        "        target.hardlink_to(temporary)\n",
        "tests/recovery/test_repair.py -k synced",
    ),
    Fault(
        "recovery",
        "recovery/pages.py",
        "if len(page) < self._page_size or _NUMBER.unpack_from(page)[0] != number:",
        "if len(page) < self._page_size:",
        "tests/recovery/test_salvage.py",
    ),
    Fault(
        "files",
        "files/separated.py",
        "        if len(values) != len(header):",
        "        if len(values) > len(header):",
        "tests/files/test_lines.py -k csv or header or field",
    ),
    Fault(
        "cli",
        "cli/pairs.py",
        '{"left": pair.left, "right": pair.right, **measured(pair)}',
        '{"left": pair.right, "right": pair.left, **measured(pair)}',
        "tests/cli/test_sets.py",
    ),
    Fault(
        "storage/file",
        "storage/file/errors.py",
        "code in _FULL or (code == errno.EIO and _is_cut_short(path))",
        "code in _FULL",
        "tests/storage/test_lmdb_errors.py -k cut_short",
    ),
    Fault(
        "storage/file",
        "storage/file/creation.py",
        "return with_reserve(2 * limit)",
        "return with_reserve(limit)",
        "tests/storage/test_environment_space.py -k fills_up_grows",
    ),
    Fault(
        "storage/file",
        "storage/file/creation.py",
        "        if held(descriptor):\n            return temporary",
        "        if True:\n            return temporary",
        "tests/storage/test_unfinished.py -k before_it_is_held",
    ),
    Fault(
        "storage/file",
        "storage/file/locks.py",
        "if self._owner is not None and self._owner() is owner:",
        "if self._owner is not None:",
        "tests/storage/test_locks.py -k give_it_away",
    ),
    Fault(
        "storage/tables",
        "storage/tables/layout.py",
        "max(sizes) <= 1 + LONGEST_KEY",
        "max(sizes) <= 2 + LONGEST_KEY",
        "tests/storage/test_keys.py -k cannot_be_stored",
    ),
    Fault(
        "storage/tables",
        "storage/tables/blocks.py",
        "if record_checksum(self.key[:4], number, record) != int(self.checksums[position]):",
        "if False:",
        "tests/storage/test_blocks.py -k flipped",
    ),
    Fault(
        "storage/tables",
        "storage/tables/views.py",
        "step * (most_met_of_others + len(runs))",
        "step * most_met_of_others",
        "tests/storage/test_bucket_sizes.py -k sample_meets",
    ),
    Fault(
        "storage/collection",
        "storage/collection/manifest.py",
        "-(-self.posted_entries // self.posted_items)",
        "self.posted_entries // self.posted_items",
        "tests/storage/test_manifest.py",
    ),
    Fault(
        "storage/collection",
        "storage/collection/manifest.py",
        "if len(payload) != 8 * epoch.frequent:",
        "if False:",
        "tests/storage/test_manifest.py",
    ),
    Fault(
        "storage/collection",
        "storage/collection/reader.py",
        "if known is None or known[0] != checksum:",
        "if known is None:",
        "tests/database/test_concurrency.py -k another_process",
    ),
    Fault(
        "opened",
        "opened/opened.py",
        "if self.read_only:  # others",
        "if False:  # others",
        "tests/database/test_bad_databases.py -k read_only",
    ),
    Fault(
        "opened",
        "opened/request.py",
        "if not present.kind.stores_alike(wanted):",
        "if False:",
        "tests/kinds/test_stored_alike.py",
    ),
    Fault(
        "batches",
        "batches/signer.py",
        "features.offsets[1:] > features.offsets[:-1]",
        "features.offsets[1:] >= features.offsets[:-1]",
        "tests/ingest/test_dedupe.py -k empty",
    ),
    Fault(
        "batches",
        "batches/signer.py",
        "8 * most // (2 * self.family.words + 8 * self.settings.most_keys)",
        "8 * most // (2 * self.family.words + self.settings.most_keys)",
        "tests/ingest/test_batches.py -k bucket_keys",
    ),
    Fault(
        "ingest",
        "ingest/rows.py",
        "if batch.rows and batch.weight + weight > batch_bytes:",
        "if False:",
        "tests/ingest/test_batches.py -k too_much",
    ),
    Fault(
        "ingest",
        "ingest/add.py",
        "within[~within] = self._came_with_input(numbers[~within])",
        "within[~within] = False",
        "tests/ingest/test_batches.py -k earlier_batch",
    ),
    Fault(
        "ingest",
        "ingest/add.py",
        "first_rows.get(number, 0) <= place",
        "first_rows.get(number, 0) > place",
        "tests/ingest/test_dedupe.py -k within_input",
    ),
    Fault(
        "ingest",
        "ingest/postings.py",
        "if signed.prefixes is not None and signed.prefixes.epoch == epoch.number:",
        "if signed.prefixes is not None:",
        "tests/answers/exact/test_epochs.py",
    ),
    Fault(
        "answers",
        "answers/choose.py",
        "if by_jaccard and settings.is_probable:",
        "if settings.is_probable:",
        "tests/answers/exact/test_measures_join.py",
    ),
    Fault(
        "answers",
        "answers/compare.py",
        "Compared(compared.numerators[order], compared.denominators[order])",
        "Compared(compared.numerators[order], compared.denominators)",
        "tests/ingest/test_portions.py -k their_own",
    ),
    Fault(
        "answers",
        "answers/method.py",
        "partial(key_column, right.reader), partial(metadata_column, right.reader)",
        "known.keys, partial(metadata_column, right.reader)",
        "tests/answers/test_join.py -k memory",
    ),
    Fault(
        "answers",
        "answers/slabs.py",
        "return self._sorting.pairs(opened, since=since)",
        "return self._sorting.pairs(opened)",
        "tests/answers/test_chunk_index.py -k many_new",
    ),
    Fault(
        "kinds",
        "kinds/distances.py",
        "    if any(map(math.isnan, differences)):\n",
        "    if False:\n",
        "tests/book/test_distances.py -k no_number",
    ),
    Fault(
        "kinds",
        "kinds/base.py",
        "    if masked.size:\n",
        "    if False:\n",
        "tests/kinds/test_contract.py -k masked",
    ),
    Fault(
        "exact",
        "exact/measures.py",
        "2 * overlaps / (sizes + stored_sizes)",
        "overlaps / (sizes + stored_sizes)",
        "tests/answers/exact/test_measures_join.py",
    ),
    Fault(
        "answers/exact",
        "answers/exact/memory.py",
        "yield numbers[same[copies]], numbers[copies]",
        "yield numbers[copies], numbers[copies]",
        "tests/answers/test_groups.py -k copies",
    ),
    Fault(
        "together",
        "opened/together.py",
        "within_input = None if outcome.within_input is None else False",
        "within_input = outcome.within_input",
        "tests/opened/test_together.py -k told",
    ),
    Fault(
        "together",
        "opened/together.py",
        'if outcome.action != "bad":',
        "if outcome.action:",
        "tests/opened/test_together.py -k bad_row",
    ),
    Fault(
        "together",
        "opened/opened.py",
        "self._together[0] != os.getpid()",
        "not self._together",
        "tests/opened/test_together.py -k fork",
    ),
    Fault(
        "serve",
        "serve/guard.py",
        '            if scope["method"] not in HARMLESS:\n',
        '            if scope["method"] in HARMLESS:\n',
        "tests/serve/test_serve.py -k pages_of_others",
    ),
    Fault(
        "reports",
        "reports/pages.py",
        "autoescape=True",
        "autoescape=False",
        "tests/cli/test_report.py -k loads_nothing",
    ),
    Fault(
        "upkeep",
        "upkeep/audit.py",
        "    proposed.difference_update(own)\n",
        "",
        "tests/upkeep/test_audit.py -k candidate_of_its_own",
    ),
    Fault(
        "upkeep",
        "upkeep/calibrate.py",
        "generator.integers(1, lefts.size, size=count)",
        "generator.integers(0, lefts.size, size=count)",
        "tests/kinds/test_record_store_calibration.py -k equality",
    ),
    Fault(
        "upkeep",
        "upkeep/stats.py",
        "(bands + signature_bytes) / manifest.live",
        "bands / manifest.live",
        "tests/ingest/test_batches.py -k stats",
    ),
    Fault(
        "recovery",
        "recovery/dump.py",
        'if document["format"] != FORMAT:',
        "if False:",
        "tests/recovery/test_dump.py -k damaged_folder",
    ),
    Fault(
        "recovery",
        "recovery/restore.py",
        "with preflight.held_alone(target):",
        "if target:",
        "tests/recovery/test_restore.py -k left_alone",
    ),
    Fault(
        "kernels",
        "kernels/buckets.py",
        "_equal_rows(signatures[row], signatures[best]) >= needed",
        "_equal_rows(signatures[row], signatures[best]) > needed",
        "tests/kernels/test_bucket_kernels.py -k earlier_rows",
    ),
    Fault(
        "kernels",
        "kernels/elements.py",
        "np.int64((size - 1) // width) if (size - 1) % width == 0 else np.int64(-1)",
        "np.int64((size - 1) // width)",
        "tests/kinds/test_set_items.py -k damaged",
    ),
    Fault(
        "kernels",
        "kernels/fingerprints.py",
        "first = number if wanted == 0 else first",
        "first = number",
        "tests/kinds/test_fingerprint_family.py -k first_shared",
    ),
    Fault(
        "kernels",
        "kernels/hashes.py",
        "folded - MODULUS if folded >= MODULUS else folded",
        "folded - MODULUS if folded > MODULUS else folded",
        "tests/kernels/test_hashes.py",
    ),
    Fault(
        "kernels",
        "kernels/order.py",
        "keys[place] = ranks.holes[np.int64(symbol - lowest) - below]",
        "keys[place] = ranks.holes[np.int64(symbol - lowest)]",
        "tests/exact/test_order.py",
    ),
    Fault(
        "answers/exact",
        "answers/exact/probe.py",
        "            numbers = numbers[reader.alive(numbers)]\n",
        "            pass\n",
        "tests/answers/exact/test_search_store.py",
    ),
    Fault(
        "answers/exact",
        "answers/exact/sweep.py",
        "np.minimum(left_suffixes, right_suffixes) + found >= needed",
        "np.minimum(left_suffixes, right_suffixes) + found > needed",
        "tests/answers/exact/test_measures_join.py",
    ),
    Fault(
        "answers",
        "answers/slabs.py",
        "                    earlier = ones < others\n",
        "                    earlier = ones <= others\n",
        "tests/answers/test_slabs.py",
    ),
    Fault(
        "kernels",
        "kernels/overlaps.py",
        "left[pair] != left[pair - 1]",
        "left[pair] < left[pair - 1]",
        "tests/kinds/test_overlaps.py",
    ),
    Fault(
        "kernels",
        "kernels/postings.py",
        "position > bounds.prefixes[row]",
        "position >= bounds.prefixes[row]",
        "tests/exact/test_join.py",
    ),
    Fault(
        "kernels",
        "kernels/shingles.py",
        "    quarter = (windows + 3) // 4",
        "    quarter = windows // 4",
        "tests/kinds/test_shingling.py",
    ),
    Fault(
        "kernels",
        "kernels/shingles.py",
        "point < least or",
        "point < np.uint32(0) or",
        "tests/kinds/test_shingling.py -k utf8",
    ),
    Fault(
        "kernels",
        "kernels/sketches.py",
        "seeds[rows + row]) & _VALUE_MASK",
        "seeds[row]) & _VALUE_MASK",
        "tests/lsh/test_sketching.py",
    ),
    Fault(
        "kernels",
        "kernels/vectors.py",
        "number + np.int32(number >= 0)",
        "number + np.int32(number > 0)",
        "tests/lsh/test_family_words.py",
    ),
    Fault(
        "kernels",
        "kernels/compiling.py",
        'options["nogil"] = True',
        'options["nogil"] = False',
        "tests/kernels/test_register.py",
    ),
    Fault(
        "kernels",
        "kernels/machine.py",
        "wanted |= (kept.WRITEABLE if of.mutable else 0)",
        "wanted |= 0",
        "tests/kernels/test_kept.py",
    ),
    Fault(
        "kernels",
        "kernels/kept.py",
        "return LEVEL if has >= _FEATURES_OF_LEVEL and not is_chosen",
        "return LEVEL if not is_chosen",
        "tests/kernels/test_kept.py",
    ),
    Fault(
        "kernels",
        "kernels/compiler.py",
        "                    array[...] = instead\n",
        "                    pass\n",
        "tests/kernels/test_kept.py",
    ),
    Fault(
        "kernels",
        "kernels/compiler.py",
        "if entry is None or entry.is_written(name):",
        "if array.flags.writeable:",
        "tests/kernels/test_kept.py",
    ),
    Fault(
        "groups",
        "kernels/forest.py",
        "if one < other:",
        "if one > other:",
        "tests/answers/test_groups.py -k forest",
    ),
    Fault(
        "kernels",
        "kernels/kept.py",
        "if xxhash.xxh3_64_intdigest(whole) != checksum:",
        "if not checksum:",
        "tests/kernels/test_kept.py",
    ),
    Fault(
        "kernels",
        "kernels/register.py",
        '    Entry("vectors.scan", "n d", "3.5.2, 3.5.4"),\n',
        "",
        "tests/kernels/test_register.py",
    ),
    Fault(
        "exact",
        "exact/pigeonhole.py",
        "chunk :: most + 1]",
        "chunk :: max(1, most)]",
        "tests/exact/test_pigeonhole.py",
    ),
    Fault(
        "exact",
        "exact/products.py",
        "float(self._squares.max())",
        "float(self._squares.min())",
        "tests/exact/test_products.py",
    ),
    Fault(
        "exact",
        "exact/containment.py",
        "sets.sizes - self._needed + 1",
        "sets.sizes - self._needed",
        "tests/answers/exact/test_measures_join.py -k containment",
    ),
    Fault(
        "exact",
        "exact/joins.py",
        "count > start.batches",
        "count >= start.batches",
        "tests/answers/exact/test_threads.py",
    ),
    Fault(
        "files",
        "files/identical.py",
        "    while more and len(content) < width:",
        "    while False:",
        "tests/files/test_identical.py",
    ),
    Fault(
        "exact",
        "exact/measures.py",
        "math.isqrt(max(math.ceil(square), 1) - 1) + 1",
        "math.isqrt(math.ceil(square))",
        "tests/exact/test_measures.py",
    ),
    Fault(
        "exact",
        "exact/measures.py",
        "            cosines: Float64s = np.sqrt(squares)\n",
        "            cosines = overlaps / (np.sqrt(sizes) * np.sqrt(stored_sizes))\n",
        "tests/exact/test_measures.py -k last_bit",
    ),
    Fault(
        "exact",
        "exact/order.py",
        "np.flatnonzero(counts > 1)",
        "np.flatnonzero(counts > 0)",
        "tests/exact/test_order.py",
    ),
    Fault(
        "linkage",
        "linkage/assignment.py",
        "costs[self.cells] -= units",
        "costs[self.cells] += units",
        "tests/linkage/test_assignment.py -k heaviest",
    ),
    Fault(
        "lsh",
        "lsh/chunks.py",
        "for flips in range(max(self.radii) + 1)",
        "for flips in range(max(self.radii))",
        "tests/lsh/test_chunks.py",
    ),
    Fault(
        "lsh",
        "lsh/curves.py",
        "nearest = far / math.sqrt(self.dimension)",
        "nearest = far",
        "tests/lsh/test_family_rates.py",
    ),
    Fault(
        "lsh",
        "lsh/fast_sketches.py",
        "left[to] += chances * before[some] * drawn[filled]",
        "left[to] += chances * before[some] * drawn[1] ** filled",
        "tests/lsh/test_fast_sketches.py -k exact_fractions",
    ),
    Fault(
        "lsh",
        "lsh/amplification.py",
        "(inner.every - inner.met) ** self.bands, every",
        "(inner.every - inner.met) * self.bands, every",
        "tests/lsh/test_fast_sketches.py -k counted",
    ),
    Fault(
        "lsh",
        "lsh/planning.py",
        "law[needed:] @ shares[needed:]",
        "law @ shares",
        "tests/lsh/test_fast_sketches.py -k candidate_as_often",
    ),
    Fault(
        "answers",
        "answers/evidence.py",
        "plan.candidate_probability(value, needed.words, union)",
        "plan.candidate_probability(value, 0, union)",
        "tests/kinds/test_evidence.py -k being_a_candidate",
    ),
    Fault(
        "upkeep",
        "upkeep/survey.py",
        "        found *= _by_size(",
        "        _by_size(",
        "tests/upkeep/test_survey.py",
    ),
    Fault(
        "lsh",
        "lsh/planning.py",
        "max(0.0, found - self.family.loss)",
        "found",
        "tests/lsh/test_planning.py",
    ),
    Fault(
        "lsh",
        "lsh/amplification.py",
        "self.bands * (1 - inner) ** (self.bands - 1)",
        "self.bands * (1 - inner) ** self.bands",
        "tests/lsh/test_amplification.py",
    ),
)


def named(fault: Fault) -> str:
    return f"{fault.layer}: {fault.right[:40].strip()}"


def planted(fault: Fault) -> str:
    """The text of the module with the fault."""
    text = (ROOT / "simdb" / fault.module).read_text(encoding="utf-8")
    assert text.count(fault.right) == 1, "it can no longer be planted there"
    return text.replace(fault.right, fault.wrong)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout; with the times of its files, so that compiled kernels are valid."""
    folder = tmp_path_factory.mktemp("planted")
    for name in ("simdb", "tests", "tools", "docs", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    return folder


def outcome_of(folder: Path, test: str) -> Any:
    file, *words = test.split(" -k ")
    return ended(
        *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
        *("-p", "no:xdist", file, *(["-k", words[0]] if words else [])),
        code=None,
        cwd=folder,
        variables={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_a_planted_fault_is_found(copy: Path, fault: Fault) -> None:
    module = copy / "simdb" / fault.module
    times = module.stat()
    right = module.read_text(encoding="utf-8")
    try:
        module.write_text(planted(fault), encoding="utf-8")
        outcome = outcome_of(copy, fault.test)
    finally:
        module.write_text(right, encoding="utf-8")
        os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))
    # Damaged code that is loaded may end the process, which is found, too.
    assert outcome.returncode in {1, -signal.SIGSEGV}, (
        outcome.stdout[-2_000:] + outcome.stderr[-2_000:]
    )
    assert "ImportError" not in outcome.stdout
    assert "SyntaxError" not in outcome.stdout


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_a_fault_can_be_planted(fault: Fault) -> None:
    compile(planted(fault), fault.module, "exec")
    assert (ROOT / fault.test.split(" -k ")[0].split("::")[0]).exists()


@pytest.mark.slow
def test_without_a_fault_the_tests_that_find_one_pass(copy: Path) -> None:
    for test in sorted({fault.test for fault in FAULTS}):
        assert outcome_of(copy, test).returncode == 0, test


def test_every_layer_has_a_fault() -> None:
    package = ROOT / "simdb"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py")}
    folders -= {".", "answers", "storage"}  # what they hold, or lead to, is in folders
    inside = {Path(fault.module).parent.as_posix() for fault in FAULTS}
    assert folders == inside - {".", "answers"}
