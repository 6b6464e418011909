"""Locality-sensitive hashing: sketches, banding, amplification and planning (MMDS 3.3 to 3.6)."""
