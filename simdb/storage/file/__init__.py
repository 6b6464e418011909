"""The file: opening, locking, growing, watching it; transactions."""
