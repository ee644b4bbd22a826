"""Nodes of a Slurm partition, as `sinfo` lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.errors import MachineError
from campaigns.host.programs import ask

#: States in which a node takes jobs now or later; `sinfo` adds signs such as `*` and `~`.
_USABLE = ("allocated", "idle", "mixed", "completing", "reserved")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_PARTITION = re.compile(r"(?:--partition=|-p\s*)(\S+)")


@dataclass(frozen=True)
class SlurmNode:
    """A node and its state."""

    name: str
    state: str

    @property
    def usable(self) -> bool:
        """Whether a job for it would start some day."""
        return self.state in _USABLE


def partition_in(access: Sequence[str]) -> str | None:
    """The partition that job options name (`access` of ReFrame's configuration)."""
    found = [match[1] for option in access if (match := _PARTITION.match(option))]
    return found[-1] if found else None


def nodes_in(sinfo_output: str) -> list[SlurmNode]:
    """Nodes from sinfo's lines `NODE STATE`, each once, in order.

    A state is cut off at the first sign: `idle~` is a node that is switched off to save power. A
    node that does not answer, `idle*`, is `unknown`.
    """
    found: dict[str, SlurmNode] = {}
    for line in sinfo_output.splitlines():
        name, _, state = line.strip().partition(" ")
        word = re.match(r"[a-z]+", state.strip())
        if _NAME.fullmatch(name) and word:
            known = "unknown" if "*" in state else word[0]
            found[name] = SlurmNode(name, known)
    return list(found.values())


def ask_nodes(partition: str | None, environment: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes of a partition, of the default partitions without one. Raises MachineError."""
    command = ["sinfo", "--Node", "--noheader", "--format=%N %T"]
    answer = ask([*command, *([f"--partition={partition}"] if partition else [])], environment)
    if not answer.ok:
        raise MachineError(f"sinfo: {answer.last}")
    return nodes_in(answer.text)
