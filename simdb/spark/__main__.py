"""``simdb spark`` as a file that spark-submit runs, and as ``python -m simdb.spark``."""

from __future__ import annotations

import sys

from simdb.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["spark"]
    main()
