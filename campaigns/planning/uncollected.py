"""Work without Python's cyclic garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected until the end of a `with` or of a function that it decorates.

    A large plan is all objects that stay, and no cycles. The collector goes through them again and
    again while they grow: half of the time of 4,000 cases.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
