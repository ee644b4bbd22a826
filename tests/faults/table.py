"""The faults: what is done to whom, where, and what must hold afterwards."""

from dataclasses import dataclass
from typing import Literal

Testbed = Literal["localhost", "veth", "rxe"]
HOST: tuple[Testbed, ...] = ("localhost",)
RXE: tuple[Testbed, ...] = ("rxe",)
CLUSTERS: tuple[Testbed, ...] = ("veth", "rxe")
ALL: tuple[Testbed, ...] = (*HOST, *CLUSTERS)

#: How long a victim is stopped, and a link or a file system is away, seconds.
AWAY_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row.

    Without `says`, the fault happens once in a campaign of STREAM, at a random moment, and the
    campaign is resumed until all pairs are there. With `says` it is planted: it is there all the
    time, in a campaign of a shell, whose runs are rejected with these words.
    """

    name: str
    #: Function of `actions.ACTIONS`.
    action: str
    #: Role of the process that it is done to; empty if it is done to none.
    victim: str
    testbeds: tuple[Testbed, ...]
    #: Exit statuses of the disturbed nimc (docs/reliability.md). Negative: ended by that signal.
    exits: frozenset[int]
    #: How long after the fault the disturbed nimc may end, beside the length of its campaign.
    bound_s: float = 60.0
    #: Whether nimc ends without printing why.
    mute: bool = False
    #: Whether an `on` run during which it happens cannot count, since a writer does not write.
    silences: bool = False
    #: Whether an `off` run during which it happens cannot count, since a held writer writes.
    wakes: bool = False
    #: Size of the file system that holds the results, bytes; 0 if none of their own is needed.
    disk_b: int = 0
    #: Regular expression of the reason why runs are rejected, or of nimc's message.
    says: str = ""
    #: Arms of which no run may be accepted.
    arms: str = "on"
    #: What the application does before it prints its figure.
    script: str = "sleep 4"
    #: Whether the application prints its figure.
    prints: bool = True
    #: Factors of its campaign.
    factors: str = "{}"
    #: Share of its uncontended rate that a writer must reach.
    min_share: float = 0.5


def _each(
    action: str, victims: str, testbeds: tuple[Testbed, ...], *exits: int, **more
) -> list[Fault]:
    return [
        Fault(
            name=f"{action} {victim}",
            action=action,
            victim=victim,
            testbeds=testbeds,
            exits=frozenset(exits),
            **more,
        )
        for victim in victims.split()
    ]


def _any(
    action: str, name: str, testbeds: tuple[Testbed, ...], *exits: int, victim: str = "", **more
) -> Fault:
    return Fault(
        name=name,
        action=action,
        victim=victim,
        testbeds=testbeds,
        exits=frozenset(exits),
        **more,
    )


def _planted(
    action: str, name: str, says: str, testbeds: tuple[Testbed, ...] = (*HOST, "veth"), **more
) -> Fault:
    """Return a planted fault. SIGTERM ends its campaign once enough runs are rejected."""
    return Fault(
        name=name,
        action=action,
        victim="",
        testbeds=testbeds,
        exits=frozenset({3, 143}),
        says=says,
        **more,
    )


#: Done to a process, in the order in which they start each other.
_PARTS = "reframe conductor agent writer_target application"
_DAEMONS = "slurmctld slurmdbd mariadbd munged slurmd"
_LONG = {"bound_s": 180.0}
_ROWS = [
    *_each("kill", "nimc", ALL, -9, mute=True),
    *_each("terminate", "nimc", ALL, 143, -15),
    *_each("interrupt", "nimc", ALL, 130, -2),
    *_each("hang_up", "nimc", ALL, 129, -1),
    *_each("stop", "nimc", ALL, 0),
    _any("second_nimc", "two at once", ALL, 0, victim="nimc"),
    *(row for action in ("kill", "terminate", "stop") for row in _each(action, _PARTS, ALL, 0, 3)),
    *_each("kill", "writer_origin", ALL, 0, 3, silences=True),
    *_each("terminate", "writer_origin", ALL, 0, 3, silences=True),
    *_each("stop", "writer_origin", ALL, 0, 3, silences=True),
    *_each("go_on", "writer_origin", ALL, 0, wakes=True),
    *(row for act in ("kill", "terminate", "stop") for row in _each(act, "srun", CLUSTERS, 0, 3)),
    _any("fill_disk", "disk full", HOST, 0, 3, disk_b=64 * 2**20),
    _any("read_only", "read-only folder", HOST, 0, 3),
    # Daemons of Slurm are killed and started again after AWAY_S, or stopped.
    *_each("away", _DAEMONS, CLUSTERS, 0, 3, **_LONG),
    *_each("stop", _DAEMONS, CLUSTERS, 0, 3, **_LONG),
    # A victim in the job makes sure that the job runs: a pending one would wait for the node.
    _any("node_off", "node off", CLUSTERS, 3, victim="conductor", **_LONG),
    _any("link_down", "link down", CLUSTERS, 0, 3, **_LONG),
    _any("loss", "loss of packets", CLUSTERS, 0, 3, **_LONG),
    _any("clock_forward", "clock set forward", RXE, 0, 3, **_LONG),
    _any("clock_back", "clock set back", RXE, 0, 3, **_LONG),
    _any("cancel", "cancel", CLUSTERS, 0, 3),
    _any("requeue", "requeue", CLUSTERS, 0, 3),
    _any("suspend", "suspend", CLUSTERS, 0, 3, **_LONG),
    _any("drain", "drain", CLUSTERS, 0, 3, **_LONG),
    # There all the time. Only devices count what a writer claims; only virtual machines have two
    # NUMA nodes; only daemons of veth are foreign to a node, so its load is tried on a host.
    _planted("dies", "writer dies", "injector_died|exit status -9"),
    _planted("slow", "writer slow", "is required|nothing for"),
    _planted("silent", "writer silent for 0.6 s", "is required|nothing for"),
    _planted("writes_in_off", "writes in off", "held writers? ran during", arms="off"),
    # With a higher share, counters show before a run that the writer is not at its speed.
    _planted("claims", "writer claims four times", "but the writers claim", RXE, min_share=0.1),
    _planted("misplaces", "wrong NUMA node", "the target's buffers lay outside NUMA node 1", RXE,
             factors="{comm_node: [1]}"),
    _planted("load", "foreign load", "foreign processes used", HOST, arms="off on"),
    _planted("nothing", "application crashes", "exit status 7", ALL, script="exit 7"),
    _planted("nothing", "application hangs", "application_hung", ALL, script="sleep 1000"),
    _planted("nothing", "application prints nothing", "no_fom", ALL, prints=False),
]  # fmt: skip

FAULTS: dict[str, Fault] = {row.name: row for row in _ROWS}


def faults_on(testbed: Testbed) -> list[Fault]:
    return [row for row in FAULTS.values() if testbed in row.testbeds]
