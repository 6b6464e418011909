"""Bytes: one LMDB file with its tables, runs and blocks; nothing here knows similarity."""
