"""Trials on a minicluster of virtual machines, whose processes this host cannot see.

A shell in each machine runs scripts that appear in a shared folder, so that it is reached without
Slurm and over no network: also while either is disturbed.
"""

import os
import shlex
import signal
from itertools import count
from pathlib import Path

from testbed import vm
from testbed.spec import CHECKOUT, Fabric
from tests.faults.cluster import NODES, REVIVE, Minicluster
from tests.faults.place import wait_until
from tests.faults.roles import Process

#: Argument: the folder. The shell leaves the step's control group, which ends with the step; it
#: looks once a second, since programs that it starts load an emulated processor.
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
#: By exactly so much, however long the program takes to start.
_STEP = "import sys, time; time.clock_settime(0, time.time() + float(sys.argv[1]))"
#: All processes but those of the kernel.
_LIST = "ps --pid 2 --ppid 2 --deselect -ww -o pid=,args="
#: Folders of a machine's own for temporary files.
_TEMPORARY = ("/tmp", "/dev/shm")
#: How long a machine may take to answer; it may be busy, or off.
_ANSWER_S = 30.0


class VirtualMachines(Minicluster):
    """One target and one origin on the rxe fabric."""

    fabric: Fabric = "rxe"
    own_clocks = True
    patience = 3.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._numbers = count()

    def up(self) -> None:
        """Start the cluster, and a shell in each machine."""
        self.bring_up("--share", str(self.folder))
        for node in NODES:
            self._letters(node).mkdir(parents=True, exist_ok=True)
            serve = ["sh", "-c", _SERVE, "sh", str(self._letters(node))]
            self.cluster.slurm("srun", "--partition=all", f"--nodelist={node}", *serve)

    def _letters(self, node: str) -> Path:
        return self.folder / "letters" / node

    def environment(self) -> dict[str, str]:
        """Jobs use folders of the machines for temporary files."""
        environment = super().environment()
        del environment["TMPDIR"]
        return environment

    def ask(self, box: str, *command: str) -> str:
        """What a command prints in a container or a machine; nothing if that is off."""
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
        """All processes in a container or a machine, but those that look."""
        if box not in NODES:
            return super().inside(box)
        lines = (line.split() for line in self.ask(box, *_LIST.split()).splitlines())
        known = (Process(int(pid), tuple(words), box) for pid, *words in lines)
        return [each for each in known if each.words[0] != "ps"]

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

    def left_in(self, node: str) -> list[str]:
        found = self.ask(node, "find", *_TEMPORARY, "-mindepth", "1", "-maxdepth", "1").split()
        return [each for each in found if not CHECKOUT.is_relative_to(each)]

    def switch_off(self, node: str) -> None:
        if pid := vm.pid(self.layout, node):
            os.kill(pid, signal.SIGKILL)

    def port(self, node: str) -> str:
        return f"tap{NODES.index(node) + 1}"

    def step_clock(self, node: str, by_s: int) -> None:
        self.ask(node, "python3", "-c", _STEP, str(by_s))
