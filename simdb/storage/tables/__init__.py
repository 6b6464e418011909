"""What lies in the tables: keys, values, blocks, runs."""
