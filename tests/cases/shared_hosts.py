"""Files of `../shared/cases`, beside the checkout, and hosts made of them or of their like."""

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
    """The text of a case, from its file."""
    path = CASES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"cases of real hosts are not here: no file {path}")
    return path.read_text()


def files_in(text: str) -> dict[str, str]:
    """Files of a host, a line `PATH = CONTENT` each."""
    parts = (line.partition(" = ") for line in text.splitlines())
    return {path: content for path, _, content in parts}


def machine_of(
    files: Mapping[str, str], root: Path, patch: pytest.MonkeyPatch, policy: str = "same_host"
) -> Machine:
    """A machine without facts, on a host of these files whose CPUs may all be used."""
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
    """A reader, its right result, and the text that it reads; None: that of the case's file."""

    name: str
    read: Callable[[str, Path], Any]
    right: Any
    text: str | None = None


def read(case: Case, folder: Path) -> Any:
    """Return what the reader of a case reads."""
    return case.read(case_text(case.name) if case.text is None else case.text, folder)
