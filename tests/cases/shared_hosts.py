"""Reads files of `../shared/cases`, and makes hosts of these or similar files.

The folder is beside the checkout, and may be missing. It has outputs of programs and descriptions
of hosts, a file for each case.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from records.checkout import ROOT
from records.machine import host
from records.machine.site import Machine
from tests.conductor.sysfs import write
from tests.records.machine.made import machine

CASES = ROOT.parent / "shared" / "cases"
CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"
KIB, MIB = 2**10, 2**20


def case_text(name: str) -> str:
    """Return the text of a case from its file; skip the test if the file is missing."""
    path = CASES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"cases of real hosts are not here: no file {path}")
    return path.read_text()


def files_in(text: str) -> dict[str, str]:
    """Return path -> content of files, from lines `PATH = CONTENT`."""
    parts = (line.partition(" = ") for line in text.splitlines())
    return {path: content for path, _, content in parts}


def machine_of(
    files: Mapping[str, str], root: Path, patch: pytest.MonkeyPatch, policy: str = "same_host"
) -> Machine:
    """Return a machine without facts in its site file, on a host that consists of these files.

    All CPUs of the host may be used.
    """
    cpus = host.detect(write(root, dict(files))).threads
    patch.setattr(host.os, "sched_getaffinity", lambda _: set(range(cpus)))
    here = host.detect(root)
    patch.setattr(host, "detect", lambda: here)
    return machine(policy)


def cache(cpu: int, index: int, level: int, shared: str, size: str | None) -> dict[str, str]:
    folder = f"{CPU}/cpu{cpu}/cache/index{index}"
    files = {
        f"{folder}/level": str(level),
        f"{folder}/type": "Unified",
        f"{folder}/shared_cpu_list": shared,
    }
    return files | ({f"{folder}/size": size} if size else {})


class Case(NamedTuple):
    """A function that reads a text, and the right result.

    If `text` is None, it is the text of the case's file.
    """

    name: str
    read: Callable[[str, Path], Any]
    right: Any
    text: str | None = None


def read(case: Case, folder: Path) -> Any:
    """Return what a case's function reads in the case's text."""
    return case.read(case_text(case.name) if case.text is None else case.text, folder)
