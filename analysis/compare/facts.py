"""Facts of machine, software and campaign that differ between two sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.compare.side import Side
from analysis.facts import FACTS, UNKNOWN, known, nodes_of
from analysis.report.words import facts

#: Provenance that differs between any two blocks: nodes are compared fact by fact instead.
_OF_A_BLOCK = ("nodes", "clock_offsets_s")
#: Facts of a host that are listed apart (`rdma` has more than the firmware), and its name.
_LISTED = ({*FACTS.values()} - {"rdma"}) | {"hostname"}
_ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """A fact that differs; several values of one side are joined with ` | `."""

    what: str
    reference: str
    this: str


def node_facts(reference: Side, this: Side) -> list[Difference]:
    """Facts of the nodes that change what a run measures (`analysis.facts`), whether or not they
    differ; `unknown` if no node of a side reports them."""
    old, new = _of_nodes(reference), _of_nodes(this)
    return [Difference(name, _joined(old[name]), _joined(new[name])) for name in FACTS]


def other_differences(reference: Side, this: Side) -> list[Difference]:
    """All other facts that differ, and cases and treatments that only one side has."""
    old, new = _facts(reference), _facts(this)
    return [
        Difference(name, old.get(name, _ABSENT), new.get(name, _ABSENT))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _hosts(side: Side) -> list[Mapping[str, Any]]:
    return [
        host for run in side.runs for record in run.provenance.values() for host in nodes_of(record)
    ]


def _of_nodes(side: Side) -> dict[str, list[str]]:
    return known(_hosts(side))


def _joined(values: Iterable[str]) -> str:
    return " | ".join(sorted(set(values))) or UNKNOWN


def _facts(side: Side) -> dict[str, str]:
    """Label -> text. Node by node would list every node; so by fact, over all nodes."""
    values: dict[str, list[str]] = {}

    def add(pairs: Iterable[tuple[str, str]]) -> None:
        for name, text in pairs:
            values.setdefault(name, []).append(text)

    for run in side.runs:
        header = run.header
        add((name, str(getattr(header, name))) for name in ("machine", "campaign", "digest"))
        add([("commit", header.commit or UNKNOWN)])
        # What only one side has, or has in another unit, is not compared: it is listed here.
        effects = (row for row in run.results if row.role == "effect")
        add((f"{row.case} {row.arm}", f"measured in {row.unit}") for row in effects)
        add(facts({"version": header.versions}))
        add(facts(header.facts))
        for record in run.provenance.values():
            add(facts({"provenance": {k: v for k, v in record.items() if k not in _OF_A_BLOCK}}))
    for host in _hosts(side):
        add(facts({"node": {k: v for k, v in host.items() if k not in _LISTED}}))
    return {name: _joined(texts) for name, texts in values.items()}
