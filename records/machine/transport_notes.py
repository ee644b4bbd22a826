"""What figures of writers must say of their transport: of a fabric, or of how a program uses it."""

from __future__ import annotations

from collections.abc import Iterable

from records.machine.fabrics import TABLE
from records.notes import Note


def emulated(name: str) -> str:
    """Return what a transport is called if nothing shows that its writes were one-sided."""
    return f"{name}, emulated"


#: Transport -> what figures of writers over it must say; RDMA hardware needs no word.
NOTES: dict[str, Note] = {
    **{row.name: row.note for row in TABLE if row.note},
    **{emulated(row.name): row.emulated for row in TABLE if row.emulated},
    "two-sided": Note.TWO_SIDED,
    "receives": Note.RECEIVES,
}


def emulations(transports: Iterable[str]) -> list[str]:
    """Caveats of `transports`, each a name or several joined with `+`; none for RDMA hardware."""
    names = dict.fromkeys(name for text in transports for name in text.split("+"))
    return [NOTES[name]() for name in names if name in NOTES]
