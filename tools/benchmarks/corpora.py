"""The texts that are measured on."""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path


def load_texts(files: Iterable[str | Path]) -> list[tuple[str, str]]:
    """Read (key, text) rows from gzipped JSON Lines; the file's name makes the keys different."""
    rows: list[tuple[str, str]] = []
    for path in map(Path, files):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                rows.append((f"{path.name.partition('.')[0]}/{row['id']}", row["text"]))
    return rows


def normalised(text: str) -> str:
    """Return the text as a simdb collection compares it by default, computed the obvious way."""
    return " ".join(unicodedata.normalize("NFC", text).split())
