"""Items meet bytes: indexing, searching, joining, grouping, checking. No files, no printing."""
