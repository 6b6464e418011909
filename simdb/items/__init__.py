"""A user's objects in canonical form: the bytes stored and the symbols compared."""
