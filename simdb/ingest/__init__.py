"""Rows on their way into a collection."""
