"""Sections on how a run was made, what the machine is, and how the report is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.effects.result import Verdict
from analysis.report.data import RunData, page_rewording
from analysis.report.fact_texts import labelled_facts
from analysis.report.plots import View
from analysis.report.sections import Section
from analysis.report.sentences import MEANING
from records.groups import grouped
from records.measured import command_of, reworded
from records.text import first_names

#: Maximum blocks named in a line.
_MAX_NAMED_BLOCKS = 4


def _unfinished(run: RunData) -> View | None:
    blocks = [replace(block, reason=run.reword(block.reason)) for block in run.unfinished_blocks]
    return View(blocks=blocks) if blocks else None


def _about(run: RunData) -> View:
    return View(provenance=_provenance(run), command=command_of(run.header))


def _provenance(run: RunData) -> View:
    """The facts that all blocks share, and the other facts of each."""
    columns = ("provenance", "case", "block")
    rows = run.samples.select(columns).unique(maintain_order=True)
    blocks = grouped((str(sha), f"{case}, block {block}") for sha, case, block in rows.iter_rows())
    facts_of_blocks = {sha: labelled_facts(run.provenance.get(sha, {})) for sha in blocks}
    recorded = [block_facts for block_facts in facts_of_blocks.values() if block_facts]
    # Sets, since each block may have a hundred facts of each of its nodes.
    shared = set.intersection(*map(set, recorded)) if recorded else set()
    return View(
        shared=[fact for fact in recorded[0] if fact in shared] if recorded else [],
        blocks=[
            View(
                sha=sha,
                names=first_names(names, _MAX_NAMED_BLOCKS),
                facts=[fact for fact in facts_of_blocks[sha] if fact not in shared],
                missing=sha not in run.provenance,
            )
            for sha, names in blocks.items()
        ],
    )


def _machine(runs: Sequence[RunData]) -> View:
    return View(facts=labelled_facts(runs[0].header.facts))


def _method(runs: Sequence[RunData]) -> View:
    emulated = any(case.emulated for run in runs for case in run.cases)
    reword = page_rewording(runs)
    return View(
        measured=reword is reworded,  # by `nimc measure`, without a campaign
        meaning={
            verdict: reword(text)
            for verdict, text in MEANING.items()
            if emulated or verdict is not Verdict.EMULATED
        },
    )


SECTIONS = [
    Section(part="run", position=-20, name="unfinished", view=_unfinished),
    Section(part="end", position=1000, name="about", view=_about, title="About this run"),
    Section(
        part="after", position=10, name="machine", view=_machine, title="The machine", folded=True
    ),
    Section(
        part="after",
        position=20,
        name="method",
        view=_method,
        title="How to read this",
        folded=True,
    ),
]
