"""Sweeps of the contention model: numbers of computing cores on placements, as cases.

The model is that of Denis, Jeannot and Swartvagher. A placement is a pair of NUMA nodes: one for
the computation's data, one for the communication's buffers. The machine's file decides which
placements and numbers of cores there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from nimc.base.errors import InputError
from nimc.campaign.schema import Entry
from nimc.machine.site import Machine


def cases_of(entry: Entry, machine: Machine) -> list[Entry]:
    """The entry, or with a sweep once for each number of cores and placement.

    Raises InputError if the machine has no cores for the application.
    """
    if entry.sweep is None:
        return [entry]
    return [
        entry.at(f"n{n}-c{comp}-m{comm}", {"cores": n, "node": comp, "comm_node": comm})
        for comp, comm in placements(machine, entry.sweep.placements)
        for n in numbers_of_cores(socket_cores(machine), entry.sweep.cores)
    ]


def numbers_of_cores(most: int, requested: str) -> list[int]:
    """Numbers of cores up to `most`: every one, or `doubled`: 1, 2, 4 and so on, and `most`."""
    if requested != "doubled":
        return list(range(1, most + 1))
    return [*(1 << power for power in range((most - 1).bit_length())), most]


def placements(machine: Machine, requested: str) -> list[tuple[int, int]]:
    """Pairs of NUMA nodes: `all`; `calibration`: both on the first node of a socket, of the first
    two sockets; `local`: of the first socket only.

    Those two always come first, so that a run that is stopped can still be fitted.
    """
    facts = machine.node_facts()
    per_socket = max(1, facts.numa_nodes // facts.sockets)
    first = [(node, node) for node in (0, per_socket) if node < facts.numa_nodes]
    if requested == "local":
        return first[:1]
    nodes = range(facts.numa_nodes)
    return (
        first
        if requested == "calibration"
        else list(dict.fromkeys([*first, *product(nodes, nodes)]))
    )


def socket_cores(machine: Machine) -> int:
    """Cores of one socket that the application may have."""
    facts = machine.node_facts()
    app_cpus, _ = machine.split_cpus()
    return max(1, (len(app_cpus) or facts.cores) // facts.sockets)


def siblings(entry: Entry, cases: Sequence[Entry]) -> list[Entry]:
    """All cases of an adaptive case's placement, from the fewest cores to the most."""
    same = (each for each in cases if each.adaptive and _place(each) == _place(entry))
    return sorted(same, key=_n)


def is_optional(entry: Entry, cases: Sequence[Entry]) -> bool:
    """Whether a case may be skipped; those with the fewest and the most cores may not."""
    if not entry.adaptive:
        return False
    same = siblings(entry, cases)
    return entry.name not in (same[0].name, same[-1].name)


def most(entry: Entry, cases: Sequence[Entry]) -> list[Entry]:
    """As many of an adaptive case's siblings as may be measured; all cost the same."""
    from analysis.contention import calibrate  # fitting takes a second to load

    same = siblings(entry, cases)
    return [same[-1], *same[: calibrate.points_allowed(_n(same[-1])) - 1]]


def next_case(run: Path, same: Sequence[Entry], begun: Sequence[Entry]) -> Entry | None:
    """The case of a placement to measure next, None when its model is good enough.

    `same` are all cases of the placement, `begun` those that were measured or failed.
    """
    from analysis.contention import calibrate, from_run

    if not begun:
        return same[0]
    try:
        points = from_run.load(run, None).at(same[0].set["node"], same[0].set["comm_node"])
    except InputError:  # no accepted sample; the failure has been reported
        return None
    cores = _n(same[-1])
    n = calibrate.next_n(points, cores, calibrate.points_allowed(cores))
    return next((each for each in same if _n(each) == n and each not in begun), None)


def _place(entry: Entry) -> tuple[str, object, object]:
    return entry.name.rpartition("@")[0], entry.set["node"], entry.set["comm_node"]


def _n(entry: Entry) -> int:
    n = entry.set["cores"]
    assert isinstance(n, int)
    return n
