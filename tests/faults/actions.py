"""What is done to a campaign. Each action returns once it is over and undone."""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.faults.checks import Ended
from tests.faults.cluster import NODES, Minicluster
from tests.faults.place import Place
from tests.faults.roles import Process
from tests.faults.table import AWAY_S
from tests.faults.virtual import VirtualMachines

#: Shares of packets that are lost, and by how much a clock is set, seconds.
_LOST = (0.01, 0.1, 0.5)
_STEPS_S = (2, 30, 600)
#: How often a process is stopped that is to stay so, seconds.
_STOPS_S = 0.05


@dataclass(frozen=True)
class Hit:
    place: Place
    #: None if it is done to no process.
    victim: Process | None
    rng: random.Random

    @property
    def cluster(self) -> Minicluster:
        assert isinstance(self.place, Minicluster)
        return self.place

    @property
    def machines(self) -> VirtualMachines:
        """The place, whose nodes have clocks of their own."""
        assert isinstance(self.place, VirtualMachines)
        return self.place

    def send(self, signum: int) -> None:
        assert self.victim
        self.place.send(self.victim, signum)


#: Returns how a second nimc ended, if there is one.
Action = Callable[[Hit], Ended | None]


def _sending(signum: int) -> Action:
    return lambda hit: hit.send(signum)


def stop(hit: Hit) -> None:
    """Stop the process, again whenever an agent resumes it, and let it continue after a while."""
    until_s = time.monotonic() + AWAY_S
    while time.monotonic() < until_s:
        hit.send(signal.SIGSTOP)
        time.sleep(_STOPS_S)
    hit.send(signal.SIGCONT)


def fill_disk(hit: Hit) -> None:
    """Fill the file system of the results to its last byte for a while."""
    filler = hit.place.sandbox.results / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(2**16)):
            pass
    time.sleep(AWAY_S)
    filler.unlink()


def read_only(hit: Hit) -> None:
    """Let nobody open a file of the results for writing for a while."""
    folder = str(hit.place.sandbox.work / "results")
    hit.place.sandbox.run("mount", "--bind", folder, folder)
    # Refused while a file below it is open for writing.
    deadline_s = time.monotonic() + AWAY_S
    while True:
        try:
            hit.place.sandbox.run("mount", "-o", "remount,bind,ro", folder)
            break
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
    time.sleep(AWAY_S)
    hit.place.sandbox.run("umount", "--lazy", folder)


def second_nimc(hit: Hit) -> Ended:
    return hit.place.start("second").end(60.0)


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
    """Lose some of a node's packets for a while."""
    node = hit.rng.choice(NODES)
    hit.cluster.drop(node, hit.rng.choice(_LOST))
    time.sleep(AWAY_S)
    hit.cluster.drop(node, 0.0)


def _stepping(sign: int) -> Action:
    """Set the clock of a node, and set it right after a while."""

    def call(hit: Hit) -> None:
        node, by_s = hit.rng.choice(NODES), sign * hit.rng.choice(_STEPS_S)
        hit.machines.step_clock(node, by_s)
        time.sleep(AWAY_S)
        hit.machines.step_clock(node, -by_s)

    return call


def _to_jobs(*command: str, undo: tuple[str, ...] = ()) -> Action:
    """A command of Slurm on all jobs, and another one after a while."""

    def call(hit: Hit) -> None:
        jobs = hit.place.jobs()
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


ACTIONS: dict[str, Action] = {
    "kill": _sending(signal.SIGKILL),
    "terminate": _sending(signal.SIGTERM),
    "interrupt": _sending(signal.SIGINT),
    "hang_up": _sending(signal.SIGHUP),
    "stop": stop,
    "go_on": _sending(signal.SIGCONT),
    "fill_disk": fill_disk,
    "read_only": read_only,
    "second_nimc": second_nimc,
    "away": away,
    "node_off": node_off,
    "link_down": link_down,
    "loss": loss,
    "clock_forward": _stepping(1),
    "clock_back": _stepping(-1),
    "cancel": _to_jobs("scancel"),
    "requeue": _to_jobs("scontrol", "requeue"),
    "suspend": _to_jobs("scontrol", "suspend", undo=("scontrol", "resume")),
    "drain": drain,
}
