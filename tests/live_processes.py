"""The live processes of a test, found by a variable in their environment."""

from contextlib import suppress
from pathlib import Path


def live_processes(name: str, value: str) -> dict[int, str]:
    """Return id and command line of each process in whose environment a variable has a value.

    A process that has ended has no environment, although its id may still be listed.
    """
    entry = f"{name}={value}".encode()
    lines = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # of another user, or it ends meanwhile
            if entry in (process / "environ").read_bytes().split(b"\0"):
                lines[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
    return lines
