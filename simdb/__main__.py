"""``python -m simdb`` is the command ``simdb``."""

from __future__ import annotations

from simdb.cli import main

if __name__ == "__main__":
    main()
