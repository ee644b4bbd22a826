"""How a run was made, what the machine is, and how the report is read."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.data import RunData
from analysis.report.facts import facts
from analysis.report.plots import View
from analysis.report.sections import Section
from analysis.report.sentences import MEANING
from records.groups import grouped
from records.text import some

#: Most blocks named in one line.
_NAMED = 4


def _unfinished(run: RunData, _: str) -> View | None:
    blocks = run.unfinished_blocks
    return View(blocks=blocks) if blocks else None


def _about(run: RunData, _: str) -> View:
    return View(provenance=_provenance(run))


def _provenance(run: RunData) -> View:
    """What all blocks have in common of how they were made, and what differs in each of them."""
    columns = ("provenance", "case", "block")
    rows = run.samples.select(columns).unique(maintain_order=True)
    blocks = grouped((str(sha), f"{case}, block {block}") for sha, case, block in rows.iter_rows())
    of_blocks = {sha: facts(run.provenance.get(sha, {})) for sha in blocks}
    present = [set(named) for named in of_blocks.values() if named]
    shared = set.intersection(*present) if present else set()
    return View(
        shared=[fact for fact in next(filter(None, of_blocks.values()), []) if fact in shared],
        blocks=[
            View(
                sha=sha,
                names=some(names, _NAMED),
                facts=[fact for fact in of_blocks[sha] if fact not in shared],
                missing=sha not in run.provenance,
            )
            for sha, names in blocks.items()
        ],
    )


def _machine(runs: Sequence[RunData], _: str) -> View:
    return View(facts=facts(runs[0].header.facts))


def _method(runs: Sequence[RunData], _: str) -> View:
    emulated = any(case.emulated for run in runs for case in run.cases)
    return View(
        meaning={
            verdict: text
            for verdict, text in MEANING.items()
            if emulated or "RDMA" in verdict or "slower" not in verdict
        }
    )


SECTIONS = [
    Section("run", -20, "unfinished", _unfinished),
    Section("end", 1000, "about", _about, "About this run"),
    Section("after", 10, "machine", _machine, "The machine"),
    Section("after", 20, "method", _method, "How to read this"),
]
