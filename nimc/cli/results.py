"""The commands `nimc report`, `nimc compare` and `nimc advise`.

They print the results of runs of campaigns, the differences between runs, and which remedies
against the slowdown are worth their price.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from analysis.compare.page import write_page
from analysis.compare.sides import METRICS, ComparedSides, Comparison, Side, compare_sides
from analysis.display.figures import NO_FIGURE, divisor_and_unit, number, quantity
from analysis.display.lines import Line
from analysis.effects.contrasts import Contrast
from analysis.effects.result import Result, Verdict
from analysis.history.nights import nights_of, read_results
from analysis.questions.question import estimate_of
from analysis.remedies.advice import (
    Advice,
    advise,
    crossing_text,
    dynamic_reservation_lines,
    sentences,
)
from analysis.remedies.net import Remedy
from analysis.remedies.standing import Standing
from analysis.report.data import RunData, load_run
from analysis.report.first_sentences import (
    disturbance_of_run,
    failed_cases,
    failures,
    next_step,
)
from analysis.report.page import make_reports
from analysis.report.paper import PaperFiles, write_for_paper
from analysis.report.words import case_and_arm, notes_of
from analysis.samples.pairs import rejection_kinds
from analysis.statistics.interval import Interval, ends_text, estimate_text
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, prints_answer, prose
from records.calls import RunCommands
from records.commands import Shell
from records.errors import InputError
from records.groups import grouped
from records.measured import command_heading, rewording
from records.notes import merged_concurrent_runs
from records.run import RunHeader
from records.units import percentage, plural

# What the option -v adds to the tables of each command, in words.

_EFFECTS_DETAILS = (
    "standard deviations, baseline repeated, control, extra node-hours per 100 on average, rates of"
    " the writers"
)
_COMPARISONS_DETAILS = "p adjusted over all rows, every night, and other facts of both sides"
_REMEDIES_DETAILS = (
    "intervals of price and gain, that for the next allocation, rates of the writers with / without"
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@options.output_option("Folder to write to [default, for one run: RUN/report].", folder=True)
@click.option(
    "--pictures",
    type=options.OutputPath(folder=True),
    metavar="DIR",
    help="Write all pictures to DIR as SVG and PDF in the column widths of IEEE and ACM, and their"
    " captions and the tables as LaTeX.",
)
@prints_answer(tables=True)
@options.force_option
@options.details_option(_EFFECTS_DETAILS)
def report_command(
    runs: tuple[Path, ...], output: Path | None, pictures: Path | None, force: bool, details: bool
) -> Answer:
    """Write a self-contained HTML page for each machine, and its data, from the folders of runs."""
    reports = make_reports(runs, output, force=force)
    parts: list[str | Listing] = []
    for report in reports:
        for run in report.runs:
            parts += [prose(run.header.run, bold=True), *_alert_lines(run.integrity.lines())]
            parts += map(prose, run.unread_runs)
            if not run.samples.is_empty():  # otherwise the reasons stand in place of results
                parts += map(prose, failed_cases(run))
            parts += tables_of_run(run, details=details)
        parts.append(f"report: {report.page}")
    documents = [report.document() for report in reports]
    paper_files = PaperFiles()
    if pictures:
        paper_files = write_for_paper(pictures, [run for report in reports for run in report.runs])
        parts += [f"pictures: {pictures}", *(f"too wide: {path}" for path in paper_files.too_wide)]
    return Answer({"reports": documents, "pictures": list(map(str, paper_files.files))}, parts)


def _alert_lines(lines: Iterable[str]) -> list[str]:
    """Return lines in a style that users notice."""
    return [prose(line, fg="red", bold=True) for line in lines]


# `nimc run` and `nimc report` print the effects of a run.


#: Largest number of reasons for rejections that are printed.
_MAX_REASONS = 8
#: Verdict -> colour of its line. Lines with other verdicts are yellow.
_VERDICT_COLOURS: dict[Verdict, str] = {
    Verdict.CONTENTION: "red",
    Verdict.SLOWER: "red",
    Verdict.SPEED_UP: "cyan",
    Verdict.NO_EFFECT: "green",
}
_EFFECTS_HEADER = ("case", "slowdown, 95 %", "verdict", "off -> on", "pairs")
_EFFECTS_LEGEND = (
    "slowdown of the typical run, with its interval of 95 %; median run without -> with writers"
)
#: Least difference of two ratios that a reader of the table can see.
_MIN_VISIBLE_DIFFERENCE = 0.005
_CONTRASTS_HEADER = ("case, level", "ratio, 95 %", "kind", "pairs")
_CONTRASTS_LEGEND = (
    "price: time at the level / at the first level, without writers; "
    "gain: time at the first level / at the level, with writers"
)


def tables_of_run(run: RunData, *, details: bool = False) -> list[str | Listing]:
    """Return the tables of a run's effects, prices and gains.

    They contain commands for the user, which can be typed in the current folder. `details` are
    added if it is true.
    """
    return results_tables(
        run.results,
        run.header,
        run.commands(Shell.here()),
        run.contrasts,
        run.pair_s,
        disturbance=disturbance_of_run(run),
        failures=failures(run),
        details=details,
    )


def results_tables(
    rows: Sequence[Result],
    header: RunHeader,
    commands: RunCommands,
    contrasts: Sequence[Contrast] = (),
    pair_s: Mapping[str, float] | None = None,
    *,
    disturbance: str = "",
    failures: Sequence[str] = (),
    details: bool = False,
) -> list[str | Listing]:
    """Return a table of effects, then a table of prices and gains (`contrasts`) if there are any.

    Notes follow the effects: first what disturbed the run (`disturbance`), then caveats. After the
    last table comes what the user should do next. If a case has effects, its controls and its
    repeated baselines are details of the effects. If it has none, they have lines of their own. If
    there is no line at all, the reasons in `failures` are returned instead. `rows` are the results
    of all cases. `pair_s` is the time that a pair of a case takes.
    """
    cases_with_effects = {row.case for row in rows if row.role == "effect"}
    shown_rows = [row for row in rows if row.role == "effect" or row.case not in cases_with_effects]
    if not shown_rows:
        reasons = failures or ["only the arm 'off' was run"]
        return [prose(f"no result: {reason}") for reason in reasons]
    advice = next_step(rows, header, commands, pair_s)
    heading = command_heading(header)
    parts: list[str | Listing] = [f"{header.campaign}: {heading}"] if heading else []
    effects = Listing(
        header=_EFFECTS_HEADER,
        lines=list(map(_effect_line, shown_rows)),
        notes=_effect_notes(shown_rows, header, disturbance),
        legend=_EFFECTS_LEGEND,
        details_hint=_EFFECTS_DETAILS,
        details=details,
        conclusions=[] if contrasts else [advice],
    )
    parts.append(effects)
    if contrasts:
        prices_and_gains = Listing(
            header=_CONTRASTS_HEADER,
            lines=list(map(_contrast_line, contrasts)),
            legend=_CONTRASTS_LEGEND,
            details=details,
            conclusions=[advice],
        )
        parts += ["", prices_and_gains]
    return parts


def _effect_notes(rows: Sequence[Result], header: RunHeader, disturbance: str) -> list[str]:
    notes = [disturbance] if disturbance else []
    for row in rows:
        if row.next:
            notes.append(
                f"{case_and_arm(row)}: the interval covers the next allocation; the verdict rests"
                f" on the interval of these allocations, {ends_text(row.slowdown)}"
            )
    notes += _disagreement_notes(rows)
    for row in rows:
        if row.verdict is Verdict.NO_EFFECT:
            notes.append(f"no effect: typical run within {percentage(row.margin, '.3g')}")
    notes += map(rewording(header), _caveats(rows))
    notes += _rejection_lines(rows)
    return notes


def _effect_line(row: Result) -> Line:
    divisor, unit = divisor_and_unit(row.off_median or row.on_median, row.unit)
    off, on = (
        NO_FIGURE if median is None else number(median / divisor, 3)
        for median in (row.off_median, row.on_median)
    )
    rejected = f", {row.rejected} rejected" if row.rejected else ""
    # `verdict_text` ends with 'writes' if the verdict is on the effect of the writes. The verdict
    # `EMULATED` already says that they are emulated.
    names_emulation = (
        row.emulated and row.verdict is not Verdict.EMULATED and row.verdict_text.endswith("writes")
    )
    rate, uncontended_rate = (
        quantity(rate_b_s, "B/s", 3)
        for rate_b_s in (row.writer_rate_b_s, row.writer_rate_alone_b_s)
    )
    cells = [
        case_and_arm(row),
        estimate_text(row.leading_estimate),
        f"{row.verdict}{', emulated' if names_emulation else ''}",
        f"{off} -> {on} {unit}",
        f"{plural(row.pairs, 'pair')}{rejected}",
    ]
    spreads = [
        NO_FIGURE if spread is None else percentage(spread, ".1f")
        for spread in (row.off_spread, row.on_spread)
    ]
    details = [
        f"standard deviation of runs: {' -> '.join(spreads)}",
        f"baseline repeated: {ends_text(row.noise_floor)}; control: {ends_text(row.control)}",
        f"extra node-hours per 100, on average: {_cost_text(row)}",
        f"writers: {rate}, alone {uncontended_rate}",
    ]
    return Line(cells, details, _VERDICT_COLOURS.get(row.verdict, "yellow"))


def _disagreement_notes(rows: Sequence[Result]) -> list[str]:
    """Return a note that names the rows whose medians visibly contradict their slowdown, and why.

    Returns an empty list if there are no such rows.
    """
    names = [case_and_arm(row) for row in rows if _disagree(row)]
    if not names:
        return []
    return [
        f"{', '.join(names)}: the slowdown and off -> on disagree: the slowdown compares the runs"
        " of each pair; off -> on are medians over all runs, which may drift"
    ]


def _disagree(row: Result) -> bool:
    """Return whether the ratio of medians visibly contradicts the slowdown.

    This is so if the ratio is outside the slowdown's interval, or if one of the two is below 1 and
    the other above.
    """
    slowdown = row.leading_estimate
    if not (slowdown and row.off_median and row.on_median):
        return False
    ratio = row.on_median / row.off_median
    if row.better == "higher":
        ratio = 1 / ratio
    if (
        not slowdown.low - _MIN_VISIBLE_DIFFERENCE
        <= ratio
        <= slowdown.high + _MIN_VISIBLE_DIFFERENCE
    ):
        return True
    smaller, larger = sorted((ratio, slowdown.value))
    medians_differ = number(row.off_median, 3) != number(row.on_median, 3)
    slowdown_differs = abs(slowdown.value - 1) > _MIN_VISIBLE_DIFFERENCE
    return smaller < 1 < larger and medians_differ and slowdown_differs


def _cost_text(row: Result) -> str:
    if row.cost is None:
        return NO_FIGURE
    return f"{row.cost.value:.1f} [{row.cost.low:.1f}, {row.cost.high:.1f}]"


def _contrast_line(contrast: Contrast) -> Line:
    cells = [
        f"{contrast.case} {contrast.treatment}",
        estimate_text(contrast.ratio),
        f"{contrast.kind} against {contrast.against}",
        plural(contrast.pairs, "pair"),
    ]
    return Line(cells, [f"baseline repeated: {ends_text(contrast.noise_floor)}"])


def _caveats(rows: Sequence[Result]) -> list[str]:
    """Return each note of the results once. Its cases are named, unless all cases have the note."""
    with_runs_merged = merged_concurrent_runs(note for row in rows for note in row.notes)
    merged_rows = (replace(row, notes=list(map(with_runs_merged, row.notes))) for row in rows)
    rows_by_case = grouped((row.case, row) for row in merged_rows)
    cases_by_note = grouped(
        (note, case) for case, case_rows in rows_by_case.items() for note in notes_of(case_rows)
    )
    return [
        note if len(cases) == len(rows_by_case) else f"{', '.join(cases)}: {note}"
        for note, cases in cases_by_note.items()
    ]


def _rejection_lines(rows: Sequence[Result]) -> list[str]:
    """Return a line for each case and reason of rejections, with the number of rejected runs.

    If there are many lines, the last line says how many are left out.
    """
    runs_by_case: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        for run in row.rejections:
            runs_by_case.setdefault(row.case, {})[run["key"]] = (run["outcome"], run["reason"])
    lines = []
    for case, runs in runs_by_case.items():
        for kind in rejection_kinds(runs.values()):
            reason = f": {kind.reason}" if kind.reason else ""
            lines.append(f"{case}: {kind.run_count} x {kind.outcome}{reason}")
    if unshown := lines[_MAX_REASONS:]:
        more = f"and {len(unshown)} more reasons; the report has them all"
        return [*lines[:_MAX_REASONS], more]
    return lines


# `nimc compare` compares one or several nights with one or several reference nights. A night is one
# run of a campaign.


_RUN = options.RunPath()
_COMPARISONS_HEADER = ("figure", "ratio, 95 %", "change", "reference -> this", "adjusted p")
_COMPARISONS_LEGEND = "ratio: above 1 is slower"


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_RUN, metavar="[RUN] RUN...")
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=_RUN,
    metavar="RUN",
    help="A reference night; may be repeated. Without it, the first of two RUNs is the reference.",
)
@options.output_option("Folder for a page, compare.html, and its data, compare.json.", folder=True)
@click.option(
    "--fail", is_flag=True, help="Exit with 1 if a figure is worse; refused if none can be judged."
)
@prints_answer(tables=True)
@options.force_option
@options.details_option(_COMPARISONS_DETAILS)
def compare_command(
    runs: tuple[Path, ...],
    references: tuple[Path, ...],
    output: Path | None,
    fail: bool,
    force: bool,
    details: bool,
) -> Answer:
    """Compare nights with reference nights: slowdowns and times, and what differs between them.

    A ratio above 1 is worse. Each run counts as a night. With several nights on both sides, a
    change is named if it is larger than the differences between nights of one side. All rows are
    judged together. Neighbouring nights are assumed to be as correlated as the data allow. If the
    same folder has reports of 30 nights, these limit the assumed correlation. Seven nights on each
    side are a good start. With one night on a side, no change is named.
    """
    references, runs = _sides(references, runs)
    reference, current = (
        [_measured_run(path, force=force) for path in side] for side in (references, runs)
    )
    results, _ = read_results({run.absolute().parent for run in (*references, *runs)})
    compared_sides = compare_sides(reference, current, nights_of(results))
    if fail and compared_sides.unjudged_text:
        raise InputError(f"--fail: {compared_sides.unjudged_text}", *compared_sides.warnings)
    parts = list(comparison_parts(compared_sides, details=details))
    if output:
        parts.append(f"page: {write_page(output, compared_sides)}")
    return Answer(
        compared_sides.document(), parts, int(bool(fail and compared_sides.worse_count)), schema=3
    )


def _measured_run(path: Path, *, force: bool) -> RunData:
    """Return the run in a folder. Raises InputError, also if the run has no samples."""
    run = load_run(path, force=force)
    if run.samples.is_empty():
        reasons = "; ".join(failures(run))
        raise InputError(f"{path}: nothing to compare: {reasons}; allowed: a run with samples")
    return run


def _sides(
    references: tuple[Path, ...], runs: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the reference nights and the nights to compare with them. Raises InputError.

    Without reference nights, the first of two runs is the reference.
    """
    if references:
        return references, runs
    if len(runs) < 2:
        raise InputError("RUN: give the reference and at least one more run")
    if len(runs) > 2:
        raise InputError(
            f"RUN: {len(runs)} runs without --reference; allowed: 2, or name the reference's nights"
            " with --reference, once for each"
        )
    return runs[:1], runs[1:]


def comparison_parts(
    compared_sides: ComparedSides, *, details: bool = False
) -> Iterator[str | Listing]:
    """Yield the parts of a comparison's text.

    These are the integrity faults of runs, facts of the nodes that differ, and a table of figures.
    If `details` is true, other facts that differ are named too.
    """
    yield from _alert_lines(
        text for check in compared_sides.faulty_checks for text in check.lines()
    )
    reference, current = map(_side_name, (compared_sides.reference, compared_sides.this))
    title = f"{reference} (reference) -> {current} (this)"
    yield prose(title, bold=True)
    for line in compared_sides.warnings:
        yield prose(line, fg="yellow")
    for fact in compared_sides.differing_facts:
        yield prose(f"{fact.what} differs: {fact.reference} -> {fact.this}", fg="yellow")
    if compared_sides.unknown_facts:
        yield prose(f"not known of the nodes: {', '.join(compared_sides.unknown_facts)}", dim=True)
    yield ""
    notes = list(compared_sides.emulations)
    if details:
        notes += [
            f"{fact.what}: {fact.reference} -> {fact.this}"
            for fact in compared_sides.other_differences
        ]
    yield Listing(
        header=_COMPARISONS_HEADER,
        lines=list(map(_comparison_line, compared_sides.rows)),
        notes=notes,
        legend=_COMPARISONS_LEGEND,
        details_hint=_COMPARISONS_DETAILS,
        details=details,
        conclusions=[compared_sides.summary],
    )


def _side_name(side: Side) -> str:
    header = side.header
    if len(side.runs) == 1:
        return header.run
    return f"{plural(len(side.runs), 'night')} of {header.campaign} on {header.machine}"


def _comparison_line(row: Comparison) -> Line:
    treatment = "" if row.arm in ("on", "off") else f" {row.arm}"
    unit = "" if row.metric == "slowdown" else row.unit
    scale = row.reference or row.this
    divisor, scaled_unit = divisor_and_unit(scale.value if scale else None, unit)
    estimates = [
        number(estimate.value / divisor, 3) if estimate else NO_FIGURE
        for estimate in (row.reference, row.this)
    ]
    nights = {"reference": row.reference_nights, "this": row.this_nights}
    cells = [
        f"{row.case}{treatment} {METRICS[row.metric]}",
        estimate_text(row.ratio),
        row.text,
        f"{' -> '.join(estimates)} {scaled_unit}".rstrip(),
        "" if row.p_adjusted is None else f"p {row.p_adjusted:.2g}",
    ]
    details = [
        f"{side}: {', '.join(quantity(value, unit, 3).rstrip() for value in values_of_nights)}"
        for side, values_of_nights in nights.items()
        if values_of_nights
    ]
    return Line(cells, details)


# `nimc advise` recommends remedies. It prints what each costs and gains, and what is not decided.


_STANDING_COLOURS = {Standing.BETTER: "green", Standing.WORSE: "red"}
_REMEDIES_HEADER = ("remedy", "net, 95 %", "standing", "price and gain")
_REMEDIES_LEGEND = (
    "net: speed with / without the remedy at the share of traffic, above 1 is better; price: time"
    " with / without, off; gain: time without / with, on"
)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@click.option(
    "--traffic-share",
    callback=options.share,
    metavar="SHARE",
    help="Share of the time with traffic as in the runs: 0.3 or 30% [default: all the time].",
)
@prints_answer(tables=True)
@options.force_option
@options.details_option(_REMEDIES_DETAILS)
def advise_command(
    runs: tuple[Path, ...], traffic_share: float | None, force: bool, details: bool
) -> Answer:
    """Say which remedy is worth its price on the machines of RUN..., and what is not decided.

    A remedy is recommended only if the whole interval of its net benefit in the next allocation is
    on the better side, judged over all remedies tried, and never from emulated traffic. A remedy
    that costs something without traffic needs --traffic-share. This share is an assumption about
    the machine, and is not measured.
    """
    paths = dict.fromkeys(Path(os.path.realpath(run)) for run in runs)
    loaded_runs = [load_run(path, force=force) for path in paths]
    runs_by_machine = grouped((run.header.machine, run) for run in loaded_runs)
    advice_by_machine = {
        machine: advise(machine_runs, traffic_share)
        for machine, machine_runs in runs_by_machine.items()
    }
    documents = [advice.as_dict() for advice in advice_by_machine.values()]
    faults = {str(run.path): run.integrity.faults for run in loaded_runs if run.integrity.faults}
    parts: list[str | Listing] = []
    for machine, advice in advice_by_machine.items():
        parts.append(prose(machine, bold=True))
        parts += _alert_lines(
            line for run in runs_by_machine[machine] for line in run.integrity.lines()
        )
        parts.append(_advice_listing(advice, details=details))
    return Answer({"advice": documents, "integrity_faults": faults}, parts, schema=4)


def _advice_listing(advice: Advice, *, details: bool) -> Listing:
    sweep_lines = [_sweep_text(row) for row in advice.sweeps if row["slope"] is not None]
    emulations = [note for row in advice.losses for note in row["emulated"]]
    return Listing(
        header=_REMEDIES_HEADER,
        lines=list(map(_remedy_line, advice.remedies)),
        notes=[*sweep_lines, *dynamic_reservation_lines(advice), *emulations],
        legend=_REMEDIES_LEGEND,
        details_hint=_REMEDIES_DETAILS,
        details=details,
        conclusions=sentences(advice),
    )


def _remedy_line(row: Remedy) -> Line:
    traffic = "" if row["traffic"] == "on" else f" under {row['traffic']}"
    standing_words = [row["standing"]]
    if not row["paired"]:
        standing_words.append("unpaired")
    if row["emulated"]:
        standing_words.append("emulated")
    net, price, gain, write_ratio = (
        estimate_of(row, name) for name in ("net", "price", "gain", "written")
    )
    price_and_gain = []
    if price:
        price_and_gain.append(f"price {price.value:.2f}")
    if gain:
        price_and_gain.append(f"gain {gain.value:.2f}")
    low, high = (row[f"next_allocation_{end}"] for end in ("low", "high"))
    next_allocation = None if low is None else Interval(low, high)
    cells = [
        f"{row['case']} {row['remedy']}{traffic}",
        estimate_text(net),
        ", ".join(standing_words),
        " ".join(price_and_gain),
    ]
    details = [
        f"price: {estimate_text(price)}; gain: {estimate_text(gain)}",
        f"next allocation: {ends_text(next_allocation)}; writes: {estimate_text(write_ratio)}",
    ]
    return Line(cells, details, _STANDING_COLOURS.get(row["standing"], "yellow"))


#: Factor that converts a relative loss per B/s written to a loss in per cent per GB/s written.
_PERCENT_PER_GB = 100 * 1e9


def _sweep_text(row: Mapping[str, Any]) -> str:
    """Return a sentence about a sweep of rates: how much is lost per byte written.

    It also says at which rate the loss equals the price of reserved cores, if this price is known.
    """
    sweep_name = ", ".join(filter(None, (row["case"], row["at"])))
    if row["word"] != "yes":
        return f"{sweep_name}: the loss is curved, so no line gives a loss per byte"
    # If the figure of merit is a bandwidth, the loss is in B/s per B/s. Otherwise it is relative,
    # in per cent per GB/s.
    factor, unit = (1.0, "B/s per B/s") if row["bandwidth"] else (_PERCENT_PER_GB, "% per GB/s")
    figures = (row[f"slope{end}"] * factor for end in ("", "_low", "_high"))
    value, low, high = (number(figure, 3) for figure in figures)
    text = f"{sweep_name}: lost per byte written {value} [{low}, {high}] {unit}"
    if row["reserved"] is not None:
        crossover = crossing_text(row, "crossover_b_s", "B/s")
        text += f"; equals the price of reserved_cores={row['reserved']:g}: {crossover}"
    return text
