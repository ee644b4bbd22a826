"""Who asks Slurm: for the nodes of a partition, and to end the jobs of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from records.errors import MachineError
from records.programs import ask
from records.slurm.parse import SlurmNode, nodes_in, working_in


def ask_nodes(partition: str | None, environment: Mapping[str, str]) -> list[SlurmNode]:
    """Nodes of a partition, of the default partitions without one. Raises MachineError."""
    command = ["sinfo", "--Node", "--noheader", "--format=%N %T"]
    command += [f"--partition={partition}"] if partition else []
    return nodes_in(ask(command, environment).required())


# Orphaned Slurm jobs of a run: found by their working folder, and cancelled.


#: How long jobs may take to end, seconds.
_END_S = 60.0
#: Lists this user's jobs, a line `JOB|STATE|START|REASON|FOLDER` each; components of a
#: heterogeneous job are `JOB+N`. A start lies ahead while the state is `PD`.
SQUEUE = ("squeue", "--me", "--noheader", "--format=%i|%t|%S|%r|%Z")


def cancel(run: Path) -> list[str]:
    """Cancel the jobs left by a run and wait until they have ended. Returns their ids.

    ReFrame cancels its jobs on SIGTERM, but not if it was killed. Raises MachineError if Slurm
    does not answer or jobs do not end.
    """
    jobs = _left(run)
    if jobs:
        refused = ask(["scancel", *jobs])  # fails also for jobs that are just ending
        until_s = time.monotonic() + _END_S
        while left := _left(run):
            if time.monotonic() > until_s:
                why = "" if refused.ok else f": scancel: {refused.reason}"
                raise MachineError(f"{run}: jobs of an earlier session do not end: {left}{why}")
            time.sleep(1.0)
    return jobs


def _left(run: Path) -> list[str]:
    # Folders are compared, whatever their encoding.
    return list(working_in(run, ask(SQUEUE, errors="surrogateescape").required()))
