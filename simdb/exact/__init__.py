"""Exact similarity of sets: thresholds as rationals, the order of symbols, joins (MMDS 3.9)."""
