"""Makes ``docs/report.png``: parts of a report, as a browser shows them.

::

    .venv/bin/python -m tools.make_picture

The report is one of ``simdb dedupe`` on the functions of Python's standard library; its groups, one
chart and the pairs that are most alike are left out of the picture. Needs Chromium and the extra
``report``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.demo import iter_functions

PICTURE = Path(__file__).parents[1] / "docs" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1_240, 925
LARGEST = 150_000  # bytes
SHOWN = """
main { max-width: none; padding-top: 1.4rem; } h2 { margin-top: 1.4rem; }
nav, #charts, #charts + p, #groups, figure:last-child { display: none; }
.charts { grid-template-columns: 1fr 1fr 1fr; margin-top: 1.4rem; }
.pair:nth-of-type(-n + 6) { display: none; }
</style>"""


def main() -> int:
    """Make it; return the exit code."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"none of these is installed: {', '.join(BROWSERS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = folder / "report.html"
        with (folder / "functions.jsonl").open("w", encoding="utf-8") as file:
            for key, text in iter_functions():
                file.write(json.dumps({"id": key, "text": text}) + "\n")
        command = (
            sys.executable,
            "-m",
            "simdb",
            "-q",
            "dedupe",
            "functions.jsonl",
            "--id-field",
            "id",
            "-o",
            "kept.jsonl",
        )
        subprocess.run([*command, "--report", page], cwd=folder, check=True)
        page.write_text(page.read_text(encoding="utf-8").replace("</style>", SHOWN, 1), "utf-8")
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        where = (f"--user-data-dir={folder / 'browser'}", f"--screenshot={PICTURE}")
        subprocess.run(
            [browser, *flags, *where, f"--window-size={WIDTH},{HEIGHT}", page.as_uri()],
            check=True,
            capture_output=True,
        )
    size = PICTURE.stat().st_size
    print(f"{PICTURE}: {size:,} bytes")
    return int(size > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
