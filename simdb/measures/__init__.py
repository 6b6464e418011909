"""Exact similarities and distances of two items."""
