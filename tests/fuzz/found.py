"""Inputs that crashed a parser once, found by `make fuzz`, each as short as it can be."""

import re

from tests.fuzz.target import captures

_THERMO = b"""Step Temp E_pair
0 1 2
Loop time of 1 on 1 procs for 100 steps with 32000 atoms
"""
_NINES = b"9" * 400
_TOPDOWN = (
    b"".join(
        b'{"counter-value": "1", "event": "%s", "pcnt-running": 100}\n' % event
        for event in (b"task-clock", b"cycles", b"instructions")
    )
    + b'{"metric-unit": "%  TopdownL1", "metric-value": '
    + _NINES
    + b"}"
)
_DEEP = b"[" * 100_000
#: Processes 1 and 77 are each other's parent.
_CIRCLE = b"""== proc/1/stat
1 (a) S 77 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0
== proc/77/stat
77 (b) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0
== proc/78/stat
78 (c) S 77 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0
"""

#: Name of the parser and the input.
FOUND: list[tuple[str, bytes]] = [
    ("fom.lammps", _THERMO),
    ("injector.ucx", b"Final: 1000 0.1 0.1 0.1 5.0 1e 1 1\n"),
    ("injector.ucx", b"Final: 1000 0.1 0.1 0.1 5.0 -inf 1 1\n"),
    ("injector.ucx", b"[thread 0] 1000 0.1 0.000 0.1 5.0 5.0 1 1\n"),
    ("fom.lammps", b"Step Temp E_pair TotEng\n" + _THERMO.splitlines()[-1]),
    ("tool.likwid:CYCLE_STALLS", b"TABLE,Group 1 Raw,X,1\nEvent,Counter,T\nA,B,1e999\n"),
    ("tool.perf_stat:topdown", _TOPDOWN),
    ("tool.perf_stat", _DEEP),
    ("tool.papi:stalls", _DEEP),
    ("tool.openspeedshop views", b"Number of Calls,LinkedObject\n1e999,libc.so\n"),
    ("ethtool", b"rx_prio0_pause: " + _NINES),
    ("ethtool", b"rx_prio0_pause: " + b"9" * 5000),
    ("kernel.host", b"== proc/cpuinfo\n\xf0"),
    ("kernel.host", b"== sys/devices/system/cpu/online\n0-x\n"),
    ("kernel.host", b"== proc/self/cgroup\n0\n"),
    ("kernel.host", b"== proc/meminfo\nMemTotal:\n"),
    ("kernel.counters", b"== proc/stat\n\xcb"),
    ("kernel.counters", b"== proc/stat\ncpu 1 2 3 4 5 NaN 7 8\n"),
    ("kernel.counters", b"== proc/stat\nctxt sys\n"),
    ("kernel.counters", b"== proc/stat\ncpu 1 2 3 4 5 6 1e999 8\n"),
    ("kernel.counters", b"== proc/softirqs\nNET_RX: 0x10\n"),
    ("kernel.counters", b"== proc/pressure/memory\nsome total=" + _NINES),
    ("kernel.counters", b"== proc/vmstat\npgfault\n"),
    ("kernel.counters", b"== proc/vmstat\npgfault x\n"),
    ("kernel.counters", b"== proc/net/dev\neth1: 1\n"),
    ("kernel.counters", b"== proc/net/dev\neth1: x 1\n"),
    ("kernel.counters", b"== proc/net/dev\n\xa8"),
    ("kernel.load", b"== proc/77/stat\n77 (a) S\n"),
    ("kernel.load", b"== proc/77/stat\n77 (a) S 1 1 1 0 -1 x\n"),
    ("kernel.load", _CIRCLE),
    ("kernel.cpu list", b"0-99999999999"),
    ("kernel.numa_maps", b"7f00 anon=1 N0=" + b"9" * 5000 + b" kernelpagesize_kB=4"),
    ("kernel.status", b"NSpid: 1 x"),
    ("kernel.mounts", b"cgroup"),
    ("slurm.squeue", b"12|R|x|None|/a\0b"),
    ("slurm.reservation", b""),
    ("slurm.reservation", b"Users=a ReservationName=b StartTime=T04:25:28"),
    ("wire.order", b'["Ping", ' + _NINES + b"]"),
    ("wire.line", b"[" * 3000 + b"\n"),
    ("file.run.json", b'{"schema": ' + _NINES + b"}"),
    ("file.sweep.json", b'{"schema": ' + b"9" * 5000 + b"}"),
    ("file.sweep.json", _DEEP),
    (
        "file.sweep.json",
        b'{"schema": 1, "points": [{"n": 1, "comp_node": 0, "comm_node": 0, '
        b'"comp_alone_b_s": ' + _NINES + b"}]}",
    ),
    ("file.model", b"9" * 5000),
    (
        "file.minicluster",
        b'{"spec": {"fabric": "veth", "nodes": 2, "origins": 1, "shares": []}, '
        b'"phase": "up", "subnet": "10.77.9", "nodes": []}',
    ),
    ("file.minicluster", _DEEP),
    (
        "file.minicluster",
        b'{"spec": {"fabric": "rxe", "nodes": 3, "origins": 1, "numa": 9, '
        b'"shares": []}, "phase": "up"}',
    ),
    ("reframe.failure", b'== reframe.json\n{"runs": [{"testcases": [{"result": []}]}]}\n'),
    ("reframe.failure", b'== reframe.json\n{"runs": [null]}\n'),
    ("fom.cns", re.sub(rb"(N_CELL=\s*)\d+", rb"\g<1>1000000000000", captures("cns/n1.txt")[0])),
    ("file.spack", b"{}"),
    ("file.spack", _DEEP),
    ("file.boot image", bytes(0x202) + b"HdrS"),
    ("file.module", b"depends=\xff"),
    ("file.model", _DEEP),
]
