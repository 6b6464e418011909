"""Kinds of items."""
