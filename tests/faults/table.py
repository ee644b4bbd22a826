"""The table of faults.

It says what each fault does, to which process, on which testbeds, and what is expected afterwards.
"""

from dataclasses import dataclass
from typing import Literal

Testbed = Literal["localhost", "veth", "rxe"]
HOST: tuple[Testbed, ...] = ("localhost",)
RXE: tuple[Testbed, ...] = ("rxe",)
CLUSTERS: tuple[Testbed, ...] = ("veth", "rxe")
ALL: tuple[Testbed, ...] = (*HOST, *CLUSTERS)

#: How long a victim is stopped, or a daemon, link or file system is not available, seconds.
AWAY_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row of the table: a single or a planted fault.

    A single fault has no `reason`. It happens once in a campaign of STREAM, at a random moment.
    Then the campaign is resumed until it has all pairs. A planted fault has a `reason`. It lasts
    all the time, in a campaign whose application is a shell script, and its runs are rejected for
    this reason.
    """

    name: str
    #: Key of `actions.ACTIONS`.
    action: str
    #: Role of the process on which the fault acts; empty if it acts on none.
    victim: str
    testbeds: tuple[Testbed, ...]
    #: Exit statuses that the disturbed nimc may have (docs/reliability.md). A negative one means
    #: that nimc was ended by this signal.
    exits: frozenset[int]
    #: How long the disturbed nimc may take to end after the fault, seconds. The time that the
    #: campaign itself takes is added to this.
    bound_s: float = 60.0
    #: Whether nimc ends without printing why.
    mute: bool = False
    #: Whether the fault stops a writer, so that an `on` run during which it happens must be
    #: rejected.
    silences: bool = False
    #: Whether the fault makes a held writer write, so that an `off` run during which it happens
    #: must be rejected.
    wakes: bool = False
    #: Size of a separate file system for the results, bytes; 0 if the fault needs none.
    disk_b: int = 0
    #: Regular expression that must match the reason why a run was rejected, or nimc's message.
    reason: str = ""
    #: Arms of which no run may be accepted.
    arms: str = "on"
    #: What the application does before it prints its figure.
    script: str = "sleep 4"
    #: Whether the application prints its figure.
    prints: bool = True
    #: Factors of the campaign, as YAML text.
    factors: str = "{}"
    #: Share of its uncontended rate that a writer must reach for a run to be accepted.
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
    action: str, name: str, reason: str, testbeds: tuple[Testbed, ...] = (*HOST, "veth"), **more
) -> Fault:
    """Return a planted fault.

    Its campaign ends by itself, or by a SIGTERM that the trial sends if enough runs were rejected.
    """
    return Fault(
        name=name,
        action=action,
        victim="",
        testbeds=testbeds,
        exits=frozenset({3, 143}),
        reason=reason,
        **more,
    )


#: Roles of processes of a block, in the order in which they start each other.
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
    # Daemons of Slurm are killed and started again after AWAY_S, or stopped for this time.
    *_each("away", _DAEMONS, CLUSTERS, 0, 3, **_LONG),
    *_each("stop", _DAEMONS, CLUSTERS, 0, 3, **_LONG),
    # The victim is a process of the job, so that the fault happens only while the job runs. A
    # pending job would wait for the node that is switched off.
    _any("node_off", "node off", CLUSTERS, 3, victim="conductor", **_LONG),
    _any("link_down", "link down", CLUSTERS, 0, 3, **_LONG),
    _any("loss", "loss of packets", CLUSTERS, 0, 3, **_LONG),
    _any("clock_forward", "clock set forward", RXE, 0, 3, **_LONG),
    _any("clock_back", "clock set back", RXE, 0, 3, **_LONG),
    _any("cancel", "cancel", CLUSTERS, 0, 3),
    _any("requeue", "requeue", CLUSTERS, 0, 3),
    _any("suspend", "suspend", CLUSTERS, 0, 3, **_LONG),
    _any("drain", "drain", CLUSTERS, 0, 3, **_LONG),
    # Planted faults, which last all the time. Two of them need virtual machines (rxe): only there,
    # a device counts the bytes that a writer claims, and a node has two NUMA nodes. On veth, only
    # daemons are foreign processes of a node, so foreign load is tried on the host.
    _planted("dies", "writer dies", "injector_died|exit status -9"),
    _planted("slow", "writer slow", "is required|nothing for"),
    _planted("silent", "writer silent for 0.6 s", "is required|nothing for"),
    _planted("writes_in_off", "writes in off", "held writers? ran during", arms="off"),
    # With a larger `min_share`, the device's counter would show before the run that the writer is
    # not at its rate, so the run would not start.
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
