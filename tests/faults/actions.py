"""The actions of faults: what each fault does to a campaign.

A single fault happens once. Its action returns after the fault is over and undone. A planted fault
lasts all the time. Its action is called every few hundredths of a second while the campaign runs.
"""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from records.processes import is_stopped
from tests.faults.checks import NimcEnd
from tests.faults.cluster import FOUR_TIMES, MISPLACED, NODES, Minicluster, VirtualMachines
from tests.faults.host import Host, Process, with_role
from tests.faults.table import AWAY_S

#: Shares of packets that are dropped; one of them is chosen at random.
_LOSS_SHARES = (0.01, 0.1, 0.5)
#: By how much a clock is set forward or back, seconds; one of these is chosen at random.
_CLOCK_STEPS_S = (2, 30, 600)
#: Time between two stop signals to the same process, seconds.
_STOP_AGAIN_S = 0.05
#: How long a writer is stopped, seconds.
SILENT_S = 0.6


@dataclass(frozen=True)
class Hit:
    """The arguments of an action."""

    host: Host
    #: The process on which the action acts; None if it acts on none.
    victim: Process | None
    rng: random.Random
    #: Actions that a planted fault has done: process id of the application, or 0 if the action is
    #: done once for all runs -> the process that the action started, or None.
    done: dict[int, subprocess.Popen[bytes] | None] = field(default_factory=dict)

    @property
    def cluster(self) -> Minicluster:
        assert isinstance(self.host, Minicluster)
        return self.host

    @property
    def machines(self) -> VirtualMachines:
        """The cluster of virtual machines, whose nodes have clocks of their own."""
        assert isinstance(self.host, VirtualMachines)
        return self.host

    def send(self, signum: int) -> None:
        assert self.victim
        self.host.send(self.victim, signum)

    def writers(self, *, held: bool) -> list[tuple[int, Process]]:
        """Return pairs of an application's process id and a writer's process at the origin.

        If `held`, the writers are those that are held (stopped by an agent), else the others.
        """
        processes = self.host.victims()
        writers = with_role("writer_origin", processes)
        return [
            (application.pid, writer)
            for application in with_role("application", processes)
            for writer in writers
            if is_stopped(writer.pid) is held
        ]


#: An action returns how a second nimc ended, if it starts one.
Action = Callable[[Hit], NimcEnd | None]


def _sending(signum: int) -> Action:
    return lambda hit: hit.send(signum)


def stop(hit: Hit) -> None:
    """Stop the victim for a while, then let it continue.

    The stop signal is sent again and again, since an agent may resume the process.
    """
    until_s = time.monotonic() + AWAY_S
    while time.monotonic() < until_s:
        hit.send(signal.SIGSTOP)
        time.sleep(_STOP_AGAIN_S)
    hit.send(signal.SIGCONT)


def fill_disk(hit: Hit) -> None:
    """Fill the file system of the results completely for a while."""
    filler = hit.host.sandbox.results / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    time.sleep(AWAY_S)
    filler.unlink()


def read_only(hit: Hit) -> None:
    """Make the folder of the results read-only for a while."""
    folder = str(hit.host.sandbox.work / "results")
    hit.host.sandbox.run("mount", "--bind", folder, folder)
    # The kernel refuses this while a file in the folder is open for writing.
    deadline_s = time.monotonic() + AWAY_S
    while True:
        try:
            hit.host.sandbox.run("mount", "-o", "remount,bind,ro", folder)
            break
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
    time.sleep(AWAY_S)
    hit.host.sandbox.run("umount", "--lazy", folder)


def second_nimc(hit: Hit) -> NimcEnd:
    return hit.host.start("second").end(60.0)


def away(hit: Hit) -> None:
    assert hit.victim
    box = hit.cluster.box_of(hit.victim)
    hit.send(signal.SIGKILL)
    time.sleep(AWAY_S)
    hit.cluster.revive(box, hit.victim.words)


def node_off(hit: Hit) -> None:
    hit.cluster.switch_off(hit.rng.choice(NODES))


def link_down(hit: Hit) -> None:
    port = hit.cluster.port(hit.rng.choice(NODES))
    hit.cluster.ip("link", "set", port, "down")
    time.sleep(AWAY_S)
    hit.cluster.ip("link", "set", port, "up")


def loss(hit: Hit) -> None:
    """Drop a share of a node's packets for a while."""
    node = hit.rng.choice(NODES)
    hit.cluster.drop(node, hit.rng.choice(_LOSS_SHARES))
    time.sleep(AWAY_S)
    hit.cluster.drop(node, 0.0)


def _stepping(sign: int) -> Action:
    """Return an action that sets a node's clock forward (`sign` 1) or back (-1) for a while."""

    def call(hit: Hit) -> None:
        node, by_s = hit.rng.choice(NODES), sign * hit.rng.choice(_CLOCK_STEPS_S)
        hit.machines.step_clock(node, by_s)
        time.sleep(AWAY_S)
        hit.machines.step_clock(node, -by_s)

    return call


def _to_jobs(*command: str, undo: tuple[str, ...] = ()) -> Action:
    """Return an action that gives Slurm a command for all jobs.

    If there is an `undo` command, it follows after a while.
    """

    def call(hit: Hit) -> None:
        jobs = hit.host.jobs()
        hit.cluster.try_slurm(*command, *jobs)
        if undo:
            time.sleep(AWAY_S)
            hit.cluster.try_slurm(*undo, *jobs)

    return call


def drain(hit: Hit) -> None:
    nodes = f"nodename={','.join(NODES)}"
    hit.cluster.try_slurm("scontrol", "update", nodes, "state=drain", "reason=fault")
    time.sleep(AWAY_S)
    hit.cluster.try_slurm("scontrol", "update", nodes, "state=resume")


# Actions of planted faults.


def dies(hit: Hit) -> None:
    for _, writer in hit.writers(held=False):
        hit.host.send(writer, signal.SIGKILL)


def slow(hit: Hit) -> None:
    """Stop each writer for most of the time, so that it writes slowly."""
    for _, writer in hit.writers(held=False):
        hit.host.send(writer, signal.SIGSTOP)
        time.sleep(0.4)
        hit.host.send(writer, signal.SIGCONT)


def silent(hit: Hit) -> None:
    """Stop the writers for a while, once in each run."""
    for application, writer in hit.writers(held=False):
        if application not in hit.done:
            hit.done[application] = None
            time.sleep(1.0)
            hit.host.send(writer, signal.SIGSTOP)
            time.sleep(SILENT_S)
            hit.host.send(writer, signal.SIGCONT)


def writes_in_off(hit: Hit) -> None:
    for _, writer in hit.writers(held=True):
        hit.host.send(writer, signal.SIGCONT)


def load(hit: Hit) -> None:
    """Keep a processor busy."""
    if not hit.done:
        words = ["sh", "-c", "while :; do :; done"]
        hit.done[0] = subprocess.Popen(words, start_new_session=True)


def claims(hit: Hit) -> None:
    """Make the writer's program on the origin report four times the bytes that it wrote."""
    _wrap_once(hit, NODES[1], FOUR_TIMES)


def misplaces(hit: Hit) -> None:
    """Make the writer's program on the target use memory of the first NUMA node.

    It does so even if the agent binds it to another NUMA node.
    """
    _wrap_once(hit, NODES[0], MISPLACED)


def _wrap_once(hit: Hit, node: str, program: str) -> None:
    if not hit.done:
        hit.done[0] = None
        hit.machines.wrap_writer(node, program)


ACTIONS: dict[str, Action] = {
    "kill": _sending(signal.SIGKILL),
    "terminate": _sending(signal.SIGTERM),
    "interrupt": _sending(signal.SIGINT),
    "hang_up": _sending(signal.SIGHUP),
    "go_on": _sending(signal.SIGCONT),
    "clock_forward": _stepping(1),
    "clock_back": _stepping(-1),
    "cancel": _to_jobs("scancel"),
    "requeue": _to_jobs("scontrol", "requeue"),
    "suspend": _to_jobs("scontrol", "suspend", undo=("scontrol", "resume")),
    "nothing": lambda _: None,
    **{
        action.__name__: action
        for action in (
            stop,
            fill_disk,
            read_only,
            second_nimc,
            away,
            node_off,
            link_down,
            loss,
            drain,
            dies,
            slow,
            silent,
            writes_in_off,
            load,
            claims,
            misplaces,
        )
    },
}
