"""Roles of counters, and how each tool counts them on each family of processors.

A role is a quantity that may explain a slowdown. An event is a counter of a processor. An event of
one name may count different things on different processors. So roles are compared between machines,
and events are not. A role is missing on a family of processors if no row counts it there. This
module uses only the standard library.

The rows are in roles.json. Their sources:
kernel  event lists of perf (Linux, tools/perf/pmu-events/arch/x86/FAMILY/*.json); counters of the
        driver mlx5 (Linux, Documentation/networking, mlx5/counters.rst)
likwid  performance groups (RRZE-HPC/likwid, groups/FAMILY/GROUP.txt)
papi    presets (icl-utk-edu/papi, src/papi_events.csv)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

#: The scope of a count: the processes of one rank, or all activity on a node.
Scope = Literal["rank", "node"]


@dataclass(frozen=True)
class Role:
    """A quantity that may explain a slowdown."""

    unit: str
    scope: Scope
    #: What the quantity is, in words.
    definition: str


ROLES = {
    "cycles": Role("count", "rank", "core cycles in which the rank ran"),
    "instructions": Role("count", "rank", "instructions retired"),
    "memory stalls": Role("count", "rank", "cycles without work, waiting for memory"),
    "stalled cycles": Role("count", "rank", "cycles that PAPI_STL_ICY counts on each processor"),
    "memory bound": Role("1", "rank", "share of pipeline slots lost in waiting for memory"),
    "L1 misses": Role("count", "rank", "lines missed by the first-level data cache"),
    "L2 misses": Role("count", "rank", "lines missed by the second-level cache"),
    "L3 misses": Role("count", "rank", "loads or lines missed by the last-level cache"),
    "L2 hits": Role("count", "rank", "requests that the second-level cache served"),
    "L3 hits": Role("count", "rank", "requests that the last-level cache served"),
    "DRAM read": Role("B", "node", "read by the memory controllers"),
    "DRAM written": Role("B", "node", "written by the memory controllers"),
    "device writes": Role("B", "node", "written into memory by PCIe devices"),
    "DDIO misses": Role("B", "node", "device writes that missed the last-level cache"),
    "PCIe stalls": Role("1", "node", "share of time in which a device could not write"),
}

#: Roles that are shares. They are averaged over ranks, and not summed.
SHARE_ROLES = tuple(name for name, role in ROLES.items() if role.unit == "1")

#: Groups of metrics, which perf calculates from events of its own choice.
METRIC_GROUPS = ("topdown",)


@dataclass(frozen=True, kw_only=True)
class RoleCount:
    """How a tool counts a role on some families: as the sum of some of the tool's events."""

    role: str
    #: The tool, and the group of events that are counted together.
    tool: str
    group: str
    families: tuple[str, ...]
    #: Names as the tool prints them.
    events: tuple[str, ...]
    source: str
    #: Amount of the role, in its unit, for one event. A value that the tool already prints in this
    #: unit is not multiplied.
    factor: float = 1.0
    #: How the count differs from the role's definition.
    note: str = ""


def _read_counts() -> tuple[RoleCount, ...]:
    """The rows of roles.json; a name in its `families` stands for several families."""
    table = json.loads(Path(__file__).with_name("roles.json").read_text())
    families_by_name: dict[str, list[str]] = table["families"]
    counts = []
    for row in table["counts"]:
        families = chain(*(families_by_name.get(name, [name]) for name in row["families"]))
        tuples = {"families": tuple(families), "events": tuple(row["events"])}
        counts.append(RoleCount(**(row | tuples)))
    return tuple(counts)


COUNTS = _read_counts()


def groups(tool: str) -> dict[str, Scope]:
    """Group -> its scope, for the groups of a tool in the table's order."""
    return {row.group: ROLES[row.role].scope for row in COUNTS if row.tool == tool}


def counts(tool: str, group: str, family: str | None) -> list[RoleCount]:
    """The rows of one group of a tool on one family; empty if the family is None."""
    return [
        row for row in COUNTS if (row.tool, row.group) == (tool, group) and family in row.families
    ]


def missing_roles(tool: str, family: str | None) -> list[str]:
    """The roles that a tool counts on other families, but not on this one."""
    rows = [row for row in COUNTS if row.tool == tool]
    roles_of_family = {row.role for row in rows if family in row.families}
    roles_of_tool = {row.role for row in rows}
    return [role for role in ROLES if role in roles_of_tool and role not in roles_of_family]
