"""Finds the live processes of a test by a variable in their environment."""

from contextlib import suppress
from pathlib import Path


def live_processes(name: str, value: str) -> dict[int, str]:
    """Return process id -> command line of processes that have a variable with this value.

    A process that has ended has no environment, although its id may still be listed.
    """
    entry = f"{name}={value}".encode()
    lines = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process belongs to another user, or has just ended
            if entry in (process / "environ").read_bytes().split(b"\0"):
                lines[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
    return lines
