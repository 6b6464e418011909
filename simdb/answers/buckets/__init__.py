"""The probable method: buckets propose, signatures drop, the items decide."""
