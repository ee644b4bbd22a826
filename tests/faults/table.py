"""The faults: what is done to whom, where, and what must hold afterwards."""

from dataclasses import dataclass
from typing import Literal

Place = Literal["localhost", "veth", "rxe"]
HOST: tuple[Place, ...] = ("localhost",)
RXE: tuple[Place, ...] = ("rxe",)
CLUSTERS: tuple[Place, ...] = ("veth", "rxe")
ALL: tuple[Place, ...] = (*HOST, *CLUSTERS)

#: How long a victim is stopped, and a link or a file system is away, seconds.
AWAY_S = 10.0


@dataclass(frozen=True)
class Fault:
    name: str
    #: Function of `actions.ACTIONS`, and the role that it is done to; empty if to no process.
    action: str
    victim: str
    places: tuple[Place, ...]
    #: Exit statuses of the disturbed nimc (docs/reliability.md). Negative: ended by that signal.
    exits: frozenset[int]
    #: The disturbed nimc ends this long after the fault, and what its campaign takes, at most.
    bound_s: float = 60.0
    #: Whether nimc itself ends without a word.
    mute: bool = False
    #: Whether an `on` run during which it happens cannot count, since a writer does not write.
    silences: bool = False
    #: Whether an `off` run during which it happens cannot count, since a held writer writes.
    wakes: bool = False
    #: Size of the file system that holds the results, bytes; 0 if none of their own is needed.
    disk_b: int = 0


_GOES_ON = frozenset({0})
_MAY_FAIL = frozenset({0, 3})
#: Roles of processes in the order in which they start each other, and where each can be hit.
_ROLES: dict[str, tuple[Place, ...]] = {
    "reframe": ALL,
    "conductor": ALL,
    "agent": ALL,
    "writer_origin": ALL,
    "writer_target": ALL,
    "application": ALL,
    "srun": CLUSTERS,
}
#: Daemons of Slurm, which are killed and started again after AWAY_S, or stopped.
_DAEMONS: dict[str, tuple[Place, ...]] = {
    "slurmctld": CLUSTERS,
    "slurmdbd": CLUSTERS,
    "mariadbd": CLUSTERS,
    "munged": CLUSTERS,
    "slurmd": CLUSTERS,
}
_NIMC = [
    Fault("kill nimc", "kill", "nimc", ALL, frozenset({-9}), mute=True),
    Fault("terminate nimc", "terminate", "nimc", ALL, frozenset({143, -15})),
    Fault("interrupt nimc", "interrupt", "nimc", ALL, frozenset({130, -2})),
    Fault("hang up nimc", "hang_up", "nimc", ALL, frozenset({129, -1})),
    Fault("stop nimc", "stop", "nimc", ALL, _GOES_ON),
]
_PARTS = [
    Fault(f"{action} {role}", action, role, places, _MAY_FAIL, silences=role == "writer_origin")
    for role, places in _ROLES.items()
    for action in ("kill", "terminate", "stop")
]
_HELD = Fault("continue writer_origin", "go_on", "writer_origin", ALL, _GOES_ON, wakes=True)
_STORAGE = [
    Fault("disk full", "fill_disk", "", HOST, frozenset({0, 3}), disk_b=64 * 2**20),
    Fault("read-only folder", "read_only", "", HOST, frozenset({0, 3})),
]
_CLUSTER = [
    *(
        Fault(f"{action} {daemon}", action, daemon, places, _MAY_FAIL, bound_s=180.0)
        for daemon, places in _DAEMONS.items()
        for action in ("away", "stop")
    ),
    # Once the job runs: one in the queue waits for the node, as it should.
    Fault("node off", "node_off", "conductor", CLUSTERS, frozenset({3}), bound_s=180.0),
    Fault("link down", "link_down", "", CLUSTERS, _MAY_FAIL, bound_s=180.0),
    Fault("loss of packets", "loss", "", CLUSTERS, _MAY_FAIL, bound_s=180.0),
    Fault("clock set forward", "clock_forward", "", RXE, _MAY_FAIL, bound_s=180.0),
    Fault("clock set back", "clock_back", "", RXE, _MAY_FAIL, bound_s=180.0),
    Fault("cancel", "cancel", "", CLUSTERS, frozenset({0, 3})),
    Fault("requeue", "requeue", "", CLUSTERS, _MAY_FAIL),
    Fault("suspend", "suspend", "", CLUSTERS, _MAY_FAIL, bound_s=180.0),
    Fault("drain", "drain", "", CLUSTERS, _MAY_FAIL, bound_s=180.0),
]
_TWO = Fault("two at once", "second_nimc", "nimc", ALL, _GOES_ON)

FAULTS: dict[str, Fault] = {
    each.name: each for each in [*_NIMC, *_PARTS, _HELD, *_STORAGE, *_CLUSTER, _TWO]
}


def at(place: Place) -> list[Fault]:
    return [each for each in FAULTS.values() if place in each.places]
