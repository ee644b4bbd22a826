"""`nimc report`, `nimc compare`, `nimc advise`: what runs say."""

from __future__ import annotations

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
from analysis.remedies.advice import Advice, advise, crossing_text, dynamic_lines, sentences
from analysis.remedies.net import Remedy
from analysis.remedies.standing import Standing
from analysis.report.data import RunData, load_run
from analysis.report.first_sentences import disturbance_of_run, failures, next_step
from analysis.report.page import make_reports
from analysis.report.paper import PaperFiles, write_for_paper
from analysis.report.words import case_and_arm, notes_of
from analysis.samples.pairs import rejection_kinds
from analysis.statistics.interval import Interval, ends_text, estimate_text
from nimc.cli import options
from nimc.cli.answer import Answer, Listing, answers, prose
from records.calls import RunCommands
from records.commands import Shell
from records.errors import InputError
from records.groups import grouped
from records.measured import heading_of, rewording
from records.notes import merged_concurrent_runs
from records.run import RunHeader
from records.units import plural


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@options.output_option("Folder to write to [default, for one run: RUN/report].", folder=True)
@click.option(
    "--pictures",
    type=options.OutputPath(folder=True),
    metavar="DIR",
    help="Write all pictures to DIR as SVG and PDF, in widths of columns of IEEE and ACM, with"
    " captions, and tables, as LaTeX.",
)
@answers(tables=True)
@options.force_option
@options.details_option
def report_command(
    runs: tuple[Path, ...], output: Path | None, pictures: Path | None, force: bool, details: bool
) -> Answer:
    """Write one self-contained HTML page a machine, and its data, from the folders of runs."""
    reports = make_reports(runs, output, force=force)
    parts: list[str | Listing] = []
    for report in reports:
        for run in report.runs:
            parts += [prose(run.header.run, bold=True), *_faults(run.integrity.lines())]
            parts += map(prose, run.unread_runs)
            parts += tables_of_run(run, details=details)
        parts.append(f"report: {report.page}")
    documents = [report.document() for report in reports]
    written = PaperFiles()
    if pictures:
        written = write_for_paper(pictures, [run for report in reports for run in report.runs])
        parts += [f"pictures: {pictures}", *(f"too wide: {path}" for path in written.unfit)]
    return Answer({"reports": documents, "pictures": list(map(str, written.files))}, parts)


def _faults(lines: Iterable[str]) -> list[str]:
    """Return what must not be overlooked."""
    return [prose(line, fg="red", bold=True) for line in lines]


# The effects of a run, as `nimc run` and `nimc report` print them.


#: Most reasons for rejections shown.
_REASONS = 8
_VERDICTS: dict[Verdict, str] = {
    Verdict.CONTENTION: "red",
    Verdict.SLOWER: "red",
    Verdict.SPEED_UP: "cyan",
    Verdict.NO_EFFECT: "green",
}
_EFFECTS = ("case", "slowdown, 95 %", "verdict", "off -> on", "pairs")
_SLOWDOWN = (
    "slowdown of the typical run, with its interval of 95 %; median run without -> with writers"
)
_BESIDE = (
    "standard deviations, baseline repeated, control, extra node-hours per 100 on average, rates of"
    " the writers"
)
#: Ratios that differ by less look alike.
_VISIBLE = 0.005
_CONTRASTS = ("case, level", "ratio, 95 %", "kind", "pairs")
_PRICES = (
    "price: time at the level / at the first level, without writers; "
    "gain: time at the first level / at the level, with writers"
)


def tables_of_run(run: RunData, *, details: bool = False) -> list[str | Listing]:
    """Return `results_tables` of a run, with commands for this shell."""
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
    """One line per effect, then caveats and what to do next; then prices and gains.

    What disturbed the run comes first among the caveats. Without rows, `failures` say why.

    Controls and repeated baselines are details; they are rows only in a case without effects.
    """
    effects = {row.case for row in rows if row.role == "effect"}
    shown = [row for row in rows if row.role == "effect" or row.case not in effects]
    if not shown:
        reasons = failures or ["only the arm 'off' was run"]
        return [f"no result: {reason}" for reason in reasons]
    step = next_step(rows, header, commands, pair_s)
    bounded = [row for row in shown if row.verdict is Verdict.NO_EFFECT]
    beside = [
        f"{case_and_arm(row)}: the interval covers the next allocation; the verdict rests on the"
        f" interval of these allocations, {ends_text(row.slowdown)}"
        for row in shown
        if row.next
    ]
    margins = [f"no effect: typical run within {row.margin * 100:.3g} %" for row in bounded]
    caveats = map(rewording(header), _notes(shown))
    effects_table = Listing(
        header=_EFFECTS,
        lines=list(map(_effect, shown)),
        notes=[
            *filter(None, [disturbance]),
            *beside,
            *_apart(shown),
            *margins,
            *caveats,
            *_rejections(shown),
        ],
        legend=_SLOWDOWN,
        more=_BESIDE,
        details=details,
        following=[] if contrasts else [step],
    )
    heading = heading_of(header)
    lines: list[str | Listing] = [f"{header.campaign}: {heading}"] if heading else []
    if not contrasts:
        return [*lines, effects_table]
    prices = Listing(
        header=_CONTRASTS,
        lines=list(map(_price, contrasts)),
        legend=_PRICES,
        details=details,
        following=[step],
    )
    return [*lines, effects_table, "", prices]


def _effect(row: Result) -> Line:
    divisor, unit = divisor_and_unit(row.off_median, row.unit)
    off, on = (
        NO_FIGURE if value is None else number(value / divisor, 3)
        for value in (row.off_median, row.on_median)
    )
    rejected = f", {row.rejected} rejected" if row.rejected else ""
    # Every verdict on emulated writes says so; what 'no effect' means is a note.
    named_so = row.verdict is Verdict.EMULATED
    emulated = row.emulated and not named_so and row.verdict_text.endswith("writes")
    written, alone = (
        quantity(rate, "B/s", 3) for rate in (row.writer_rate_b_s, row.writer_rate_alone_b_s)
    )
    parts = [
        case_and_arm(row),
        estimate_text(row.leading),
        f"{row.verdict}{', emulated' if emulated else ''}",
        f"{off} -> {on} {unit}",
        f"{plural(row.pairs, 'pair')}{rejected}",
    ]
    spreads = [
        NO_FIGURE if spread is None else f"{spread * 100:.1f} %"
        for spread in (row.off_spread, row.on_spread)
    ]
    details = [
        f"standard deviation of runs: {' -> '.join(spreads)}",
        f"baseline repeated: {ends_text(row.noise_floor)}; control: {ends_text(row.control)}",
        f"extra node-hours per 100, on average: {_cost(row)}",
        f"writers: {written}, alone {alone}",
    ]
    return Line(parts, details, _VERDICTS.get(row.verdict, "yellow"))


def _apart(rows: Sequence[Result]) -> list[str]:
    """Return why slowdown and medians disagree, with the rows in which they visibly do."""
    names = [case_and_arm(row) for row in rows if _disagree(row)]
    if not names:
        return []
    return [
        f"{', '.join(names)}: the slowdown and off -> on disagree: the slowdown compares the runs"
        " of each pair; off -> on are medians over all runs, which may drift"
    ]


def _disagree(row: Result) -> bool:
    """Return whether the ratio of medians lies outside the slowdown's interval, or across 1.

    Medians that look alike are not across 1, nor is half a per cent visible.
    """
    if not (row.slowdown and row.off_median and row.on_median):
        return False
    medians = row.on_median / row.off_median
    ratio = 1 / medians if row.better == "higher" else medians
    low, high = row.next or (row.slowdown.low, row.slowdown.high)
    least, most = sorted((ratio, row.slowdown.value))
    alike = number(row.off_median, 3) == number(row.on_median, 3)
    across = least < 1 < most and not alike and abs(row.slowdown.value - 1) > _VISIBLE
    return across or not low - _VISIBLE <= ratio <= high + _VISIBLE


def _cost(row: Result) -> str:
    if row.cost is None:
        return NO_FIGURE
    return f"{row.cost.value:.1f} [{row.cost.low:.1f}, {row.cost.high:.1f}]"


def _price(contrast: Contrast) -> Line:
    kind, pairs = f"{contrast.kind} against {contrast.against}", plural(contrast.pairs, "pair")
    parts = [f"{contrast.case} {contrast.treatment}", estimate_text(contrast.ratio), kind, pairs]
    return Line(parts, [f"baseline repeated: {ends_text(contrast.noise_floor)}"])


def _notes(rows: Sequence[Result]) -> list[str]:
    """Caveats, each once; those that not all cases have name the cases."""
    in_one = merged_concurrent_runs(note for row in rows for note in row.notes)
    alike = (replace(row, notes=list(map(in_one, row.notes))) for row in rows)
    cases = grouped((row.case, row) for row in alike)
    noted = grouped(
        (note, case) for case, case_rows in cases.items() for note in notes_of(case_rows)
    )
    return [
        note if len(names) == len(cases) else f"{', '.join(names)}: {note}"
        for note, names in noted.items()
    ]


def _rejections(rows: Sequence[Result]) -> list[str]:
    """Reasons for rejections by case."""
    lost: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        for run in row.rejections:
            lost.setdefault(row.case, {})[run["key"]] = (run["outcome"], run["reason"])
    reasons = [
        (case, kind) for case, runs in lost.items() for kind in rejection_kinds(runs.values())
    ]
    lines = [
        f"{case}: {kind.times} x {kind.outcome}{f': {kind.reason}' if kind.reason else ''}"
        for case, kind in reasons[:_REASONS]
    ]
    if len(reasons) > _REASONS:
        lines.append(f"and {len(reasons) - _REASONS} more reasons; the report has them all")
    return lines


# `nimc compare`: two sides of one night or several, of one machine or two.


_RUN = options.RunPath()
_COMPARISONS = ("figure", "ratio, 95 %", "change", "reference -> this", "adjusted p")
_RATIO = "ratio: above 1 is slower"


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_RUN, metavar="[RUN] RUN...")
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=_RUN,
    metavar="RUN",
    help="A night of the reference; once for each. Without it, the first of two RUNs.",
)
@options.output_option("Folder for a page, compare.html, and its data, compare.json.", folder=True)
@click.option(
    "--fail", is_flag=True, help="Exit with 1 if a figure is worse; not with too few nights."
)
@answers(tables=True)
@options.force_option
@options.details_option
def compare_command(
    runs: tuple[Path, ...],
    references: tuple[Path, ...],
    output: Path | None,
    fail: bool,
    force: bool,
    details: bool,
) -> Answer:
    """Compare nights with reference nights: slowdowns and times, and what differs between them.

    A ratio above 1 is worse. A run is a night. With several nights on both sides, a change is named
    if it exceeds how nights differ, judged over all rows and as far as neighbouring nights may
    correlate, which 30 nights with reports in the same folder show; seven a side are a good start.
    With one night on a side, no change is named.
    """
    references, runs = _sides(references, runs)
    reference, current = (
        [load_run(path, force=force) for path in side] for side in (references, runs)
    )
    results, _ = read_results({run.absolute().parent for run in (*references, *runs)})
    compared = compare_sides(reference, current, nights_of(results))
    if fail and compared.too_few_nights:
        raise InputError(f"--fail: {compared.too_few_nights} Give the reference's with --reference")
    page = write_page(output, compared) if output else None
    parts = [*comparison_parts(compared, details=details), *([f"page: {page}"] if page else [])]
    return Answer(compared.document(), parts, int(bool(fail and compared.worse)), schema=3)


def _sides(
    references: tuple[Path, ...], runs: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
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


def comparison_parts(compared: ComparedSides, *, details: bool = False) -> Iterator[str | Listing]:
    """The comparison: what differs, and a line for each quantity; with `details` all facts."""
    yield from _faults(text for run in compared.untrusted for text in run.lines())
    yield prose(f"{_named(compared.this)} against {_named(compared.reference)}", bold=True)
    for line in compared.first:
        yield prose(line, fg="yellow")
    for fact in compared.differing:
        yield prose(f"{fact.what} differs: {fact.reference} -> {fact.this}", fg="yellow")
    if compared.unknown:
        yield prose(f"not known of the nodes: {', '.join(compared.unknown)}", dim=True)
    yield ""
    others = [f"{fact.what}: {fact.reference} -> {fact.this}" for fact in compared.others]
    yield Listing(
        header=_COMPARISONS,
        lines=list(map(_comparison, compared.rows)),
        notes=[*compared.emulations, *(others if details else [])],
        legend=_RATIO,
        more="p adjusted over all rows, every night, and other facts of both sides",
        details=details,
        following=[compared.summary],
    )


def _named(side: Side) -> str:
    if len(side.runs) == 1:
        return side.header.run
    nights, header = plural(len(side.runs), "night"), side.header
    return f"{nights} of {header.campaign} on {header.machine}"


def _comparison(row: Comparison) -> Line:
    treatment = "" if row.arm in ("on", "off") else f" {row.arm}"
    unit = "" if row.metric == "slowdown" else row.unit
    divisor, scaled = divisor_and_unit(row.reference.value if row.reference else None, unit)
    sides = [
        number(estimate.value / divisor, 3) if estimate else NO_FIGURE
        for estimate in (row.reference, row.this)
    ]
    nights = {"reference": row.reference_nights, "this": row.this_nights}
    parts = [
        f"{row.case}{treatment} {METRICS[row.metric]}",
        estimate_text(row.ratio),
        row.text,
        f"{' -> '.join(sides)} {scaled}".rstrip(),
        "" if row.p_adjusted is None else f"p {row.p_adjusted:.2g}",
    ]
    details = [
        f"{name}: {', '.join(quantity(night, unit, 3).rstrip() for night in values)}"
        for name, values in nights.items()
        if values
    ]
    return Line(parts, details)


# `nimc advise`: which remedy, what it costs, what is not decided.


_COLOUR = {Standing.BETTER: "green", Standing.WORSE: "red"}
_REMEDIES = ("remedy", "net, 95 %", "standing", "price and gain")
_LEGEND = (
    "net: speed with / without the remedy at the share of traffic, above 1 is better; price: time"
    " with / without, off; gain: time without / with, on"
)
_MORE = "intervals of price and gain, that for the next allocation, the rate with / without"


@click.command()
@click.argument("runs", nargs=-1, required=True, type=options.RunPath(), metavar="RUN...")
@click.option(
    "--traffic-share",
    callback=options.share,
    metavar="SHARE",
    help="Share of time with traffic as measured: 0.3 or 30%. [default: all the time]",
)
@answers(tables=True)
@options.force_option
@options.details_option
def advise_command(
    runs: tuple[Path, ...], traffic_share: float | None, force: bool, details: bool
) -> Answer:
    """Say which remedy is worth its price on the machines of RUN..., and what is not decided.

    A remedy is recommended only if the whole interval of its net benefit in the next allocation is
    on the better side, over all remedies tried, and never from emulated traffic. What costs
    something without traffic needs a --traffic-share, which is an assumption about the machine;
    nothing of it is measured.
    """
    loaded = [load_run(path, force=force) for path in dict.fromkeys(runs)]
    runs_by_machine = grouped((run.header.machine, run) for run in loaded)
    advice_by_machine = {
        machine: advise(group, traffic_share) for machine, group in runs_by_machine.items()
    }
    documents = [advice.as_dict() for advice in advice_by_machine.values()]
    faults = {str(run.path): run.integrity.faults for run in loaded if run.integrity.faults}
    parts: list[str | Listing] = []
    for machine, advice in advice_by_machine.items():
        parts.append(prose(machine, bold=True))
        parts += _faults(line for run in runs_by_machine[machine] for line in run.integrity.lines())
        parts.append(_advice(advice, details=details))
    return Answer({"advice": documents, "integrity_faults": faults}, parts, schema=4)


def _advice(advice: Advice, *, details: bool) -> Listing:
    notes = dict.fromkeys(note for row in advice.losses for note in row["emulated"])
    sweeps = [text for row in advice.sweeps for text in _sweep(row)]
    return Listing(
        header=_REMEDIES,
        lines=list(map(_remedy, advice.remedies)),
        notes=[*sweeps, *dynamic_lines(advice), *notes],
        legend=_LEGEND,
        more=_MORE,
        details=details,
        following=sentences(advice),
    )


def _remedy(row: Remedy) -> Line:
    traffic = "" if row["traffic"] == "on" else f" under {row['traffic']}"
    marks = [*([] if row["paired"] else ["unpaired"]), *(["emulated"] if row["emulated"] else [])]
    estimates = {name: estimate_of(row, name) for name in ("net", "price", "gain", "written")}
    shown = {name: estimate_text(estimate) for name, estimate in estimates.items()}
    price_and_gain = ((name, estimates[name]) for name in ("price", "gain"))
    low, high = (row[f"next_allocation_{end}"] for end in ("low", "high"))
    following = None if low is None else Interval(low, high)
    parts = [
        f"{row['case']} {row['remedy']}{traffic}",
        shown["net"],
        ", ".join([row["standing"], *marks]),
        " ".join(f"{name} {estimate.value:.2f}" for name, estimate in price_and_gain if estimate),
    ]
    details = [
        f"price: {shown['price']}; gain: {shown['gain']}",
        f"next allocation: {ends_text(following)}; writes: {shown['written']}",
    ]
    return Line(parts, details, _COLOUR.get(row["standing"], "yellow"))


def _sweep(row: Mapping[str, Any]) -> list[str]:
    """Loss per byte written, and the crossover, of a sweep."""
    if row["slope"] is None:
        return []
    begin = ", ".join(filter(None, (row["case"], row["at"])))
    if row["word"] != "yes":
        return [f"{begin}: the loss is curved, so no line gives a loss per byte"]
    # A relative loss is in per cent for each GB/s written.
    factor, unit = (1.0, "B/s per B/s") if row["bandwidth"] else (1e11, "% per GB/s")
    figures = (row[f"slope{end}"] * factor for end in ("", "_low", "_high"))
    value, low, high = (number(figure, 3) for figure in figures)
    text = f"{begin}: lost per byte written {value} [{low}, {high}] {unit}"
    if row["reserved"] is not None:
        crossover = crossing_text(row, "crossover_b_s", "B/s")
        text += f"; equals the price of reserved_cores={row['reserved']:g}: {crossover}"
    return [text]
