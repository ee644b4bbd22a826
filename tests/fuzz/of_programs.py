"""What programs print: workloads, writers, tools that count."""

from pathlib import Path

from conductor.injectors.base import Injector, Row, Total, Writer
from conductor.injectors.mpi_put import MpiPut
from conductor.injectors.perftest import Perftest
from conductor.injectors.ucx import Ucx
from conductor.readers import FomError
from records.machine import node_counters
from records.machine.host import processor_family, processor_identity
from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import Tool, ToolError
from reframe_tests.tools.openspeedshop import read_view
from reframe_tests.workload import load, names
from tests.fuzz.target import Target, captures, finite, in_file, text_of
from tests.records.machine.test_node_counters import ETHTOOL
from tests.records.machine.test_processors import XEON

_WRITER = Writer(0, "o", "t", "10.0.0.1", 20000, 65536)
_SHORT = Writer(0, "o", "t", "10.0.0.1", 20000, 65536, messages=1000)
#: Workload -> folder of its captures, where that has another name.
_FOLDERS = {"lammps_scaling": "lammps", "numa": "membench"}


def _workload(name: str) -> Target:
    parse = load(name).parse

    def read(text: bytes, _: Path) -> None:
        fom = parse(text_of(text))
        assert fom.value > 0
        finite(fom.value)

    seeds = captures(f"{_FOLDERS.get(name, name)}/*.txt")
    if name == "numa":
        seeds.append(b"slept 2.5 s\n")
    return Target(f"fom.{name}", read, seeds, (FomError,))


def _writer(name: str, injector: Injector, writer: Writer, pattern: str) -> Target:
    def read(text: bytes, _: Path) -> None:
        parser = injector.parser(writer)
        for line in text.split(b"\n"):
            match parser.parse(text_of(line + b"\n")):
                case Row() as row:
                    finite(row.rate_b_s, row.over_s)
                    assert row.rate_b_s >= 0
                case Total() as total:
                    finite(total.rate_b_s)

    return Target(f"injector.{name}", read, captures(pattern))


def _tool(
    name: str, file: str, pattern: str, ranks: int = 1, more: bytes = b"", **others: str
) -> Target:
    tool: Tool = TOOLS[name]

    def read(text: bytes, folder: Path) -> None:
        for other, content in others.items():
            in_file(other.replace("__", "."), content.encode(), folder)
        in_file(file, text, folder)
        for row in tool.parse(folder, ranks):
            finite(row.value, row.running_share)

    seeds = [text + more for text in captures(pattern)]
    return Target(f"tool.{name}", read, seeds, (ToolError,))


_VIEWS = [
    part.partition(b"\n")[2].rpartition(b"openss>>")[0].strip()
    for text in captures("openspeedshop/*.txt")
    for part in (text + b"openss>>").split(b"expview")[1:]
]


def _oss(text: bytes, folder: Path) -> None:
    view = read_view(in_file("rank-0.functions.csv", text, folder))
    for column in view.columns:
        finite(view.total(column))


def _family(text: bytes, _: Path) -> None:
    processor_family(processor_identity(text_of(text)))


def _oss_calls(text: bytes, folder: Path) -> None:
    in_file("rank-0.err", b"", folder)
    in_file("rank-0.functions.csv", text, folder)
    for row in TOOLS["openspeedshop:mpi"].parse(folder, 1):
        finite(row.value)


def _ethtool(text: bytes, _: Path) -> None:
    found = node_counters.parse_ethtool("eth0", text_of(text))
    finite(*(each.value for each in found.values()))


TARGETS = [
    *map(_workload, names()),
    _writer("perftest", Perftest(), _WRITER, "perftest/*.txt"),
    _writer("perftest of short writes", Perftest(), _SHORT, "perftest/*.txt"),
    _writer("ucx", Ucx(), _WRITER, "ucx/*.txt"),
    _writer("mpi_put", MpiPut(), _WRITER, "mpi_put/*.txt"),
    _tool("perf_stat", "rank-0.json", "perf_stat/*/rank-0.json"),
    _tool(
        "perf_stat:topdown", "rank-0.json", "perf_stat/*/rank-0.json",
        more=b'{"metric-value": "12.5", "metric-unit": "%  TopdownL1"}\n',
        **{"rank-0__events": "cycles,instructions TopdownL1\n"},
    ),
    _tool("likwid:CYCLE_STALLS", "rank-0.csv", "likwid/*/*.csv"),
    _tool("mpip", "lmp.mpiP", "mpip/lammps/lmp.mpiP", 2),
    _tool("papi:stalls", "rank-0/papi_hl_output/rank_000000.json", "papi/*/*/*/*.json"),
    Target("tool.openspeedshop views", _oss, _VIEWS, (ToolError,)),
    Target("tool.openspeedshop:mpi", _oss_calls, _VIEWS, (ToolError,)),
    Target("ethtool", _ethtool, [ETHTOOL.encode()]),
    Target("cpuinfo", _family, [XEON.encode()]),
]  # fmt: skip
