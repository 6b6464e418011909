"""The exact method of sets of symbols: prefixes are looked up, swept, or joined in memory."""
