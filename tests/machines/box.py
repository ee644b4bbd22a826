"""A machine in a box: writes its files and programs, and runs `nimc` as if on this machine.

    python -m tests.machines.box

reads requests as lines of JSON, and prints a line of JSON for each. A request has the arguments of
`answers_of`. Each is answered by a new process, which has imported `nimc` already.

Two things need a real machine and are replaced. Instead of a job that inspects nodes, there are two
nodes like the machine in the box. Addresses of network interfaces come from the machine's folder.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import yaml

from nimc.cli.main import cli
from records.checkout import ROOT
from records.kernel_text import cpu_list
from tests.in_process import call
from tests.nimc.checkouts import program

MACHINES = Path(__file__).parent
#: A list of numbers in a path, as in `PATH[0-3]/FILE`. The line stands for one file for each
#: number n.
_EACH = re.compile(r"\[([0-9,-]+)\]")
#: The number n in the rest of a line: `{n}`, or with operations that are applied from left to
#: right, as in `{n/4*4+3}`.
_N = re.compile(r"\{n((?:[+*/%-][0-9]+)*)\}")
_STEP = re.compile(r"([+*/%-])([0-9]+)")
_STEPS = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
}  # fmt: skip
#: What Slurm's commands print on every machine: command -> its arguments (`*`: any) -> output.
_SLURM = {
    "scontrol": {"ping": "Slurmctld(primary) at ctl is UP"},
    "sacct": {"*": ""},
    "sbatch": {"--version": "slurm 24.05.4"},
    "sinfo": {"*": "n1 idle\nn2 idle\nn3 idle\nn4 idle"},
    "squeue": {"*": ""},
    "scancel": {"*": ""},
}


def unpack(machine: str, root: Path) -> None:
    """Write the files of a machine below `root`.

    A line of `kernel.txt` is `PATH = CONTENT` for a file, `PATH -> TARGET` for a link, or `PATH !`
    for a file that cannot be read.
    """
    for line in (MACHINES / machine / "kernel.txt").read_text().splitlines():
        for text in _each(line) if line and not line.startswith("#") else ():
            path, kind, content = _parts(text)
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if kind == "->":
                file.symlink_to(content)
            elif kind == "!":
                file.mkdir()
            else:
                file.write_text(content.replace("\\n", "\n").replace("\\t", "\t") + "\n")


def _parts(line: str) -> tuple[str, str, str]:
    match = re.fullmatch(r"(\S+) (=|->|!) ?(.*)", line)
    assert match, line
    return match[1], match[2], match[3]


def _each(line: str) -> Iterator[str]:
    path, space, rest = line.partition(" ")
    numbers = _EACH.search(path)
    if numbers is None:
        yield line
        return
    for number in cpu_list(numbers[1]):
        one = path[: numbers.start()] + str(number) + path[numbers.end() :] + space + rest
        yield _N.sub(lambda match, number=number: str(_stepped(number, match[1])), one)


def _stepped(number: int, steps: str) -> int:
    for sign, value in _STEP.findall(steps):
        number = _STEPS[sign](number, int(value))
    return number


def programs(machine: str, folder: Path) -> dict[str, str]:
    """Make programs that print what those of the machine print.

    Returns variables of the environment by which nimc finds them, besides PATH.
    """
    answers = yaml.safe_load((MACHINES / machine / "answers.yaml").read_text())
    answered: dict[str, dict[str, str]] = {name: dict(words) for name, words in _SLURM.items()}
    for kind in ("partition", "node", "config"):
        options = "--all --oneliner" if kind == "node" else "--oneliner"
        answered["scontrol"][f"{options} show {kind}"] = answers[kind]
    answered["srun"] = {"--mpi=list": "MPI plugin types are...\n" + "\n".join(answers["mpi"])}
    answered["sacctmgr"] = {"*": "\n".join(answers.get("accounts", []))}
    answered["lmod"] = {"*": "\n".join(answers.get("modules", []))}
    answered |= {name: {"*": ""} for name in answers.get("programs", [])}
    for name, words in answered.items():
        cases = (
            f"{_pattern(word)}) printf '%s\\n' {shlex.quote(text)};;"
            for word, text in words.items()
        )
        program(folder, name, "\n".join(['case "$*" in', *cases, "*) exit 1;;", "esac"]))
    return {"LMOD_CMD": str(folder / "lmod")}


def _pattern(words: str) -> str:
    return words if words == "*" else shlex.quote(words)


def answers_of(
    root: str, machine: str, environment: dict[str, str], commands: list[list[str]]
) -> list[tuple[int, str, str]]:
    """Run commands of `nimc` in this process, which can run none for another machine afterwards.

    The files of the machine are below `root`. Returns exit status, standard output and standard
    error of each command.
    """
    from conductor import wire
    from nimc.cluster import in_job, new_machine, node_inspection

    os.environ.clear()
    os.environ.update(environment)
    _move(Path(root))
    answers: dict[str, Any] = yaml.safe_load((MACHINES / machine / "answers.yaml").read_text())

    def inspect_job(name: str, *_: object, **__: object) -> in_job.JobInspection:
        known = (ROOT / "site" / f"{name}.yaml").exists()
        site = in_job.load_machine(name) if known else None
        wanted = (site.device, site.interface) if site else (None, None)
        here = node_inspection.inspect_node(Path(root), *wanted, [])
        nodes = [replace(here, name=node, sees_lock=True) for node in ("n1", "n2")]
        return in_job.JobInspection(job="7", why=None, nodes=nodes)

    def address(interface: str) -> str:
        if interface not in answers["addresses"]:
            raise wire.WireError(f"interface {interface}: no address")
        return str(answers["addresses"][interface])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "interface_address", address)
        patch.setattr(new_machine, "inspect_nodes", inspect_job)
        patch.setattr(in_job, "inspect_nodes", inspect_job)
        return [call(words) for words in commands]


def _move(root: Path) -> None:
    """Make functions that read /proc or /sys by default read these folders below `root`."""
    import conductor.counters
    import records.machine.devices
    import records.machine.host

    new = {Path("/"): root, Path("/sys"): root / "sys"}
    modules: list[ModuleType] = [
        conductor.counters, records.machine.devices, records.machine.host,
    ]  # fmt: skip
    for function in (value for module in modules for value in vars(module).values()):
        if defaults := getattr(function, "__defaults__", None):
            function.__defaults__ = tuple(
                new.get(value, value) if isinstance(value, Path) else value for value in defaults
            )


def main() -> None:
    """Answer the requests of standard input. Ends with status 1 after a request that fails."""
    for name in ("init", "doctor", "plan"):
        cli.get_command(click.Context(cli), name)  # imports what the command needs
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            print(json.dumps(answers_of(**json.loads(line))), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(1)


if __name__ == "__main__":
    main()
