"""Python's collector of cycles: it rests while a command starts, and when it ends.

What is imported stays to the end, and of a short command it is nearly all there is. To look through
it for cycles again and again takes a fifth of such a command.
"""

from __future__ import annotations

import gc


def rest() -> None:
    """Collect nothing until the command begins."""
    gc.disable()


def resume() -> None:
    """Collect what is made from here on, if the collector rests."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def finish() -> None:
    """Leave what there is to the end of the process."""
    gc.freeze()
