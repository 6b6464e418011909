"""The measures of ``tools/bench.py``: one module a subject, and what they share."""
