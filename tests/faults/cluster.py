"""Testbeds of trials that are miniclusters: Slurm clusters on one host.

A minicluster stays up for many trials. Its nodes are containers or virtual machines. This host
cannot see the processes of a virtual machine. Therefore, a shell in each machine runs scripts that
the trials write to a shared folder. This needs neither Slurm nor a network.
"""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from records.errors import MachineError
from testbed import cluster, daemons, namespaces, vm
from testbed.containers import enter, running_pid
from testbed.spec import CHECKOUT, Fabric
from tests.faults.host import DAEMONS, Host, Process, read_processes, role, wait_until
from tests.nimc.minicluster.driven import ENV, Cluster

#: Names of the nodes: the target, which also runs the conductor, and the origin.
NODES = ("node1", "node2")
#: Programs, besides daemons, that run in a container even if it has no job.
_IDLE_PROGRAMS = {"sh", "sleep", "unshare", "qemu-system-x86_64"}
#: Name of slurmctld's second process.
_SCRIPTS = "slurmscriptd"
#: Shell script that starts its arguments as a daemon's command line.
REVIVE = 'ulimit -l unlimited 2> /dev/null; "$@" > /dev/null 2>&1 &'
#: Program for the kernel's packet filter. It drops a packet if a random number of 32 bits is below
#: %d.
_DROPS = "4,32 0 0 4294963256,53 0 1 %d,6 0 0 0,6 0 0 2"


class Minicluster(Host):
    """One target and one origin on the veth fabric."""

    machine = "minicluster"
    fabric: Fabric = "veth"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = Cluster(folder / "s")
        self.layout = self.cluster.layout

    @classmethod
    @contextmanager
    def instance(cls, folder: Path) -> Iterator[Host]:
        host = cls(folder)
        host.up()
        try:
            yield host
        finally:
            host.cluster.nimc("down")

    def up(self) -> None:
        self.bring_up()

    def bring_up(self, *options: str) -> None:
        nodes = ["--nodes", "2", "--origins", "1", "--fabric", self.fabric]
        self.cluster.nimc("up", *nodes, *options, timeout_s=500)

    def environment(self) -> dict[str, str]:
        """Return nimc's environment, in which temporary files of jobs go to the trial's folder."""
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
        return [daemons.CONTROLLER, *NODES]

    def inside(self, box: str) -> list[Process]:
        with suppress(FileNotFoundError):
            return read_processes(namespaces.pids_in([self.layout.netns(box)]))
        return []

    def processes(self) -> list[Process]:
        inside = [process for box in self.boxes() for process in self.inside(box)]
        return [*super().processes(), *(process for process in inside if not _is_idle(process))]

    def victims(self) -> list[Process]:
        return [
            *super().processes(),
            *(process for box in self.boxes() for process in self.inside(box)),
        ]

    def jobs(self) -> list[str]:
        """Return ids of the jobs that squeue lists; an empty list if slurmctld does not answer."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            return self.cluster.slurm("squeue", "--noheader", "--format=%A").split()
        return []

    def files(self) -> list[str]:
        here = [*super().files(), *os.listdir(self.sandbox.work / "tmp")]
        return [*here, *(f"{node}:{name}" for node in NODES for name in self.files_left_in(node))]

    def files_left_in(self, node: str) -> list[str]:
        return [f"/dev/shm/{name}" for name in self.ask(node, "ls", "/dev/shm").split()]

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
        """Kill process 1 of a node's container; the kernel then kills all others in it."""
        os.kill(running_pid(self.layout, node), signal.SIGKILL)

    def port(self, node: str) -> str:
        return f"port{NODES.index(node) + 1}"

    def ip(self, *words: str) -> None:
        """Run `ip` in the network namespace of the controller, which has the bridge."""
        netns = self.layout.netns(daemons.CONTROLLER)
        subprocess.run(["ip", "-n", netns, *words], env=ENV, check=True, capture_output=True)

    def drop(self, node: str, share: float) -> None:
        """Drop a share of the packets from a node; with 0, drop none.

        A packet filter is used, since the kernel may lack netem.
        """
        port = self.port(node)
        if not share:
            self._tc("qdisc", "del", "dev", port, "clsact")
            return
        self._tc("qdisc", "add", "dev", port, "clsact")
        program = ("bpf", "direct-action", "bytecode", _DROPS % int(share * 2**32))
        self._tc("filter", "add", "dev", port, "ingress", *program)

    def _tc(self, *words: str) -> None:
        netns = self.layout.netns(daemons.CONTROLLER)
        subprocess.run(["tc", "-n", netns, *words], env=ENV, check=True, capture_output=True)

    def try_slurm(self, *command: str) -> None:
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.cluster.slurm(*command)

    def repair(self) -> None:
        """Wait until all nodes are idle; if this takes too long, replace the cluster."""
        if not self._idle():
            self.cluster.nimc("down")
            self.up()

    def _idle(self) -> bool:
        for node in NODES:
            self.try_slurm("scontrol", "update", f"nodename={node}", "state=resume")
        with suppress(MachineError):
            current = cluster.status(self.layout).state
            assert current
            limit_s = cluster.IDLE_TIMEOUT_S[self.fabric]
            daemons.wait_idle(self.layout, current.spec.members(), limit_s, lambda: None)
            return cluster.status(self.layout).healthy
        return False


def _is_idle(process: Process) -> bool:
    if role(process.words) in DAEMONS or _SCRIPTS in process.line:
        return True
    return Path(process.words[0]).name in _IDLE_PROGRAMS


# Virtual machines.


#: Shell script that runs the scripts that appear in a folder; its argument is this folder. It
#: leaves the control group of the Slurm step, since Slurm kills all processes of this group when
#: the step ends. It checks the folder only once a second, since the programs that it starts load
#: an emulated processor.
_SERVE = """
echo $$ > /sys/fs/cgroup/init/cgroup.procs
cd "$1"
setsid sh -c '
    while :; do
        for script in *.sh; do
            [ -e "$script" ] || continue
            sh "$script" > "$script.part" 2>&1
            rm "$script"
            mv "$script.part" "${script%.sh}.out"
        done
        sleep 1
    done' < /dev/null > /dev/null 2>&1 &
"""
#: Python program that adds its argument (seconds) to the clock. The time that the program takes to
#: start does not matter.
_CLOCK_STEP = "import sys, time; time.clock_settime(0, time.time() + float(sys.argv[1]))"
#: Program that runs `ib_write_bw`, but prints four times the bytes and rates in each row.
FOUR_TIMES = """#!/usr/bin/env python3
import signal, subprocess, sys
real = subprocess.Popen(["/usr/bin/ib_write_bw", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
signal.signal(signal.SIGTERM, lambda *_: real.terminate())
for line in real.stdout:
    row = line.split()
    if len(row) == 5 and row[0].isdigit():
        rates = " ".join(f"{4 * float(number):.6f}" for number in row[2:])
        line = f"{row[0]} {4 * int(row[1])} {rates}\\n"
    print(line, end="", flush=True)
sys.exit(real.wait())
"""
#: Program that runs `ib_write_bw` with its memory on the first NUMA node, even if its parent bound
#: it to another one.
MISPLACED = f"""#!/usr/bin/env python3
import os, sys
sys.path.insert(0, {str(CHECKOUT)!r})
from records.processes import bind_memory
bind_memory(0)
os.execv("/usr/bin/ib_write_bw", ["ib_write_bw", *sys.argv[1:]])
"""
#: Command that lists all processes except those of the kernel.
_LIST = "ps --pid 2 --ppid 2 --deselect -ww -o pid=,args="
#: Folders for temporary files that each virtual machine has.
_TEMPORARY = ("/tmp", "/dev/shm")
#: How long to wait for the answer of a virtual machine, seconds. It may be busy, or off.
_ANSWER_S = 30.0


class VirtualMachines(Minicluster):
    """One target and one origin on the rxe fabric, with two NUMA nodes each."""

    fabric: Fabric = "rxe"
    own_clocks = True
    patience = 3.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._numbers = count()

    def up(self) -> None:
        """Start the cluster, and a shell in each machine."""
        self.bring_up("--share", str(self.folder), "--numa", "2")
        for node in NODES:
            self._letters(node).mkdir(parents=True, exist_ok=True)
            serve = ["sh", "-c", _SERVE, "sh", str(self._letters(node))]
            self.cluster.slurm("srun", "--partition=all", f"--nodelist={node}", *serve)

    def _letters(self, node: str) -> Path:
        return self.folder / "letters" / node

    def environment(self) -> dict[str, str]:
        """Return nimc's environment without TMPDIR: jobs use folders of the virtual machines."""
        environment = super().environment()
        del environment["TMPDIR"]
        return environment

    def ask(self, box: str, *command: str) -> str:
        """Return what a command prints in a container or virtual machine.

        Returns an empty text if a machine is off or does not answer in time.
        """
        if box not in NODES:
            return super().ask(box, *command)
        script = self._letters(box) / f"{next(self._numbers)}.sh"
        answer = script.with_suffix(".out")
        new = script.with_suffix(".new")
        new.write_text(f"{shlex.join(command)}\n")
        new.rename(script)
        wait_until(lambda: answer.exists() or vm.pid(self.layout, box) is None, _ANSWER_S)
        script.unlink(missing_ok=True)
        return answer.read_text(errors="replace") if answer.exists() else ""

    def inside(self, box: str) -> list[Process]:
        """Return the processes in a container or virtual machine.

        The `ps` that lists a machine's processes is left out.
        """
        if box not in NODES:
            return super().inside(box)
        lines = (line.split() for line in self.ask(box, *_LIST.split()).splitlines())
        listed = (Process(int(pid), tuple(words), box) for pid, *words in lines)
        return [process for process in listed if process.words[0] != "ps"]

    def send(self, process: Process, signum: int) -> None:
        if process.box:
            self.ask(process.box, "kill", f"-{signum}", str(process.pid))
        else:
            super().send(process, signum)

    def revive(self, box: str, words: tuple[str, ...]) -> None:
        if box in NODES:
            self.ask(box, "sh", "-c", REVIVE, "sh", *words)
        else:
            super().revive(box, words)

    def files_left_in(self, node: str) -> list[str]:
        left = self.ask(node, "find", *_TEMPORARY, "-mindepth", "1", "-maxdepth", "1").split()
        return [path for path in left if not CHECKOUT.is_relative_to(path)]

    def switch_off(self, node: str) -> None:
        if pid := vm.pid(self.layout, node):
            os.kill(pid, signal.SIGKILL)

    def port(self, node: str) -> str:
        return f"tap{NODES.index(node) + 1}"

    def step_clock(self, node: str, by_s: int) -> None:
        self.ask(node, "python3", "-c", _CLOCK_STEP, str(by_s))

    def wrap_writer(self, node: str, program: str) -> None:
        """Make a machine use a program instead of its `ib_write_bw`.

        `repair` undoes this; so does switching the machine off.
        """
        path, text = "/usr/local/bin/ib_write_bw", shlex.quote(program)
        self.ask(node, "sh", "-c", f"printf %s {text} > {path} && chmod 755 {path}")

    def repair(self) -> None:
        for node in NODES:
            self.ask(node, "rm", "-f", "/usr/local/bin/ib_write_bw")
        super().repair()
