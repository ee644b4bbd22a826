"""The parsers of text from outside, and inputs that once crashed one of them.

Each parser is a `Target`, with valid inputs (seeds) and the errors that it may raise.
"""

import asyncio
import json
import lzma
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from analysis.contention import evaluate, sweep
from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.report import data as blocks
from analysis.report.table import COLUMNS
from analysis.samples.counts import counter_medians, counters_of, read_counts
from conductor import counters, messages, wire
from conductor.block.readers import FomError
from conductor.injectors import INJECTORS
from conductor.injectors.base import Row
from nimc.cli.model import load_model
from nimc.cluster import learn
from nimc.run import runner
from records import kernel_text, processes, units
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.last_words import cause_or_gist, unlabelled
from records.machine import cpu_load, host, node_counters, site
from records.machine.cpu_load import KernelThreads
from records.machine.program import compilers_in, images_in, mpi_library
from records.run import load_header
from records.slurm import parse, parse_nodes
from reframe_tests.spack import build, externals, failures
from reframe_tests.spack.folders import SpackLayout
from reframe_tests.spack.settings import SpackSettings, load_settings
from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from reframe_tests.tools.openspeedshop import read_view
from reframe_tests.workload import load_workload
from reframe_tests.workload import workload_names as workloads
from testbed import containers, namespaces, state, vm
from testbed.spec import ClusterLayout, Spec
from testbed.state import State
from tests import made_writers
from tests.analysis.contention.fitted import FITTED
from tests.conductor import sysfs
from tests.conductor.made_messages import ORDERS, REPORTS
from tests.fuzz.target import Target, captures, in_file, joined_files, lay_out
from tests.nimc.cluster.reservation_lines import LINE
from tests.records.machine import made

Read = Callable[[bytes, Path], object]


def text_parser(read: Callable[[str], object]) -> Read:
    """Return a parser of the text that a program prints."""
    return lambda text, _: read(text.decode(errors="replace"))


def file_parser(name: str, read: Callable[[Path], object]) -> Read:
    """Return a parser of a file of this name."""
    return lambda text, folder: read(in_file(name, text, folder))


def folder_parser(name: str, read: Callable[[Path], object]) -> Read:
    """Return a parser of a folder that has a file of this name."""

    def call(text: bytes, folder: Path) -> object:
        in_file(name, text, folder)
        return read(folder)

    return call


# Parsers of what programs print: workloads, writers, and tools that count events.


def _workload(name: str) -> Target:
    seeds = captures(f"{ {'lammps_scaling': 'lammps', 'numa': 'membench'}.get(name, name) }/*.txt")
    more = [b"slept 2.5 s\n"] if name == "numa" else []

    def read(text: str) -> object:
        fom = load_workload(name).parse(text)
        assert fom.value > 0
        return fom

    return Target(
        name=f"fom.{name}", read=text_parser(read), seeds=[*seeds, *more], allowed=(FomError,)
    )


def _writer(name: str, **more: Any) -> Target:
    writer = made_writers.writer(address="10.0.0.1", **more)

    def read(text: bytes, _: Path) -> list[object]:
        parser = INJECTORS[name].parser(writer)
        meanings = [
            parser.parse((line + b"\n").decode(errors="replace")) for line in text.split(b"\n")
        ]
        assert all(meaning.rate_b_s >= 0 for meaning in meanings if isinstance(meaning, Row))
        return meanings

    suffix = " of short writes" if more else ""
    return Target(name=f"injector.{name}{suffix}", read=read, seeds=captures(f"{name}/*.txt"))


def _tool(name: str, file: str, seeds: list[bytes], ranks: int = 1, **others: str) -> Target:
    def read(text: bytes, folder: Path) -> object:
        for other, content in others.items():
            in_file(other.replace("__", "."), content.encode(), folder)
        in_file(file, text, folder)
        return TOOLS[name].parse(folder, ranks)

    return Target(name=f"tool.{name}", read=read, seeds=seeds, allowed=(ToolError,))


_VIEWS = [
    part.partition(b"\n")[2].rpartition(b"openss>>")[0].strip()
    for text in captures("openspeedshop/*.txt")
    for part in (text + b"openss>>").split(b"expview")[1:]
]
_TOPDOWN = b'{"metric-value": "12.5", "metric-unit": "%  TopdownL1"}\n'
_PERF = captures("perf_stat/*/rank-0.json")


_PROGRAMS = [
    *map(_workload, workloads()),
    *map(_writer, ("perftest", "ucx", "mpi_put")),
    _writer("perftest", messages=1000),
    _tool("perf_stat", "rank-0.json", _PERF),
    _tool(
        "perf_stat:topdown",
        "rank-0.json",
        [text + _TOPDOWN for text in _PERF],
        **{"rank-0__events": "cycles,instructions TopdownL1\n"},
    ),
    _tool("likwid:CYCLE_STALLS", "rank-0.csv", captures("likwid/*/*.csv")),
    _tool("mpip", "lmp.mpiP", captures("mpip/lammps/lmp.mpiP"), 2),
    _tool("papi:stalls", "rank-0/papi_hl_output/rank_000000.json", captures("papi/*/*/*/*.json")),
    _tool("openspeedshop:pcsamp", "rank-0.csv", _VIEWS, **{"rank-0__err": ""}),
    Target(
        name="openspeedshop views",
        read=file_parser("rank-0.csv", read_view),
        seeds=_VIEWS,
        allowed=(ToolError,),
    ),
    Target(
        name="ethtool",
        read=text_parser(lambda text: node_counters.parse_ethtool("eth0", text)),
        seeds=[made.ETHTOOL.encode()],
    ),
    Target(
        name="cpuinfo",
        read=text_parser(lambda text: host.processor_family(host.processor_identity(text))),
        seeds=[made.XEON.encode()],
    ),
]


# Parsers of what the kernel shows in /proc and /sys. The host is made of a few files. Unless a
# target has `allowed`, it may raise no exception.


_COUNTERS = {
    **made.COUNTERS,
    "proc/net/dev": sysfs.PROC_NET_DEV,
    "proc/interrupts": "    CPU0  CPU3\n 90:  7  0  PCI-MSI 1-edge  mlx5_comp0\nERR:  0\n",
    "sys/class/infiniband/mlx5_0/device/msi_irqs/90": "msix",
}
_LOAD = made.LOAD


def _node(text: bytes, folder: Path) -> object:
    root = lay_out(text, folder, _COUNTERS)
    for device in ("mlx5_0", "eth1"):
        for passed in counters.DIRECTIONS:
            counters.read(device, passed, root)
    return [node_counters.read(root), node_counters.interrupts_by_cpu(root)]


def _load(text: bytes, folder: Path) -> object:
    root = lay_out(text, folder, _LOAD)
    first = cpu_load.read(made.BLOCK, [1], root=root)
    second = cpu_load.read(made.BLOCK, [77], [78], first, root)
    cpu_load.free_cpus(cpu_load.busy_cpus([77, 78], 0.1, root), root)
    frequencies = [cpu_load.frequency_hz(cpus, root) for cpus in ([0], [])]
    return [cpu_load.foreign_s(first, second), frequencies, KernelThreads(root).read_s()]


_KERNEL = [
    Target(
        name="kernel.host",
        read=lambda text, folder: host.detect(lay_out(text, folder, made.HOST)),
        seeds=[joined_files(made.HOST)],
    ),
    Target(name="kernel.counters", read=_node, seeds=[joined_files(_COUNTERS)]),
    Target(name="kernel.load", read=_load, seeds=[joined_files(_LOAD)]),
    Target(
        name="readelf",
        read=text_parser(compilers_in),
        seeds=[b"  [    1f]  GCC: (Debian 12.2.0-14) 12.2.0\n"],
    ),
    Target(
        name="ldd.mpi",
        read=text_parser(mpi_library),
        seeds=[b"\tlibm.so.6 => /lib/libm.so.6 (0x1)\n\tlibmpi.so.40 => /opt/libmpi.so.40 (0x2)\n"],
    ),
    Target(
        name="script.images",
        read=text_parser(images_in),
        seeds=[b"#!/bin/sh\napptainer exec /opt/a.sif a\n"],
    ),
    Target(
        name="kernel.cpu list",
        read=text_parser(kernel_text.cpu_list),
        seeds=[b"0-3,8"],
        allowed=(ValueError,),
    ),
    Target(
        name="kernel.numa_maps",
        read=text_parser(lambda text: processes.parse_numa_maps(text.splitlines(), 1)),
        seeds=[
            b"7f00 bind:1 anon=300 dirty=300 N0=44 N1=256 kernelpagesize_kB=4\n"
            b"7f20 default file=/dev/shm/ucx mapped=900 N0=900 kernelpagesize_kB=2048\n"
        ],
    ),
    Target(
        name="kernel.sockets",
        read=text_parser(partial(processes.sockets_in, state="0A", end_column=1, port=0x7E8)),
        seeds=[
            b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
            b"   0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0"
            b"        0 555 1 00000000e99e6cf6 100 0 0 10 0\n"
        ],
    ),
    Target(
        name="kernel.status",
        read=text_parser(namespaces.inner_pid),
        seeds=[b"Name:\tx\nNSpid:\t4711\t12\nVmPin:\t      64 kB\n"],
    ),
    Target(
        name="kernel.mounts",
        read=text_parser(containers.cgroup_kind),
        seeds=[
            b"cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n"
            b"cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
        ],
    ),
]


# Parsers of what Slurm and ReFrame print, and of messages between conductor and agents.

_REFRAME = [
    {"testcases": [{"result": "fail", "fail_phase": "run", "fail_reason": "x"}]},
    {"testcases": [{"result": "skip"}]},
]
_LOGS = {
    "job.json": '{"outcome": "done", "reason": null}',
    "block.json": '{"state": "failed", "reason": "writer 0: it ended"}',
    "reframe.json": json.dumps({"runs": _REFRAME}),
    "reframe.log": "[ SKIP ] stream [no such feature]\nERROR: something failed\n",
}
_MESSAGES = [json.dumps(messages.encode(message)).encode() for message in (*ORDERS, *REPORTS)]


def _failure(text: bytes, folder: Path) -> None:
    logs = lay_out(text, folder / "logs" / "case" / "0", _LOGS)
    for status in (0, 1, -9, -64):
        reason = runner.why_failed(status, logs)
        assert reason is None or "\n" not in reason
    runner.is_done(logs)
    blocks.unfinished_blocks(folder)


def _message(name: str, decode: Callable[[Any], object]) -> Target:
    def read(text: bytes, _: Path) -> None:
        try:
            data = json.loads(text)
        except (
            ValueError,
            RecursionError,
        ):  # `Wire.receive` refuses such a line earlier
            return
        decode(data)

    return Target(name=f"wire.{name}", read=read, seeds=_MESSAGES, allowed=(wire.WireError,))


def _line(text: bytes, _: Path) -> None:
    """Receive a line from a peer that has authenticated."""

    async def received() -> object:
        reader = asyncio.StreamReader(limit=wire.LONGEST_LINE_B)
        reader.feed_data(text)
        reader.feed_eof()
        # Nothing is sent, so there is no writer.
        return await wire.Wire(reader, None).receive()  # type: ignore[arg-type]

    asyncio.run(received())


_BATCH = parse_nodes.SlurmPartition(
    name="batch", is_default=True, limit_s=None, gives_whole_nodes=False, node_count=1
)
_SLURM = [
    Target(
        name="slurm.squeue",
        read=lambda text, folder: parse.jobs_in_folder(folder, text.decode(errors="replace")),
        seeds=[b"12|R|2026-11-23T20:00:00|None|/a/b\n13|PD|N/A|Priority|/c\n"],
    ),
    Target(
        name="slurm.reservation",
        read=text_parser(parse.parse_reservation),
        seeds=[LINE.replace("Users=root", "Users=root,ada").encode()],
        allowed=(MachineError,),
    ),
    Target(
        name="slurm.sinfo",
        read=text_parser(parse_nodes.nodes_in),
        seeds=[b"node1 idle\nnode2 mixed-\nnode2 mixed-\nnode3 down*\nnode4 idle~\n"],
    ),
    Target(
        name="slurm.partitions",
        read=text_parser(parse_nodes.partitions),
        seeds=captures("slurm/partitions*.txt"),
    ),
    Target(
        name="slurm.shapes",
        read=text_parser(lambda text: parse_nodes.shapes(text, _BATCH)),
        seeds=captures("slurm/nodes*.txt"),
    ),
    Target(
        name="slurm.settings", read=text_parser(parse.settings), seeds=captures("slurm/config*.txt")
    ),
    Target(
        name="slurm.mpi types",
        read=text_parser(parse.mpi_types),
        seeds=captures("slurm/mpi_list*.txt"),
    ),
    Target(
        name="slurm.steps",
        read=text_parser(lambda text: parse.steps_started_by(text, "node1", [24, 37])),
        seeds=captures("slurm/steps*.txt"),
    ),
    Target(
        name="slurm.refusal_remedy",
        read=text_parser(parse.refusal_remedy),
        seeds=[b"Slurm refuses the job: QOSMinGRES; Batch job submission failed: no"],
    ),
    Target(
        name="slurm.threads_per_core",
        read=text_parser(parse.threads_per_core),
        seeds=[b"JobId=7 CPUs/Task=1 ReqB:S:C:T=0:0:*:1 ReqTRES=cpu=64\n"],
    ),
    Target(
        name="slurm.core_spec",
        read=text_parser(parse.core_spec),
        seeds=[b"JobId=7 NtasksPerN:B:S:C=1:0:*:1 CoreSpec=8 MinCPUsNode=1\n"],
    ),
    Target(name="slurm.accounts", read=text_parser(parse.accounts), seeds=[b"bench\nphysics\n"]),
    Target(
        name="modules.avail", read=text_parser(learn.modules_in), seeds=captures("modules/*.txt")
    ),
    Target(
        name="reframe.failure",
        read=_failure,
        seeds=[joined_files(_LOGS), joined_files(_LOGS | {"block.json": "{}"})],
    ),
    _message("order", messages.decode_order),
    _message("report", messages.decode_report),
    Target(
        name="wire.line",
        read=_line,
        seeds=[message + b"\n" for message in _MESSAGES],
        allowed=(wire.WireError,),
    ),
]


# Parsers of files of users and of runs, except those that `tests.fuzz.nimc_commands` damages.

_COUNTER = {
    "key": "stream/0/0/off/0", "case": "stream", "arm": "off", "tool": "perf_stat", "rank": 0,
    "event": "cycles", "value": 5e9, "unit": "count", "state": "counted", "running_share": 1.0,
}  # fmt: skip
_COUNTS = "".join(
    json.dumps({**_COUNTER, **more}) + "\n"
    for more in ({}, {"rank": 1}, {"event": "instructions", "value": None, "state": "not counted"})
).encode()
_SAMPLE_STATUSES = pl.DataFrame(
    [{"key": _COUNTER["key"], "case": "stream", "arm": "off", "factors": "{}", "block": 0,
      "pair": 0, "status": "counts"}]
)  # fmt: skip
_ROW = json.dumps(
    {"schema": 1, "machine": "m", "campaign": "c", "run": "r", "started_s": 86400.5,
     "finished_s": 86500.5, "faults": 0, "facts": [{"name": "kernel", "value": "6"}],
     "case": "stream", "arm": "off", "role": "baseline", "unit": "s", "better": "lower",
     "fom": 2.5, "nodes": "n0"}
).encode()  # fmt: skip
_SWEEP = json.dumps(
    {"schema": 1, "name": "a", "cores": 16,
     "points": [{"n": 1, "comp_node": 0, "comm_node": 0, "comp_alone_b_s": 5e9,
                 "comm_alone_b_s": 4e9, "comp_par_b_s": 5e9, "comm_par_b_s": 4e9}]}
).encode()  # fmt: skip
_MODELS = [
    json.dumps(model.as_dict()).encode()
    for model in (evaluate.load_published(evaluate.published_names()[0]), FITTED)
]
_STATE = asdict(
    State(
        spec=Spec(fabric="rxe", nodes=3, origins=1),
        phase="up",
        subnet="10.77.9",
        cpus=1,
        memory_mib=900,
        accelerator="tcg",
    )
)
_SPACK = [
    json.dumps({field.name: None for field in fields(record)}).encode()
    for record in (SpackSettings, build.BuiltEnvironment)
]
_COMPILERS = (
    b"packages:\n  gcc::\n    externals:\n    - spec: gcc@14 languages='c'\n      prefix: /usr\n"
    b"      extra_attributes: {compilers: {c: /bin/sh, cxx: g++}}\n"
)
_LOG_SINCE_1_2 = (
    b"[x] 4agc6df gettext@1.0 failed: /s/spack-build-out.txt (6s)\n-- lines 412 to 413 --\n"
    b"  412  checking for alloca.h... yes\n> configure: error: no acceptable C compiler found\n"
)
_LAST_OUTPUT_LINES = (
    b"Abort(1) on node 0: Fatal error in PMPI_Init: Other MPI error, error stack:\n"
    b"MPIR_Init_thread(1)..: \nf(2)..: OFI failed (a:b)\n=   EXIT CODE: 143\n",
    b"---\nThere are not enough slots available to satisfy the 2\nslots of:\n\n  a failed\n---\n",
    b"[1.5] [n1:41 :0] a.c:1  UCX  ERROR x failed\n[n1:41:0:41] b.c:1  y exceeded\n",
    b"[1,0]<stdout>:srun: error: n1: task 0: Bus error\n0: [0] MPI startup(): x is not supported\n",
)
_LOG = (
    b"==> Installing a-1-%s [1/2]\n==> Error: failed for the following reasons:\n\n   1. no b\n"
    b"  >> 56    error: c\n" % (b"a" * 32)
)


def _results(text: bytes, folder: Path) -> None:
    """Read two tables of results: one file with the damaged bytes, and one with damaged values.

    The second table is empty if the text is no JSON, or if its values do not fit the columns.
    """
    in_file("a/report/results.parquet", text, folder)
    with suppress(ValueError, TypeError, OverflowError, RecursionError, pl.exceptions.PolarsError):
        table = in_file("b/report/results.parquet", b"", folder)
        pl.DataFrame([json.loads(text)], schema_overrides=COLUMNS).write_parquet(table)
    results, left_out = read_results([folder])
    assert not any("\n" in line for line in left_out)
    survey(nights_of(results), results)


def _spack(text: bytes, folder: Path) -> None:
    layout = SpackLayout(folder, "m")
    in_file(str(layout.built_file("proxyapps").relative_to(folder)), text, folder)
    with suppress(InputError):
        build.read_built_environment(layout, "proxyapps")
    in_file(str(layout.settings_file.relative_to(folder)), text, folder)
    load_settings(layout)


def _compilers(text: bytes, folder: Path) -> None:
    layout = SpackLayout(folder, "m")
    in_file(str(layout.host_packages_file.relative_to(folder)), text, folder)
    externals.compilers(
        layout,
        SpackSettings(
            spack="/", version="1.1.0", pinned=True, packages=None, machine_file=None, mirror=None
        ),
    )


def _input(name: str, read: Read, *seeds: bytes) -> Target:
    """Return the row of a parser that may raise InputError."""
    return Target(name=name, read=read, seeds=seeds, allowed=(InputError,))


_QUANTITIES = (b"2min", b"1.5h", b"64KiB", b"1GiB", b"1Gb/s", b"500MB/s", b"30", b"1e3s")
_SITES = (
    path.read_bytes().replace(f"name: {path.stem}".encode(), b"name: m")
    for path in sorted((ROOT / "site").glob("*.yaml"))
)
_FILES = [
    _input(
        "file.site", folder_parser("site/m.yaml", lambda folder: site.load("m", folder)), *_SITES
    ),
    _input(
        "file.counters",
        folder_parser(
            "counters/stream.jsonl",
            lambda folder: counter_medians(counters_of(read_counts(folder), _SAMPLE_STATUSES)),
        ),
        _COUNTS,
    ),
    _input(
        "file.run.json", folder_parser("run.json", load_header), *captures("run_quick/*/run.json")
    ),
    _input("file.results", _results, _ROW),
    _input("file.sweep", file_parser("sweep.json", sweep.load_sweep), _SWEEP),
    _input("file.model", file_parser("model.json", lambda file: load_model(None, file)), *_MODELS),
    _input(
        "file.minicluster",
        folder_parser("state.json", lambda folder: state.read(ClusterLayout(folder))),
        json.dumps(_STATE).encode(),
    ),
    _input("file.compilers", _compilers, _COMPILERS),
    _input("file.spack", _spack, *_SPACK),
    _input("spack's log", text_parser(failures.reason_in), _LOG, _LOG_SINCE_1_2),
    _input(
        "last words",
        text_parser(lambda text: (cause_or_gist(text), unlabelled(text))),
        *_LAST_OUTPUT_LINES,
    ),
    Target(
        name="file.boot image",
        read=lambda image, _: vm.elf_payload(image),
        seeds=[bytes(0x202) + b"HdrS" + bytes(0x100) + lzma.compress(b"\x7fELF")],
        allowed=(MachineError,),
    ),
    _input(
        "file.module",
        lambda module, _: vm.dependencies(module),
        b"license=GPL\0depends=a,b\0name=c\0",
    ),
    *(
        _input(f"units.{read.__name__}", text_parser(partial(read, field="x")), *_QUANTITIES)
        for read in (units.duration_s, units.size_b, units.rate_b_s, units.count)
    ),
]

#: Name -> the parser with this name.
TARGETS = {target.name: target for target in (*_PROGRAMS, *_KERNEL, *_SLURM, *_FILES)}

_THERMO = b"Step Temp E_pair\n0 1 2\nLoop time of 1 on 1 procs for 100 steps with 32000 atoms\n"
_NINES = b"9" * 400
_DEEP = b"[" * 100_000
_EVENTS = b"".join(
    b'{"counter-value": "1", "event": "%s", "pcnt-running": 100}\n' % event
    for event in (b"task-clock", b"cycles", b"instructions")
)
#: A /proc in which each of the processes 1 and 77 is the parent of the other.
_CIRCLE = "".join(
    f"== proc/{pid}/stat\n{pid} (a) S {parent} 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0\n"
    for pid, parent in ((1, 77), (77, 1), (78, 77))
).encode()
_CNS = re.sub(rb"(N_CELL=\s*)\d+", rb"\g<1>1000000000000", captures("cns/n1.txt")[0])
#: Name of the parser -> inputs that once crashed it. `make fuzz` found and shortened them.
CRASHED: dict[str, list[bytes]] = {
    "fom.lammps": [_THERMO, b"Step Temp E_pair TotEng\n" + _THERMO.splitlines()[-1]],
    "fom.cns": [_CNS],
    "injector.ucx": [
        b"Final: 1000 0.1 0.1 0.1 5.0 1e 1 1\n",
        b"Final: 1000 0.1 0.1 0.1 5.0 -inf 1 1\n",
        b"[thread 0] 1000 0.1 0.000 0.1 5.0 5.0 1 1\n",
    ],
    "tool.likwid:CYCLE_STALLS": [b"TABLE,Group 1 Raw,X,1\nEvent,Counter,T\nA,B,1e999\n"],
    "tool.perf_stat:topdown": [
        _EVENTS + b'{"metric-unit": "%  TopdownL1", "metric-value": ' + _NINES + b"}"
    ],
    "tool.perf_stat": [_DEEP],
    "tool.papi:stalls": [_DEEP],
    "openspeedshop views": [b"Number of Calls,LinkedObject\n1e999,libc.so\n"],
    "ethtool": [b"rx_prio0_pause: " + _NINES, b"rx_prio0_pause: " + b"9" * 5000],
    "kernel.host": [
        b"== proc/cpuinfo\n\xf0",
        b"== sys/devices/system/cpu/online\n0-x\n",
        b"== proc/self/cgroup\n0\n",
        b"== proc/meminfo\nMemTotal:\n",
    ],
    "kernel.counters": [
        b"== proc/stat\n\xcb",
        b"== proc/stat\ncpu 1 2 3 4 5 NaN 7 8\n",
        b"== proc/stat\nctxt sys\n",
        b"== proc/stat\ncpu 1 2 3 4 5 6 1e999 8\n",
        b"== proc/softirqs\nNET_RX: 0x10\n",
        b"== proc/net/dev\n\xa8",
        b"== proc/pressure/memory\nsome total=" + _NINES,
        b"== proc/vmstat\npgfault\n",
        b"== proc/vmstat\npgfault x\n",
        b"== proc/net/dev\neth1: 1\n",
        b"== proc/net/dev\neth1: x 1\n",
        b"== proc/interrupts\nx\n",
        b"== proc/interrupts\nCPU0 CPU3\n90: 7\n",
    ],
    "kernel.load": [
        b"== proc/77/stat\n77 (a) S\n",
        b"== proc/77/stat\n77 (a) S 1 1 1 0 -1 x\n",
        _CIRCLE,
    ],
    "kernel.cpu list": [b"0-99999999999"],
    "kernel.numa_maps": [b"7f00 anon=1 N0=" + b"9" * 5000 + b" kernelpagesize_kB=4"],
    "kernel.sockets": [
        b"sl\n0: 00000000:07E8\n",
        b"sl\n0: 0:x 0:0 0A 0:0 00:0 0 0 0 555\n",
        b"sl\n0: 0:07E8 0:0 0A 0:0 00:0 0 x 0 555\n",
    ],
    "kernel.status": [b"NSpid: 1 x"],
    "kernel.mounts": [b"cgroup"],
    "slurm.squeue": [b"12|R|x|None|/a\0b"],
    "slurm.reservation": [b"", b"Users=a ReservationName=b StartTime=T04:25:28"],
    "wire.order": [b'["Ping", ' + _NINES + b"]"],
    "wire.line": [b"[" * 3000 + b"\n"],
    "file.run.json": [b'{"schema": ' + _NINES + b"}"],
    "file.sweep": [
        b'{"schema": ' + b"9" * 5000 + b"}",
        _DEEP,
        b'{"schema": 1, "points": [{"n": 1, "comp_node": 0, "comm_node": 0, "comp_alone_b_s": '
        + _NINES + b"}]}",
    ],
    "file.model": [b"9" * 5000, _DEEP],
    "file.minicluster": [
        b'{"spec": {"fabric": "veth", "nodes": 2, "origins": 1, "shares": []}, '
        b'"phase": "up", "subnet": "10.77.9", "nodes": []}',
        _DEEP,
        b'{"spec": {"fabric": "rxe", "nodes": 3, "origins": 1, "numa": 9, "shares": []}}',
    ],
    "reframe.failure": [
        b'== reframe.json\n{"runs": [{"testcases": [{"result": []}]}]}\n',
        b'== reframe.json\n{"runs": [null]}\n',
    ],
    "file.spack": [b"{}", _DEEP],
    "file.boot image": [bytes(0x202) + b"HdrS"],
    "file.module": [b"depends=\xff"],
}  # fmt: skip
