"""Faults on two virtual machines, each to be named by `qualify` (docs/add-a-machine.md#claims).

A short form of its campaign runs beside each fault, and without one. Claims on hardware, which
soft-RoCE never allows, are judged as if the devices were real, but that more may be counted than
was written. Needs root.
"""

import argparse
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from analysis.questions.question import answer
from analysis.report.data import load_run
from analysis.subjects.qualification import CLAIMS, QUALIFICATION, claimed, evidence_of
from records.run_folder import run_folders
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
pairs: {floor: 6, cap: 6}
injector: {message: 64KiB}
verify: {min_share: 0.02, retries: 0, foreign_cpus: null, steal_share: null, frequency_drop: null}
run_timeout: 1min
"""
TARGET, ORIGIN = "node1", "node2"
#: Carries less than the writer writes.
SLOW_LINK = {"model": "soft-RoCE", "processing": "onload", "link_rate": "20Mbit/s"}
_RUN_S = 600
CAVEAT, NOT_SHOWN, REFUSED = "caveat", "not shown", "refused"
#: Soft-RoCE sends again what an emulated processor took too late, and that is counted too.
_SENT_AGAIN = 0.2
#: Claims as if the devices were real.
_CLAIMS = tuple(
    replace(
        claim,
        hardware=False,
        caveat=_SENT_AGAIN if claim.name.startswith("counter") else claim.caveat,
    )
    for claim in CLAIMS
)
#: How long such a program may take to begin on an emulated processor, and what it says.
_BEGINS_S = 60
_SAID = "/run/said"
#: In the mount namespace of a machine's first process, which jobs see too.
_IN_ALL = ("nsenter", "--target=1", "--mount")
#: Runs of one pair.
_ENOUGH = 4
#: Gives the port of the soft device counters as of InfiniBand, in place of those of its interface:
#: expressions of what that received and sent, `rx` and `tx`, bytes, and of what it received since
#: some program set it back, every five seconds: `since`.
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
set_back_s, before, mounted = 0, 0, False
while True:
    line = next(each for each in open("/proc/net/dev") if each.strip().startswith("eth0:"))
    words = line.partition(":")[2].split()
    now = {"rx": int(words[0]), "tx": int(words[8])}
    if time.monotonic() > set_back_s + 5:
        set_back_s, before = time.monotonic(), now["rx"]
    now["since"] = now["rx"] - before
    for file, code in zip(files, codes):
        os.pwrite(file, b"%020d\\n" % int(eval(code, now)), 0)  # as wide, so always whole
    if not mounted:
        subprocess.run(["mount", "--bind", made, port], check=True)
        mounted = True
        print("planted", flush=True)
    time.sleep(0.02)
"""
#: Sends packets to an address: bytes per second, and whether every other second only.
_FOREIGN = """
import socket, sys, time
to, rate, bursts = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "bursts"
socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("planted", flush=True)
while True:
    if not bursts or time.time() % 2 < 1:
        for _ in range(max(1, int(rate * 0.02 / 8000))):
            socket_.sendto(bytes(8000), (to, 9))
    time.sleep(0.02)
"""
_LOAD = """
print("planted", flush=True)
while True:
    pass
"""
#: Runs the real program (`REAL`) after a change of its words, or of what it prints.
_WRAPPER = """#!/usr/bin/env python3
import os, signal, subprocess, sys
real, words = "REAL", sys.argv[1:]
asks = bool({"--help", "--version"} & set(words))
BODY
os.execv(real, [real, *words])
"""
#: Multiplies what the rows report, and so the bytes that they claim.
_SCALED = """
found = subprocess.Popen([real, *words], stdout=subprocess.PIPE, text=True)
signal.signal(signal.SIGTERM, lambda *_: found.terminate())
for line in found.stdout:
    row = line.split()
    if len(row) == 5 and row[0].isdigit():
        count, peak, rate, messages = (float(each) * FACTOR for each in row[1:])
        line = f"{row[0]} {count:.0f} {peak:.2f} {rate:.2f} {messages:.6f}\\n"
    print(line, end="", flush=True)
sys.exit(found.wait())
"""
_UNLIMITED = """
if "--rate_limit" in words:
    at = words.index("--rate_limit")
    del words[at : at + 2]
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
        self.ask(node, "sh", "-c", f"setsid {line} < /dev/null > {_SAID} 2>&1 &")

    @contextmanager
    def program(self, node: str, text: str, *words: str) -> Iterator[None]:
        """A program in a machine, once it says that it does what it should."""
        self.begin(node, "python3", "-c", text, *words)
        try:
            assert wait_until(lambda: "planted" in self.ask(node, "cat", _SAID), _BEGINS_S)
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
        text = shlex.quote(wrapper(body))
        script = f"printf %s {text} > {path} && chmod 755 {path}"
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


def wrapper(body: str, real: str = "/usr/bin/ib_write_bw") -> str:
    """A script to be run in place of a program."""
    return _WRAPPER.replace("BODY", body).replace("REAL", real)


def scaled(factor: float) -> str:
    return _SCALED.replace("FACTOR", str(factor))


PLANTED: dict[str, Planted] = {
    "device absent": Planted(
        "counter of writes", lambda on: on.site(device="rxe7"), (REFUSED, NOT_SHOWN)
    ),
    "link of the file": Planted("full rate", lambda on: on.site(nic=SLOW_LINK)),
    "counter of bytes": _counter("counter of writes", "rx", "tx // 4"),
    "counter dead": _counter("counter of writes", "123456", "123456"),
    "counter stops": _counter("counter of writes", "2**32 - 1", "2**32 - 1"),
    "counter wraps": _counter("counter of writes", "rx // 4 % 2**20", "tx // 4 % 2**20"),
    "counter set back": _counter("counter of writes", "since // 4", "tx // 4"),
    "counter of another port": _counter("counter of writes", "rx // 4000", "tx // 4000"),
    "counters exchanged": _counter("counter of writes", "tx // 4", "rx // 4"),
    "counter of bits": _counter("counter of reads", "rx // 4", "tx * 2"),
    "limit ignored": _program("throttled", _UNLIMITED),
    "claims four times": _program("counter of writes", scaled(4)),
    "claims a quarter": _program("counter of writes", scaled(0.25)),
    "does not start": replace(
        _program("held", "if not asks: sys.exit(1)"), named_by=(REFUSED, NOT_SHOWN)
    ),
    "dies": _program("held", "words = ['2', real, *words]; real = '/usr/bin/timeout'"),
    # A block ends at once if clocks are more than a minute apart.
    "clock ahead": Planted("held", lambda on: on.clock(ORIGIN, 90), (NOT_SHOWN,)),
    "clock behind": Planted("clocks", lambda on: on.clock(ORIGIN, -2)),
    # By more than two minutes, Slurm's credentials are refused there, and nothing runs.
    "clock far ahead": Planted("held", lambda on: on.clock(ORIGIN, 240), (NOT_SHOWN,)),
    "foreign writer": Planted(
        "foreign writer", lambda on: on.program(ORIGIN, _FOREIGN, TARGET, "8e6", "always")
    ),
    "foreign bursts": Planted(
        "foreign writer", lambda on: on.program(ORIGIN, _FOREIGN, TARGET, "8e6", "bursts")
    ),
    "foreign load": Planted(
        "foreign load", lambda on: on.program(TARGET, _LOAD), (REFUSED, CAVEAT)
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
    claims = claimed(evidence_of(load_run(runs[0], force=True)), _CLAIMS)
    rows = answer(replace(QUALIFICATION, rows=lambda _: claims), None)
    states = rows.filter(injector="").select("claim", "word", "figure", "away").iter_rows()
    return {name: (word, f"{figure} {away}") for name, word, figure, away in states}


def _refused(on: Machines, name: str) -> set[str]:
    """The claims of one trial in a state that names its fault; refused ones without a fault."""
    began_s = time.monotonic()
    fault = PLANTED.get(name)
    with fault.plant(on) if fault else nullcontext():
        said = trial(on, name)
    print(f"{name} {time.monotonic() - began_s:.0f} s")
    for claim, (state, reason) in said.items():
        if state != NOT_SHOWN or (fault and claim == fault.claim):
            print(f"    {claim:18} {state:8} {reason}")
    sys.stdout.flush()
    on.repair()
    named_by = fault.named_by if fault else (REFUSED,)
    return {claim for claim, (state, _) in said.items() if state in named_by}


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
        clean = [_refused(on, "clean") for _ in range(asked.clean)]
        # What is refused without a fault names none.
        found = {name: _refused(on, name).difference(*clean) for name in names}
    unnamed = [name for name, claims in found.items() if PLANTED[name].claim not in claims]
    print(f"{len(found) - len(unnamed)} of {len(found)} faults named; not: {unnamed}")
    print(f"{clean.count(set())} of {len(clean)} clean runs refuse nothing: {clean}")
    return int(bool(unnamed) or any(clean))


if __name__ == "__main__":
    sys.exit(main())
