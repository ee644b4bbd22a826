"""Trials on a minicluster, which stays up for many of them."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from records.errors import MachineError
from testbed import cluster, daemons, namespaces
from testbed.containers import container, enter
from testbed.spec import Fabric
from tests.faults.place import Place
from tests.faults.roles import DAEMONS, Process, read, role
from tests.nimc.minicluster.real import ENV, Cluster

#: The target, which runs the conductor, and the origin.
NODES = ("node1", "node2")
#: What a container runs when no job does, besides daemons.
_IDLE = {"sh", "sleep", "unshare", "qemu-system-x86_64"}
#: slurmctld's second process.
_SCRIPTS = "slurmscriptd"
REVIVE = 'ulimit -l unlimited 2> /dev/null; "$@" > /dev/null 2>&1 &'
#: For the kernel's packet filter: drops a packet if a random number of 32 bits is below %d.
_DROPS = "4,32 0 0 4294963256,53 0 1 %d,6 0 0 0,6 0 0 2"


class Minicluster(Place):
    """One target and one origin on the veth fabric."""

    machine = "minicluster"
    fabric: Fabric = "veth"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = Cluster(folder / "s")
        self.layout = self.cluster.layout

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[Place]:
        place = cls(folder)
        place.up()
        try:
            yield place
        finally:
            place.cluster.nimc("down")

    def up(self) -> None:
        self.bring_up()

    def bring_up(self, *options: str) -> None:
        nodes = ["--nodes", "2", "--origins", "1", "--fabric", self.fabric]
        self.cluster.nimc("up", *nodes, *options, timeout_s=500)

    def environment(self) -> dict[str, str]:
        """Jobs get a folder for temporary files that is this trial's."""
        temporary = self.sandbox.work / "tmp"
        temporary.mkdir(exist_ok=True)
        return {
            **super().environment(),
            "PATH": ENV["PATH"],
            "NIMC_MINICLUSTER": str(self.cluster.state),
            "SLURM_CONF": str(self.layout.slurm_conf),
            "TMPDIR": str(temporary),
        }

    def boxes(self) -> list[str]:
        return [daemons.CONTROL, *NODES]

    def inside(self, box: str) -> list[Process]:
        with suppress(FileNotFoundError):
            return read(namespaces.processes([self.layout.netns(box)]))
        return []

    def processes(self) -> list[Process]:
        found = [each for box in self.boxes() for each in self.inside(box)]
        return [*super().processes(), *(each for each in found if not _is_idle(each))]

    def victims(self) -> list[Process]:
        return [*super().processes(), *(each for box in self.boxes() for each in self.inside(box))]

    def jobs(self) -> list[str]:
        """What squeue lists; nothing while slurmctld is away."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            return self.cluster.slurm("squeue", "--noheader", "--format=%A").split()
        return []

    def files(self) -> list[str]:
        found = [*super().files(), *os.listdir(self.sandbox.work / "tmp")]
        return [*found, *(f"{node}:{each}" for node in NODES for each in self.left_in(node))]

    def left_in(self, node: str) -> list[str]:
        return [f"/dev/shm/{each}" for each in self.ask(node, "ls", "/dev/shm").split()]

    def ask(self, box: str, *command: str) -> str:
        return enter(self.layout, box, command)

    def revive(self, box: str, words: tuple[str, ...]) -> None:
        environment = {
            "MYSQL_UNIX_PORT": daemons.DATABASE_SOCKET,
            **daemons.client_env(self.layout),
        }
        enter(self.layout, box, ["sh", "-c", REVIVE, "sh", *words], environment)

    def box_of(self, process: Process) -> str:
        return next(box for box in self.boxes() if process in self.inside(box))

    def switch_off(self, node: str) -> None:
        """Kill a node's process 1, and with it all others."""
        os.kill(container(self.layout, node), signal.SIGKILL)

    def port(self, node: str) -> str:
        return f"port{NODES.index(node) + 1}"

    def ip(self, *words: str) -> None:
        """Change the network of the controller, in which the bridge is."""
        netns = self.layout.netns(daemons.CONTROL)
        subprocess.run(["ip", "-n", netns, *words], env=ENV, check=True, capture_output=True)

    def drop(self, node: str, share: float) -> None:
        """Lose some packets from a node; none with 0. (The kernel may lack netem.)"""
        port = self.port(node)
        if not share:
            self._tc("qdisc", "del", "dev", port, "clsact")
            return
        self._tc("qdisc", "add", "dev", port, "clsact")
        program = ("bpf", "direct-action", "bytecode", _DROPS % int(share * 2**32))
        self._tc("filter", "add", "dev", port, "ingress", *program)

    def _tc(self, *words: str) -> None:
        netns = self.layout.netns(daemons.CONTROL)
        subprocess.run(["tc", "-n", netns, *words], env=ENV, check=True, capture_output=True)

    def try_slurm(self, *command: str) -> None:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.cluster.slurm(*command)

    def repair(self) -> None:
        """Wait until all nodes are idle; a cluster that does not come back is replaced."""
        if not self._idle():
            self.cluster.nimc("down")
            self.up()

    def _idle(self) -> bool:
        for node in NODES:
            self.try_slurm("scontrol", "update", f"nodename={node}", "state=resume")
        with suppress(MachineError):
            current = cluster.status(self.layout).state
            assert current
            limit_s = cluster.IDLE_S[self.fabric]
            daemons.wait_idle(self.layout, current.spec.members(), limit_s, lambda: None)
            return cluster.status(self.layout).healthy
        return False


def _is_idle(process: Process) -> bool:
    if role(process.words) in DAEMONS or _SCRIPTS in process.line:
        return True
    return Path(process.words[0]).name in _IDLE
