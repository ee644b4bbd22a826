"""Faults planted on two virtual machines, each to be named by `nimc qualify` (docs/qualify.md).

A short form of its campaign runs beside each fault, and without one. Claims on hardware, which
soft-RoCE never allows, are judged as if the devices were real. Needs root.
"""

import argparse
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from analysis.report.data import load_run
from analysis.subjects.qualification import (
    CAVEAT,
    NOT_SHOWN,
    REFUSED,
    Evidence,
    qualification,
)
from nimc.records.run_folder import run_folders
from tests.faults.place import wait_until
from tests.faults.virtual import VirtualMachines

CAMPAIGN = """\
name: qualify
title: Whether planted faults are named
workloads:
  - check: membench
    set: {cores: 1, duration_s: 10}
    factors: {direction: [write, read], rate: [full, 50%]}
    exclude: [{direction: read, rate: 50%}]
    expect: 11s
arms: [off, on]
pairs: {floor: 6}
injector: {message: 64KiB}
verify: {min_share: 0.02, retries: 0, foreign_cpus: null, steal_share: null, frequency_drop: null}
run_timeout: 1min
"""
TARGET, ORIGIN = "node1", "node2"
_RUN_S = 600
#: In the mount namespace of a machine's first process, which jobs see too.
_IN_ALL = ("nsenter", "--target=1", "--mount")
#: Runs of one pair.
_ENOUGH = 4
#: Gives the port of the soft device counters as of InfiniBand, in place of those of its interface:
#: expressions of what that received and sent, `rx` and `tx`, bytes, and of `t`, seconds.
_COUNTERS = """
import os, subprocess, sys, time
port, made = "/sys/class/infiniband/rxe0/ports/1", "/run/planted"
for folder, _, names in os.walk(port):
    os.makedirs(made + folder.removeprefix(port), exist_ok=True)
    for name in names:
        try:
            content = open(f"{folder}/{name}", "rb").read()
        except OSError:
            continue
        open(made + f"{folder}/{name}".removeprefix(port), "wb").write(content)
os.makedirs(f"{made}/counters", exist_ok=True)
names = ("port_rcv_data", "port_xmit_data")
files = [os.open(f"{made}/counters/{name}", os.O_RDWR | os.O_CREAT) for name in names]
codes = [compile(text, "counter", "eval") for text in sys.argv[1:]]
began, mounted = time.monotonic(), False
while True:
    line = next(each for each in open("/proc/net/dev") if each.strip().startswith("eth0:"))
    words = line.partition(":")[2].split()
    now = {"rx": int(words[0]), "tx": int(words[8]), "t": time.monotonic() - began}
    for file, code in zip(files, codes):
        os.pwrite(file, b"%020d\\n" % int(eval(code, now)), 0)  # as wide, so always whole
    if not mounted:
        subprocess.run(["mount", "--bind", made, port], check=True)
        mounted = True
    time.sleep(0.02)
"""
#: Sends packets to an address: bytes per second, and whether every other second only.
_FOREIGN = """
import socket, sys, time
to, rate, bursts = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "bursts"
socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    if not bursts or time.time() % 2 < 1:
        for _ in range(max(1, int(rate * 0.02 / 8000))):
            socket_.sendto(bytes(8000), (to, 9))
    time.sleep(0.02)
"""
#: Runs the real program after a change of its words, or of what it prints.
_WRAPPER = """#!/usr/bin/env python3
import os, re, signal, subprocess, sys, time
real, words = "/usr/bin/ib_write_bw", sys.argv[1:]
client = any(re.fullmatch(r"[0-9.]+|node[0-9]+", word) for word in words)
{body}
os.execv(real, [real, *words])
"""


@dataclass(frozen=True)
class Planted:
    """A fault, and the claim whose judgement names it."""

    claim: str
    #: Undoes itself.
    plant: Callable[["Machines"], Any]
    named_by: tuple[str, ...] = (REFUSED,)


class Machines(VirtualMachines):
    """One target and one origin, with ways to plant faults."""

    def begin(self, node: str, *words: str) -> None:
        """Start a program that goes on in a machine."""
        line = shlex.join([*_IN_ALL, *words])
        self.ask(node, "sh", "-c", f"setsid {line} < /dev/null > /run/said 2>&1 &")

    @contextmanager
    def program(self, node: str, text: str, *words: str) -> Iterator[None]:
        self.begin(node, "python3", "-c", text, *words)
        time.sleep(2)
        try:
            yield
        finally:
            self.ask(node, "pkill", "-f", "python3 -c")

    @contextmanager
    def counters(self, node: str, *values: str) -> Iterator[None]:
        try:
            with self.program(node, _COUNTERS, *values):
                yield
        finally:
            self.ask(node, *_IN_ALL, "umount", "/sys/class/infiniband/rxe0/ports/1")

    @contextmanager
    def wrapped(self, node: str, body: str) -> Iterator[None]:
        """`ib_write_bw` of a machine behaves as `body` says."""
        path = "/usr/local/bin/ib_write_bw"
        text = _WRAPPER.replace("{body}", body)
        script = f"printf %s {shlex.quote(text)} > {path} && chmod 755 {path}"
        self.ask(node, "sh", "-c", script)
        try:
            yield
        finally:
            self.ask(node, "rm", path)

    @contextmanager
    def site(self, **changes: Any) -> Iterator[None]:
        file = self.layout.machine_file
        before = file.read_text()
        file.write_text(yaml.safe_dump(yaml.safe_load(before) | changes, sort_keys=False))
        try:
            yield
        finally:
            file.write_text(before)

    @contextmanager
    def clock(self, node: str, by_s: int) -> Iterator[None]:
        self.step_clock(node, by_s)
        try:
            yield
        finally:
            self.step_clock(node, -by_s)


def _counter(claim: str, received: str, sent: str) -> Planted:
    """The counters of the target's port, in words of four bytes, show something else."""
    return Planted(claim, lambda on: on.counters(TARGET, received, sent))


def _program(claim: str, body: str) -> Planted:
    return Planted(claim, lambda on: on.wrapped(ORIGIN, body))


_SCALED = """
if client:
    found = subprocess.Popen([real, *words], stdout=subprocess.PIPE, text=True, bufsize=1)
    signal.signal(signal.SIGTERM, lambda *_: found.terminate())
    for line in found.stdout:
        row = re.fullmatch(r"( *[0-9]+ +[0-9]+ +)([0-9.]+)( +)([0-9.]+)( .*)?", line.rstrip())
        if row:
            scaled = (float(row[k]) * FACTOR for k in (2, 4))
            line = "{}{:.2f}{}{:.2f}{}\\n".format(
                row[1], next(scaled), row[3], next(scaled), row[5] or ""
            )
        sys.stdout.write(line)
        sys.stdout.flush()
    sys.exit(found.wait())
"""
_LIMIT = """
for at, word in enumerate(words):
    if word.startswith("--rate_limit="):
        CHANGE
"""
PLANTED: dict[str, Planted] = {
    "device absent": Planted("devices", lambda on: on.site(device="rxe7")),
    "link of the file": Planted(
        "full rate", lambda on: on.site(nic={"processing": "onload", "link_rate": "20Mbit/s"})
    ),
    "counter of bytes": _counter("counter of writes", "rx", "tx // 4"),
    "counter dead": _counter("counter of writes", "123456", "123456"),
    "counter stops": _counter("counter of writes", "2**32 - 1", "2**32 - 1"),
    "counter wraps": _counter("counter of writes", "rx // 4 % 2**20", "tx // 4 % 2**20"),
    "counter set back": _counter("counter of writes", "rx // 4 if t % 8 < 4 else 0", "tx // 4"),
    "counter of another port": _counter("counter of writes", "rx // 4000", "tx // 4000"),
    "counters exchanged": _counter("counter of writes", "tx // 4", "rx // 4"),
    "counter of bits": _counter("counter of reads", "rx // 4", "tx * 2"),
    "limit ignored": _program("throttled", _LIMIT.replace("CHANGE", "del words[at]; break")),
    "claims four times": _program("counter of writes", _SCALED.replace("FACTOR", "4")),
    "claims a quarter": _program("counter of writes", _SCALED.replace("FACTOR", "0.25")),
    "does not start": _program("held", "sys.exit(1 if client else 0)"),
    "dies": _program("held", "if client: words = ['2', real, *words]; real = '/usr/bin/timeout'"),
    "clock of the origin": Planted("clocks", lambda on: on.clock(ORIGIN, 3600)),
    "clock a second off": Planted("clocks", lambda on: on.clock(ORIGIN, 2)),
    "foreign writer": Planted(
        "foreign writer", lambda on: on.program(ORIGIN, _FOREIGN, TARGET, "8e6", "always")
    ),
    "foreign bursts": Planted(
        "foreign writer", lambda on: on.program(ORIGIN, _FOREIGN, TARGET, "8e6", "bursts")
    ),
    "foreign load": Planted(
        "foreign load", lambda on: on.program(TARGET, "while True: pass"), (REFUSED, CAVEAT)
    ),
}


def _samples(results: Path) -> int:
    files = results.glob("latest/samples/*.jsonl")
    return sum(file.read_bytes().count(b'"warmup":false') for file in files)


def trial(on: Machines, name: str) -> dict[str, tuple[str, str]]:
    """What is said of each claim; of `run`, if nothing ran."""
    results = on.folder / f"results-{name.replace(' ', '-')}-{time.time():.0f}"
    file = on.folder / "qualify.yaml"
    file.write_text(CAMPAIGN)
    words = ("run", file, "--machine", "minicluster", "--results", results)
    process = on.cluster.start(*words, folder=on.folder)
    # One pair says enough: the rest is left out.
    wait_until(lambda: process.poll() is not None or _samples(results) >= _ENOUGH, _RUN_S)
    process.terminate()
    _, err = process.communicate(timeout=120)
    runs = run_folders(results) if results.exists() else []
    if not runs:
        return {"run": (REFUSED, err.strip().splitlines()[-1])}
    with mock.patch.object(Evidence, "emulated", []):
        found = qualification(load_run(runs[0], force=True))
    return {each.name: (each.state, each.reason) for each in found.claims}


def _one(on: Machines, name: str) -> bool:
    """One trial; whether its fault was named, or without one nothing."""
    began_s = time.monotonic()
    fault = PLANTED.get(name)
    with fault.plant(on) if fault else nullcontext():
        said = trial(on, name)
    refused = {claim for claim, (state, _) in said.items() if state == REFUSED}
    held = said.get(fault.claim, ("", ""))[0] in fault.named_by if fault else not refused
    print(f"{name:24} {'held' if held else 'FAILED':6} {time.monotonic() - began_s:4.0f} s")
    for claim, (state, reason) in said.items():
        if state != NOT_SHOWN:
            print(f"    {claim:18} {state:8} {reason}")
    sys.stdout.flush()
    on.repair()
    return held


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.planted", description=__doc__)
    parser.add_argument("--clean", type=int, default=20, help="runs without a fault (%(default)s)")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of faults")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))  # leave nothing behind
    names = [name for name in PLANTED if not asked.only or name in asked.only]
    with (
        tempfile.TemporaryDirectory(prefix="nimc-planted-", dir="/var/tmp") as folder,
        Machines.made(Path(folder)) as on,
    ):
        assert isinstance(on, Machines)
        held = [_one(on, name) for name in [*names, *["clean"] * asked.clean]]
    print(f"{sum(held)} of {len(held)} held")
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
