"""Two sides compared: what differs, the comparisons, and both as one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.compare.dose import DoseDifference, dose_differences
from analysis.compare.facts import Difference, node_facts, other_differences
from analysis.compare.judge import CHANGES, Comparison, compare
from analysis.compare.side import Side, pair_up
from analysis.facts import UNKNOWN
from analysis.integrity.check import Integrity
from analysis.report.data import RunData


@dataclass(frozen=True)
class Compared:
    """All that is said of two sides."""

    reference: Side
    this: Side
    #: Facts of the nodes that change what a run measures, whether or not they differ.
    nodes: list[Difference]
    doses: list[DoseDifference]
    rows: list[Comparison]
    #: All other facts that differ.
    others: list[Difference]

    @property
    def differing(self) -> list[Difference]:
        """Facts of the nodes that differ, or that one side alone reports."""
        return [fact for fact in self.nodes if fact.reference != fact.this]

    @property
    def unknown(self) -> list[str]:
        """Facts of the nodes that neither side reports."""
        return [fact.what for fact in self.nodes if fact.reference == fact.this == UNKNOWN]

    @property
    def untrusted(self) -> list[Integrity]:
        """What is wrong with the runs that have integrity faults."""
        runs = (*self.reference.runs, *self.this.runs)
        return [run.integrity for run in runs if run.integrity.count]

    @property
    def worse(self) -> int:
        """Number of rows that got worse."""
        return sum(row.verdict == "worse" for row in self.rows)

    @property
    def emulations(self) -> list[str]:
        """Caveats of the transports of both sides."""
        return list(dict.fromkeys([*self.reference.emulations(), *self.this.emulations()]))

    @property
    def summary(self) -> str:
        """What the number of nights allows, in one sentence."""
        if not self.rows:
            return "No case in common."
        nights = len(self.reference.runs), len(self.this.runs)
        if nights == (1, 1):
            return CHANGES["one night a side"]
        rows = [row for row in self.rows if row.p_adjusted is not None]
        named = [row for row in rows if row.verdict in ("worse", "better")]
        text = f"{len(named)} of {len(rows)} rows changed by more than nights differ"
        if least := sorted(row.least_named for row in rows if row.least_named is not None):
            text += (
                f"; with {nights[0]} against {nights[1]} nights a row had to change by"
                f" {_percent(least[0])} to {_percent(least[-1])} to be named"
            )
        if min(nights) == 1:
            text += (
                "; the side of one night is judged as that night alone, by the other side's spread"
            )
        return f"{text}."

    def document(self) -> dict[str, Any]:
        """The comparison as `nimc compare --json` prints it."""
        return {
            "reference": _side(self.reference),
            "this": _side(self.this),
            "nodes": [asdict(fact) for fact in self.nodes],
            "doses": [asdict(dose) for dose in self.doses],
            "comparisons": [row.as_dict() for row in self.rows],
            "differences": [asdict(fact) for fact in self.others],
            "emulations": self.emulations,
            "worse": self.worse,
            "integrity_faults": {str(found.run): found.faults for found in self.untrusted},
        }


def compare_sides(reference: Sequence[RunData], this: Sequence[RunData]) -> Compared:
    """Compares the runs of two sides. Raises InputError if they are not two sides of nights."""
    sides = pair_up(reference, this)
    doses = dose_differences(*sides)
    return Compared(
        *sides,
        nodes=node_facts(*sides),
        doses=doses,
        rows=compare(
            sides[0].nights(), sides[1].nights(), {(dose.case, dose.arm) for dose in doses}
        ),
        others=other_differences(*sides),
    )


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 10 else "more than 1000 %"


def _side(side: Side) -> dict[str, Any]:
    return {"machine": side.machine, "campaign": side.campaign, "runs": side.names}
