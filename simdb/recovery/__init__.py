"""Damaged files, and files from elsewhere."""
