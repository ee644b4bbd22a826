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
from records.measured import command_of
from records.text import first_names

#: Maximum number of blocks that are named in a line.
_MAX_NAMED_BLOCKS = 4


def _unfinished_view(run: RunData) -> View | None:
    blocks = [replace(block, reason=run.reword(block.reason)) for block in run.unfinished_blocks]
    return View(blocks=blocks) if blocks else None


def _about_view(run: RunData) -> View:
    return View(provenance=_provenance(run), command=command_of(run.header))


def _provenance(run: RunData) -> View:
    """The facts that all blocks share, and for each record, the other facts and its blocks."""
    columns = ("provenance", "case", "block")
    rows = run.samples.select(columns).unique(maintain_order=True)
    blocks_by_sha = grouped(
        (str(sha), f"{case}, block {block}") for sha, case, block in rows.iter_rows()
    )
    facts_by_sha = {sha: labelled_facts(run.provenance.get(sha, {})) for sha in blocks_by_sha}
    recorded_facts = [facts for facts in facts_by_sha.values() if facts]
    # Sets are used, since lists would be slow: a block may have a hundred facts on each node.
    shared = set.intersection(*map(set, recorded_facts)) if recorded_facts else set()
    return View(
        shared=[fact for fact in recorded_facts[0] if fact in shared] if recorded_facts else [],
        blocks=[
            View(
                sha=sha,
                names=first_names(names, _MAX_NAMED_BLOCKS),
                facts=[fact for fact in facts_by_sha[sha] if fact not in shared],
                missing=sha not in run.provenance,
            )
            for sha, names in blocks_by_sha.items()
        ],
    )


def _machine_view(runs: Sequence[RunData]) -> View:
    return View(facts=labelled_facts(runs[0].header.facts))


def _method_view(runs: Sequence[RunData]) -> View:
    has_emulated_writes = any(case.emulation_caveats for run in runs for case in run.cases)
    reword = page_rewording(runs)
    return View(
        # If `nimc measure` made all runs, the texts do not speak of a campaign.
        has_campaign=not all(command_of(run.header) for run in runs),
        meaning={
            verdict: reword(text)
            for verdict, text in MEANING.items()
            if has_emulated_writes or verdict is not Verdict.EMULATED
        },
    )


SECTIONS = [
    Section(part="before_cases", position=-20, name="unfinished", make_view=_unfinished_view),
    Section(
        part="after_cases",
        position=1000,
        name="about",
        make_view=_about_view,
        title="About this run",
    ),
    Section(
        part="after_runs",
        position=10,
        name="machine",
        make_view=_machine_view,
        title="The machine",
        folded=True,
    ),
    Section(
        part="after_runs",
        position=20,
        name="method",
        make_view=_method_view,
        title="How to read this",
        folded=True,
    ),
]
