"""Which process of a campaign is which, by its command line."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Of a minicluster; each is a role.
DAEMONS = ("slurmctld", "slurmdbd", "slurmd", "mariadbd", "munged")


@dataclass(frozen=True)
class Process:
    """A process that exists, and is no zombie."""

    pid: int
    words: tuple[str, ...]
    #: The virtual machine that it is in, which has its own ids; empty: this host.
    box: str = ""

    @property
    def line(self) -> str:
        return f"{self.pid} {' '.join(self.words)[:200]}"


def role(words: tuple[str, ...]) -> str | None:
    """The role of a process, from its command line; None if it is none that a fault is done to."""
    program = Path(words[0]).name if words else ""
    if "from nimc.cli.main import main; main()" in words:
        return "nimc"
    if "reframe_tests.conduct" in words:
        return "srun" if program == "srun" else "conductor"
    if program == "srun":
        return "srun"
    if "conductor.agent" in words:
        return "agent"
    if program == "ucx_perftest":
        return "writer_origin" if "-t" in words else "writer_target"
    if program == "ib_write_bw":  # the origin's ends with an address
        return "writer_origin" if words[-1].count(".") == 3 else "writer_target"
    if "-r" in words and any(Path(word).name == "reframe" for word in words[:2]):
        return "reframe"
    if program.startswith("slurmstepd"):
        return "slurmstepd"
    if program == "stream":
        return "application"
    return program if program in DAEMONS else None


def read(pids: Iterable[int]) -> list[Process]:
    found = []
    for pid in pids:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words != [b""]:  # of a zombie
                found.append(Process(pid, tuple(os.fsdecode(word) for word in words if word)))
    return found


def having(wanted: str, processes: Iterable[Process]) -> list[Process]:
    return [each for each in processes if role(each.words) == wanted]
