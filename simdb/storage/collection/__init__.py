"""One collection in a transaction: read, written."""
