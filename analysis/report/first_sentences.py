"""The first sentences of a run: the headline, what was measured and lost, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import polars as pl

from analysis.display.figures import quantity
from analysis.display.lines import duration as spent
from analysis.effects.power import MAX_PAIRS, pairs_to_decide
from analysis.effects.result import Result, Verdict
from analysis.report.data import RunData
from analysis.report.sentences import REDUCE_SCATTER, SENTENCES, WEIGH_REMEDIES
from analysis.report.words import case_and_arm, traffic_words, utc_text
from analysis.samples.provenance import all_hosts
from analysis.statistics.evidence import pairs_of_next_interim
from analysis.statistics.interval import ends_text, estimate_text
from records.acceptance import AcceptanceLimits
from records.arms import arm_and_levels, arm_of
from records.calls import RunCommands
from records.commands import Shell
from records.measured import rewording
from records.notes import Note, remedy_of
from records.run import RunHeader
from records.text import first_names
from records.units import plural

#: Most cases named in one sentence.
_NAMED = 4


#: Remedies of notes on rejected runs.
_DOUBTS = {Note.FIRST_ATTEMPTS.remedy, Note.MANY_REJECTED.remedy}


def summary(run: RunData, shell: Shell | None = None) -> list[str]:
    """The first sentences on a run: what disturbed it and was measured, is lost, what to do next.

    The commands in them are for this `shell`.
    """
    if run.samples.is_empty():
        return ["Nothing was measured: the run has no samples."]
    effects = [row for row in run.results if row.role == "effect"]
    step = next_step(run.results, run.header, run.commands(shell), run.pair_s, failures(run))
    texts = [_measured(run), _lost(effects)]
    return [*filter(None, [disturbance_of_run(run)]), *map(run.reword, texts), step]


def _measured(run: RunData) -> str:
    header = run.header
    samples = run.samples
    earlier = run.count_earlier_runs()
    missing = unmeasured_cases(run.results, header)
    cases = [case for case in samples["case"].unique(maintain_order=True) if case not in missing]
    nodes = {name for names in samples["nodes"].unique() for name in str(names).split(",")}
    rejected = samples.filter(status="rejected").height
    end = "; the run is not finished" if run.ended_s is None else f" to {utc_text(run.ended_s)}"
    warned = dict.fromkeys(
        row.case
        for row in run.results
        if row.case not in missing and _DOUBTS & {*map(remedy_of, row.notes)}
    )
    text = (
        f"Measured: {first_names(cases, _NAMED) or 'nothing'} on {plural(len(nodes), 'node')} of "
        f"{header.machine}, {plural(samples.height, 'run')}, {rejected or 'none'} rejected, from "
        f"{utc_text(header.started_s)}{end}."
    )
    if missing:
        text += f" Not measured: {first_names(missing, _NAMED)}."
    if warned:
        text += (
            f" Rejected runs put {first_names(warned, _NAMED)} in doubt: see the warnings below."
        )
    if earlier:
        runs = plural(earlier, "earlier run")
        text += f" Beside it: {runs} of the same campaign; verdicts hold for one, not the best."
    return text


def _lost(effects: Sequence[Result]) -> str:
    """Node-hours lost, of every effect whose verdict carries a loss; from the means."""
    slower = sorted(
        (row for row in effects if row.verdict.is_loss),
        key=lambda row: row.mean.value if row.mean else 0.0,
        reverse=True,
    )
    shown = "; ".join(_loss(row) for row in slower[:_NAMED])
    if len(slower) > _NAMED:
        shown += f"; the table has {len(slower) - _NAMED} more"
    none = [row for row in effects if row.verdict is Verdict.NO_EFFECT]
    ruled_out = ""
    if none:
        below = max(row.margin for row in none) * 100
        cases = first_names([case_and_arm(row) for row in none], _NAMED)
        ruled_out = f"; for the typical run {below:.3g} % or more is ruled out for {cases}"
    if not shown:
        return f"Lost: no verdict shows a loss of node-hours{ruled_out}."
    return f"Lost: work of 100 node-hours takes on average {shown}{ruled_out}."


def _loss(row: Result) -> str:
    cost = row.cost
    assert cost
    ends = f"{cost.low:.1f} to {cost.high:.1f}"
    if cost.low < 0:
        pairs = plural(row.pairs, "pair")
        ends = f"{-cost.low:.1f} fewer to {cost.high:.1f} more"
        ends += f"; {pairs} do not show the mean more closely"
    traffic = f"{'emulated ' if row.emulated else ''}{traffic_words(row.direction)[0]}"
    rate = quantity(row.writer_rate_b_s, "B/s", 3)
    return f"{cost.value:.1f} more ({ends}) in {case_and_arm(row)} under {traffic} at {rate}"


#: Most effects of the headline.
_HEADED = 3


def _interval_of_these(row: Result) -> str:
    """Return the interval of the allocations measured, where that of the next one stands first."""
    return f" (these allocations: {ends_text(row.slowdown)})" if row.next else ""


def headline(effects: Sequence[Result]) -> str:
    """Return what was measured in a sentence: the slowdown of the typical run with its interval."""
    shown = [row for row in effects if row.slowdown]
    if not shown:
        return "No slowdown was measured: too few pairs." if effects else ""
    slower = [row for row in shown if row.verdict.is_loss]
    chosen = slower or [row for row in shown if row.verdict in _BY_CORES] or shown
    begin, said_of = _begin(chosen)
    rows = sorted(chosen, key=lambda row: -row.slowdown.value if row.slowdown else 0.0)
    texts = [
        f"{case_and_arm(row)} takes {estimate_text(row.leading)} times as long"
        f"{_interval_of_these(row)}{'' if row.verdict in said_of else f' ({row.verdict})'}"
        for row in rows[:_HEADED]
    ]
    more = [f"{len(rows) - _HEADED} more below"] if len(rows) > _HEADED else []
    return f"{_unsteady(rows)}{begin}: {', '.join([*texts, *more])}."


def _unsteady(rows: Sequence[Result]) -> str:
    """Return that the baseline repeats itself less well than these effects are large, if so."""
    hidden = [row for row in rows if row.verdict is not Verdict.NO_EFFECT and _is_hidden(row)]
    if not hidden:
        return ""
    cases = (
        "" if len(hidden) == len(rows) else f" of {first_names(map(case_and_arm, hidden), _HEADED)}"
    )
    return f"The baseline{cases} varies by more than the effect. "


def _is_hidden(row: Result) -> bool:
    """Return whether the baseline's repeatability reaches further from 1 than the effect."""
    floor, effect = row.noise_floor, row.slowdown
    if not floor or not effect:
        return False
    return abs(effect.value - 1) < max(abs(floor.low - 1), abs(floor.high - 1))


#: Verdicts on runs that are slower, which a lost core may explain.
_BY_CORES = {Verdict.NO_CONTROL, Verdict.NOT_ABOVE_CONTROL}


def _begin(rows: Sequence[Result]) -> tuple[str, set[Verdict]]:
    """Return how the headline of these rows begins, and the verdicts that these words stand for."""
    traffic = " and ".join(dict.fromkeys(traffic_words(row.direction)[0] for row in rows))
    verdicts = {row.verdict for row in rows}
    if verdicts == {Verdict.CONTENTION}:
        return f"Memory contention under network {traffic}", verdicts
    if all(verdict.is_loss for verdict in verdicts):
        return f"Slower under network {traffic}", verdicts - {Verdict.CONTENTION}
    if verdicts == {Verdict.NO_EFFECT}:
        return f"No effect of network {traffic}", verdicts
    if verdicts == {Verdict.SPEED_UP}:
        return f"Faster under network {traffic}", verdicts
    if verdicts <= _BY_CORES:
        return "Slower, but lost cores may explain it", set()
    if all(verdict.is_not_compared for verdict in verdicts):
        return "No verdict yet", set()
    return "No slowdown is shown", set()


def unmeasured_cases(rows: Sequence[Result], header: RunHeader) -> list[str]:
    """Cases whose effects were requested although none of their pairs counts."""
    paired = {row.case for row in rows if row.pairs}
    return [
        case
        for case, arms in header.asked.cases.items()
        if case not in paired and any(arm_of(arm).role == "effect" for arm in arms)
    ]


def next_step(
    rows: Sequence[Result],
    header: RunHeader,
    commands: RunCommands,
    pair_s: Mapping[str, float] | None = None,
    failures: Sequence[str] = (),
) -> str:
    """Return what the first open verdict needs, with the command that does it and its price.

    `pair_s`: how long a pair of each case took; `failures`: cases of which no run counts, and why.
    """
    pair_s = pair_s or {}
    if header.reproduces and header.finished_s is not None:
        return f"Next: nothing; it has repeated the pairs of {header.reproduces.run}."
    effects = [row for row in rows if row.role == "effect"]
    row_of = {row.verdict: row for row in reversed(effects)}
    for verdict in SENTENCES:
        row = row_of.get(verdict)
        if row is not None and (do := _do(row, effects, header)):
            advice = rewording(header)(do).format(
                fresh=commands.resume("--fresh"),
                throttling=commands.shipped_campaign("run", "throttling"),
                plan=commands.shipped_campaign("plan", "throttling"),
                advise=commands.advise(),
                more=_more(row, rows, header, commands, pair_s),
                most=MAX_PAIRS,
            )
            return f"Next: {advice} ({case_and_arm(row)}: {verdict})."
    if failures:
        again = commands.resume(*(["--fresh"] if header.finished_s else []))
        return f"Next: mend what fails ({failures[0]}), then `{again}`."
    if unmeasured_cases(rows, header):
        return "Next: see why runs under writes were rejected; none of them counts."
    return "Next: measure an arm with writers; this run has none."


def _do(row: Result, effects: Sequence[Result], header: RunHeader) -> str:
    """Return what to do about a verdict, where other facts of the run may change it."""
    verdict, do = row.verdict, SENTENCES[row.verdict].do
    if _is_undecided(row):
        hopeless = header.finished_s is not None and pairs_to_decide(row) is None
        return REDUCE_SCATTER if hopeless else SENTENCES[Verdict.INCONCLUSIVE].do
    if verdict is Verdict.TOO_FEW_PAIRS and row.rejected:
        return f"see why {plural(row.rejected, 'run')} did not count, then {do}"
    if verdict is Verdict.SLOWER and Note.UNPROVEN.remedy in map(remedy_of, row.notes):
        return f"prove the writes: {Note.UNPROVEN.remedy}"
    if verdict is Verdict.CONTENTION and any(_is_remedy(effect) for effect in effects):
        return WEIGH_REMEDIES
    return do


def _is_undecided(row: Result) -> bool:
    """Return whether a row has an estimate, and more pairs may decide it."""
    beyond = row.verdict is Verdict.NOT_ABOVE_CONTROL and row.above_control_alone
    return row.slowdown is not None and (row.verdict is Verdict.INCONCLUSIVE or beyond)


def _is_remedy(row: Result) -> bool:
    """Return whether a row is of slower writers, or of another level of the application."""
    return "rate" in arm_and_levels(row.arm)[1] or bool(arm_and_levels(row.baseline)[1])


def _more(
    row: Result,
    rows: Sequence[Result],
    header: RunHeader,
    commands: RunCommands,
    pair_s: Mapping[str, float],
) -> str:
    """The command that measures more pairs of a row, and how long it takes.

    They are those that decide it in 90 % of runs, if it is `_is_undecided`. A finished run goes on
    up to its cap or more, and to no fewer pairs than any of its rows has.
    """
    if header.finished_s is None:
        return f"`{commands.resume()}`, which resumes this run"
    measured = max(result.pairs for result in rows)
    needed = (pairs_to_decide(row) or 0) if _is_undecided(row) else 0
    pairs = pairs_of_next_interim(max(row.pairs + 1, measured, header.max_pairs, needed))
    undecided = {result.case: result.pairs for result in rows if result.verdict.needs_pairs}
    takes_s = sum((pairs - had) * pair_s.get(case, 0.0) for case, had in undecided.items())
    about = f", about {spent(takes_s)}" if takes_s else ""
    fewer = (
        ", fewer if the machine is quieter" if needed > pairs_of_next_interim(row.pairs + 1) else ""
    )
    return f"`{commands.resume('--pairs', str(pairs))}`{about}{fewer}"


def failures(run: RunData) -> list[str]:
    """Return each case of which no run counts, with the reason of its last run."""
    texts = []
    for (case,), runs in run.samples.group_by("case", maintain_order=True):
        if (
            runs.filter(status="counts").is_empty()
            and (reason := runs["reason"].drop_nulls()).len()
        ):
            number = plural(runs.height, "run")
            texts.append(f"{case}: none of {number} counts, the last: {run.reword(reason[-1])}")
    return texts


def disturbance_of_run(run: RunData) -> str:
    """Return what disturbed a run, in the words of the command that made it; empty if nothing."""
    hosts = all_hosts(run.provenance.values())
    return run.reword(disturbance(run.samples, [host.get("threads") for host in hosts]))


def disturbance(samples: pl.DataFrame, threads: Sequence[object]) -> str:
    """Return what disturbed the runs that count beyond the usual limits; empty if nothing did.

    `threads` are the numbers of hardware threads of the nodes.
    """
    counted = samples.filter(status="counts")
    usual = AcceptanceLimits()
    causes = []
    foreign, steal = (counted[name].drop_nulls() for name in ("foreign_cpus", "steal_share"))
    if len(foreign) and median(foreign) > (usual.foreign_cpus or 0):
        total = f"of {threads[0]} " if len(set(threads)) == 1 and threads[0] else ""
        causes.append(
            f"other programs kept {median(foreign):.1f} {total}hardware threads busy in the median"
            f" run, {max(foreign):.1f} at most"
        )
    if len(steal) and median(steal) > (usual.steal_share or 0):
        causes.append(
            f"the hypervisor took {median(steal):.1%} of the processor time in the median run"
        )
    return (
        f"Disturbed: {' and '.join(causes)}; this campaign rejects no run for it." if causes else ""
    )
