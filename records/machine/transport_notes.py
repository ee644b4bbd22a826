"""Caveats that figures of writers carry because of their transport."""

from __future__ import annotations

from collections.abc import Iterable

from records.machine.fabrics import FABRICS
from records.notes import Note


def emulated_transport(name: str) -> str:
    """Return the name of a transport whose writes were not shown to be one-sided."""
    return f"{name}, emulated"


#: Transport -> its caveat; RDMA hardware has none.
NOTES: dict[str, Note] = {
    **{name: fabric.note for name, fabric in FABRICS.items() if fabric.note},
    **{
        emulated_transport(name): fabric.emulated_note
        for name, fabric in FABRICS.items()
        if fabric.emulated_note
    },
    "two-sided": Note.TWO_SIDED,
    "receives": Note.TARGET_RECEIVES,
}


def caveats(transports: Iterable[str]) -> list[str]:
    """Return the caveats of `transports`, each a name or several names joined with `+`."""
    names = dict.fromkeys(name for joined_names in transports for name in joined_names.split("+"))
    return [NOTES[name]() for name in names if name in NOTES]
