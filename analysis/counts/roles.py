"""What is worth counting (roles), and how each tool counts it on each family of processors.

A role is a quantity of the question "why is it slower"; an event is what a processor offers. One
event's name means different things on different processors, so roles are compared between
machines and events are not. A role that has no row for a family is lacking there. Standard library
only.

Sources of rows:
kernel  event lists of perf (Linux, tools/perf/pmu-events/arch/x86/FAMILY/*.json); counters of the
        driver mlx5 (Linux, Documentation/networking, mlx5/counters.rst)
likwid  performance groups (RRZE-HPC/likwid, groups/FAMILY/GROUP.txt)
papi    presets (icl-utk-edu/papi, src/papi_events.csv)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from nimc.records.counter_row import NODE

#: What a count covers: the processes of one rank, or a node whoever caused it.
Scope = Literal["rank", "node"]


@dataclass(frozen=True)
class Role:
    """A quantity that may explain a loss."""

    name: str
    unit: str
    scope: Scope
    meaning: str


ROLES: dict[str, Role] = {
    role.name: role
    for role in (
        Role("cycles", "count", "rank", "core cycles in which the rank ran"),
        Role("instructions", "count", "rank", "instructions retired"),
        Role("memory stalls", "count", "rank", "cycles without work, waiting for memory"),
        Role("memory bound", "1", "rank", "share of pipeline slots lost in waiting for memory"),
        Role("L1 misses", "count", "rank", "lines missed by the first-level data cache"),
        Role("L2 misses", "count", "rank", "lines missed by the second-level cache"),
        Role("L3 misses", "count", "rank", "loads or lines missed by the last-level cache"),
        Role("DRAM read", "B", "node", "read by the memory controllers"),
        Role("DRAM written", "B", "node", "written by the memory controllers"),
        Role("device writes", "B", "node", "written into memory by PCIe devices"),
        Role("DDIO misses", "B", "node", "device writes that missed the last-level cache"),
        Role("PCIe stalls", "1", "node", "share of time in which a device could not write"),
    )
}

#: Roles that are shares: averaged over ranks, and not summed.
SHARES = tuple(role.name for role in ROLES.values() if role.unit == "1")

#: Groups of metrics, which perf calculates from events of its own choice.
METRICS = ("topdown",)

#: Bytes of a cache line, which most counters of traffic count.
_LINE_B = 64


@dataclass(frozen=True)
class RoleCount:
    """How one tool counts a role on some families: the sum of some of its events."""

    role: str
    #: The tool, and the group of events that are counted together.
    tool: str
    group: str
    families: tuple[str, ...]
    #: Names as the tool prints them. An event that already has the role's unit is not multiplied.
    events: tuple[str, ...]
    source: str
    #: The role's unit for one event.
    factor: float = 1.0
    #: How it differs from the role's meaning.
    note: str = ""


_SKX = ("Skylake-SP", "Cascade Lake")
_ICX = ("Ice Lake-SP",)
_SPR = ("Sapphire Rapids", "Emerald Rapids")
_GNR = ("Granite Rapids",)
_HSX = ("Haswell-EP", "Broadwell-EP")
_SNB = ("Sandy Bridge-EP",)
_INTEL = (*_SNB, *_HSX, *_SKX, *_ICX, *_SPR, *_GNR)
_ZEN = ("Zen 2", "Zen 3", "Zen 4", "Zen 5")
_ARM = ("A64FX", "Grace")
_STALL_L3 = "cycles without execution while a load missed the L3"
_LOADS = "loads only, without stores and prefetches"


def _perf(
    role: str,
    group: str,
    families: tuple[str, ...],
    *events: str,
    factor: float = 1.0,
    note: str = "",
) -> RoleCount:
    return RoleCount(role, "perf_stat", group, families, events, "kernel", factor, note)


def _each(name: str, parts: range) -> tuple[str, ...]:
    return tuple(name.format(part) for part in parts)


_ALL = (*_INTEL, *_ZEN, *_ARM)
_PERF_STAT = (
    _perf("cycles", "memory", _ALL, "cycles"),
    _perf("instructions", "memory", _ALL, "instructions"),
    _perf("memory stalls", "memory", (*_SNB, *_HSX), "cycle_activity.stalls_l2_pending",
          note="cycles without execution while a load missed the L2"),
    _perf("memory stalls", "memory", (*_SKX, *_ICX), "cycle_activity.stalls_l3_miss",
          note=_STALL_L3),
    _perf("memory stalls", "memory", _SPR, "memory_activity.stalls_l3_miss", note=_STALL_L3),
    _perf("memory stalls", "memory", _ARM, "stalled-cycles-backend",
          note="cycles in which the back end took nothing, whatever the cause"),
    _perf("memory bound", "topdown", (*_SKX, *_ICX, *_SPR), "tma_memory_bound"),
    _perf("memory bound", "topdown", ("Zen 4", "Zen 5"), "backend_bound_memory"),
    _perf("L1 misses", "memory", _INTEL, "l1d.replacement"),
    _perf("L1 misses", "memory", ("Zen 4", "Zen 5"), "ls_any_fills_from_sys.all",
          note="fills of the L1, prefetches included"),
    _perf("L1 misses", "memory", _ARM, "L1-dcache-load-misses"),
    _perf("L2 misses", "memory", _INTEL, "l2_lines_in.all"),
    _perf("L2 misses", "memory", _ZEN, "l2_cache_req_stat.ic_dc_miss_in_l2",
          note="requests of the L1 caches, without prefetches of the L2"),
    _perf("L3 misses", "memory", _SNB, "mem_load_uops_retired.llc_miss", note=_LOADS),
    _perf("L3 misses", "memory", _HSX, "mem_load_uops_retired.l3_miss", note=_LOADS),
    _perf("L3 misses", "memory", (*_SKX, *_ICX, *_SPR), "mem_load_retired.l3_miss", note=_LOADS),
    _perf("L3 misses", "memory", ("Zen 4", "Zen 5"), "ls_any_fills_from_sys.dram_io_all",
          note="fills of the L1 from DRAM or a device"),
    _perf("L3 misses", "memory", ("Zen 3",), "ls_any_fills_from_sys.mem_io_local",
          "ls_any_fills_from_sys.mem_io_remote", note="fills of the L1 from DRAM or a device"),
    _perf("DRAM read", "dram", (*_SNB, *_HSX, *_SKX, *_ICX, *_SPR), "unc_m_cas_count.rd",
          factor=_LINE_B),
    _perf("DRAM written", "dram", (*_SNB, *_HSX, *_SKX, *_ICX, *_SPR), "unc_m_cas_count.wr",
          factor=_LINE_B),
    _perf("DRAM read", "dram", ("Zen 4", "Zen 5"), "umc_cas_cmd.rd", factor=_LINE_B),
    _perf("DRAM written", "dram", ("Zen 4", "Zen 5"), "umc_cas_cmd.wr", factor=_LINE_B),
    _perf("device writes", "devices", _SKX,
          *_each("unc_iio_payload_bytes_in.mem_write.part{}", range(4)), factor=4),
    _perf("device writes", "devices", (*_ICX, *_SPR), "unc_cha_tor_inserts.io_itom",
          "unc_cha_tor_inserts.io_itomcachenear", factor=_LINE_B),
    _perf("device writes", "devices", ("Zen 4",),
          *_each("local_socket_upstream_write_beats_iom{}", range(4)), factor=_LINE_B),
    _perf("DDIO misses", "devices", (*_ICX, *_SPR), "unc_cha_tor_inserts.io_miss_itom",
          "unc_cha_tor_inserts.io_miss_itomcachenear", factor=_LINE_B),
)  # fmt: skip


def _likwid(
    role: str, group: str, families: tuple[str, ...], event: str, note: str = ""
) -> RoleCount:
    return RoleCount(role, "likwid", group, families, (event,), "likwid", 1.0, note)


_STALLS = (*_SNB, *_HSX, *_SKX, *_ICX, *_GNR)
_CONTROLLERS = (*_INTEL, "Zen 4", "Zen 5", *_ARM)
_LIKWID = (
    _likwid("cycles", "CYCLE_STALLS", _STALLS, "CPU_CLK_UNHALTED_CORE"),
    _likwid("instructions", "CYCLE_STALLS", _STALLS, "INSTR_RETIRED_ANY"),
    _likwid("memory stalls", "CYCLE_STALLS", (*_SNB, *_HSX, *_SKX),
            "CYCLE_ACTIVITY_STALLS_L2_PENDING",
            note="cycles without execution while a load missed the L2"),
    _likwid("memory stalls", "CYCLE_STALLS", (*_ICX, *_GNR), "CYCLE_ACTIVITY_STALLS_L2_MISS",
            note="cycles without execution while a load missed the L2"),
    _likwid("L2 misses", "L2CACHE", (*_SNB, *_HSX, *_SKX, *_ICX, *_GNR), "L2_RQSTS_MISS"),
    _likwid("L2 misses", "L2CACHE", _SPR, "L2_REQUEST_MISS"),
    _likwid("L2 misses", "L2CACHE", ("Zen 4", "Zen 5"), "L2 misses"),
    _likwid("L3 misses", "L3CACHE", _HSX, "MEM_LOAD_UOPS_RETIRED_L3_MISS", note=_LOADS),
    _likwid("L3 misses", "L3CACHE", (*_SKX, *_ICX, *_SPR), "MEM_LOAD_RETIRED_L3_MISS",
            note=_LOADS),
    _likwid("DRAM read", "MEM", _CONTROLLERS, "Memory read data volume"),
    _likwid("DRAM written", "MEM", _CONTROLLERS, "Memory write data volume"),
)  # fmt: skip


def _papi(
    role: str, group: str, families: tuple[str, ...], event: str, note: str = ""
) -> RoleCount:
    return RoleCount(role, "papi", group, families, (event,), "papi", 1.0, note)


_PAPI = (
    _papi("cycles", "stalls", (*_INTEL, *_ZEN, *_ARM), "PAPI_TOT_CYC"),
    _papi("instructions", "stalls", (*_INTEL, *_ZEN, *_ARM), "PAPI_TOT_INS"),
    _papi("L1 misses", "caches", (*_INTEL[:6], "A64FX"), "PAPI_L1_TCM",
          note="data and instructions"),
    _papi("L2 misses", "caches", ("A64FX",), "PAPI_L2_TCM"),
    _papi("L3 misses", "caches", _INTEL[:6], "PAPI_L3_TCM"),
)  # fmt: skip

#: Open|SpeedShop counts PAPI's events, while it samples.
_OPENSPEEDSHOP = tuple(
    replace(row, tool="openspeedshop", group="hwcsamp")
    for row in _PAPI
    if row.events[0] in ("PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM")
)
#: A device's own counter does not depend on the processor.
_NODE = (
    RoleCount("PCIe stalls", NODE, "NIC", _ALL, ("outbound_pci_stalled_wr",), "kernel",
              note="of the last second of the run; the device that could write least"),
)  # fmt: skip
COUNTS: tuple[RoleCount, ...] = (*_PERF_STAT, *_LIKWID, *_PAPI, *_OPENSPEEDSHOP, *_NODE)

#: Event of Groves, Grant and Arnold (2016) -> family -> what PAPI counts under its name, where that
#: is another thing than the role. Their PAPI_L2_TCH and PAPI_L3_TCH exist on A64FX alone.
STUDY_DIFFERS: dict[str, dict[str, str]] = {
    "PAPI_STL_ICY": {
        "Sandy Bridge-EP": "ILD_STALL:IQ_FULL, a full instruction queue",
        **dict.fromkeys(_HSX, "IDQ:EMPTY, an empty decode queue"),
        **dict.fromkeys(_SKX, "IDQ_UOPS_NOT_DELIVERED, starvation of the front end"),
        "A64FX": "STALL_FRONTEND + STALL_BACKEND",
    },
    "PAPI_L2_TCM": dict.fromkeys(
        (*_SNB, *_HSX, *_SKX, *_ICX), "references of the last-level cache"
    ),
}


def groups(tool: str) -> dict[str, Scope]:
    """The groups of a tool, in the table's order, and what they cover."""
    return {row.group: ROLES[row.role].scope for row in COUNTS if row.tool == tool}


def counts(tool: str, group: str, family: str | None) -> list[RoleCount]:
    """The rows of one group of a tool on one family."""
    return [
        row for row in COUNTS if (row.tool, row.group) == (tool, group) and family in row.families
    ]


def lacking(tool: str, family: str | None) -> list[str]:
    """The roles that a tool cannot count on a family."""
    known = {row.role for row in COUNTS if row.tool == tool and family in row.families}
    return [role for role in ROLES if role not in known]
