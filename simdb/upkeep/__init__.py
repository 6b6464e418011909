"""Looking after a collection: checking, compacting, rebuilding, measuring."""
