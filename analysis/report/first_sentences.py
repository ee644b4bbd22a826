"""The first sentences of a run: the headline, what was measured and lost, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import polars as pl

from analysis.display.figures import quantity
from analysis.display.lines import duration
from analysis.effects.power import MAX_PAIRS, pairs_to_decide
from analysis.effects.result import Result, Verdict
from analysis.report.data import RunData
from analysis.report.sentences import REDUCE_SCATTER, SENTENCES, WEIGH_REMEDIES
from analysis.report.words import case_and_arm, changed_factors, traffic_words, utc_text
from analysis.samples.provenance import all_hosts
from analysis.statistics.evidence import pairs_of_next_interim
from analysis.statistics.interval import ends_text, estimate_text
from records.acceptance import AcceptanceLimits
from records.arms import arm_and_levels, arm_of
from records.calls import RunCommands
from records.commands import Shell
from records.groups import grouped
from records.measured import rewording
from records.notes import Note, remedy_of
from records.run import RunHeader
from records.text import first_names
from records.units import percentage, plural

#: Maximum number of cases named in one sentence.
_MAX_NAMED = 4
#: Remedies of the notes which say that rejected runs put a case in doubt.
_DOUBTFUL_REMEDIES = {Note.FIRST_ATTEMPTS.remedy, Note.MANY_REJECTED.remedy}


def summary(run: RunData, shell: Shell | None = None) -> list[str]:
    """Return intervals, what disturbed a run, what was measured and lost, and what to do next.

    The commands in these sentences are for `shell`.
    """
    if run.samples.is_empty():
        return [f"Nothing was measured: {text}." for text in failures(run)]
    effects = [row for row in run.results if row.role == "effect"]
    step = next_step(run.results, run.header, run.commands(shell), run.pair_s, failures(run))
    texts = [_measured_sentence(run), _lost_sentence(effects)]
    failed = [f"Failed: {text}." for text in failed_cases(run)]
    first_texts = [_measured_intervals_text(effects), disturbance_of_run(run)]
    return [*filter(None, first_texts), *map(run.reword, texts), *failed, step]


def _measured_sentence(run: RunData) -> str:
    """What was measured, where and when; which cases were not measured, or are in doubt."""
    header = run.header
    samples = run.samples
    earlier_count = run.count_earlier_runs()
    unmeasured = unmeasured_cases(run.results, header)
    cases = [case for case in samples["case"].unique(maintain_order=True) if case not in unmeasured]
    nodes = {name for names in samples["nodes"].unique() for name in str(names).split(",")}
    rejected_count = samples.filter(status="rejected").height
    end_text = (
        "; the run is not finished" if run.ended_s is None else f" to {utc_text(run.ended_s)}"
    )
    doubtful_cases = dict.fromkeys(
        row.case
        for row in run.results
        if row.case not in unmeasured and _DOUBTFUL_REMEDIES & {*map(remedy_of, row.notes)}
    )
    measured_cases = first_names(cases, _MAX_NAMED) or "nothing"
    text = (
        f"Measured: {measured_cases} on {plural(len(nodes), 'node')} of {header.machine},"
        f" {plural(samples.height, 'run')}, {rejected_count or 'none'} rejected, from"
        f" {utc_text(header.started_s)}{end_text}."
    )
    if unmeasured:
        text += f" Not measured: {first_names(unmeasured, _MAX_NAMED)}."
    if doubtful_cases:
        cases_text = first_names(doubtful_cases, _MAX_NAMED)
        text += f" Rejected runs put {cases_text} in doubt: see the warnings below."
    if earlier_count:
        runs = plural(earlier_count, "earlier run")
        text += (
            f" Beside it: {runs} of the same campaign; verdicts hold for a single run, not for the"
            " best of several."
        )
    return text


def _lost_sentence(effects: Sequence[Result]) -> str:
    """The additional node-hours of each effect whose verdict is a loss, from mean times."""
    losses = sorted(
        (row for row in effects if row.verdict.is_loss),
        key=lambda row: row.mean.value if row.mean else 0.0,
        reverse=True,
    )
    losses_text = "; ".join(_loss_text(row) for row in losses[:_MAX_NAMED])
    if len(losses) > _MAX_NAMED:
        losses_text += f"; the table has {len(losses) - _MAX_NAMED} more"
    no_effects = [row for row in effects if row.verdict is Verdict.NO_EFFECT]
    ruled_out = ""
    if no_effects:
        margin = max(row.margin for row in no_effects)
        cases = first_names([case_and_arm(row) for row in no_effects], _MAX_NAMED)
        ruled_out = (
            f"; for the typical run {percentage(margin, '.3g')} or more is ruled out for {cases}"
        )
    if not losses_text:
        return f"Lost: no verdict shows a loss of node-hours{ruled_out}."
    return f"Lost: work of 100 node-hours takes on average {losses_text}{ruled_out}."


def _loss_text(row: Result) -> str:
    cost = row.cost
    assert cost
    if cost.low < 0:
        interval = f"{-cost.low:.1f} fewer to {cost.high:.1f} more"
        interval += f"; {plural(row.pairs, 'pair')} do not determine the mean more precisely"
    else:
        interval = f"{cost.low:.1f} to {cost.high:.1f}"
    traffic = f"{'emulated ' if row.emulated else ''}{traffic_words(row.direction).noun}"
    rate = quantity(row.writer_rate_b_s, "B/s", 3)
    return f"{cost.value:.1f} more ({interval}) in {case_and_arm(row)} under {traffic} at {rate}"


#: Maximum number of effects that the headline names.
_MAX_IN_HEADLINE = 3


def _headline_rows(effects: Sequence[Result]) -> list[Result]:
    """Return the effects of the headline, the slowest first; empty if there is no slowdown."""
    estimated = [row for row in effects if row.slowdown]
    losses = [row for row in estimated if row.verdict.is_loss]
    lost_core_rows = [row for row in estimated if row.verdict in _LOST_CORE_VERDICTS]
    rows = losses or lost_core_rows or estimated
    return sorted(rows, key=lambda row: -row.slowdown.value if row.slowdown else 0.0)


def _measured_intervals_text(effects: Sequence[Result]) -> str:
    """Return a sentence with the intervals of the allocations measured, below the headline.

    The text is empty if the headline has these intervals itself, since no effect that it names has
    an interval of the next allocation.
    """
    rows = _headline_rows(effects)[:_MAX_IN_HEADLINE]
    intervals = [f"{case_and_arm(row)} {ends_text(row.slowdown)}" for row in rows if row.next]
    if not intervals:
        return ""
    return (
        "Intervals: those above are for the next allocation. The verdict rests on the interval of"
        f" the allocations measured: {', '.join(intervals)}."
    )


def headline(effects: Sequence[Result]) -> str:
    """Return a sentence on what was measured: slowdowns of the typical run with intervals."""
    rows = _headline_rows(effects)
    if not rows:
        return "No slowdown was measured: too few pairs." if effects else ""
    opening, named_verdicts = _headline_opening(rows)
    texts = [
        f"{case_and_arm(row)} takes {estimate_text(row.leading_estimate)} times as long"
        + ("" if row.verdict in named_verdicts else f" ({row.verdict})")
        for row in rows[:_MAX_IN_HEADLINE]
    ]
    more = [f"{len(rows) - _MAX_IN_HEADLINE} more below"] if len(rows) > _MAX_IN_HEADLINE else []
    return f"{_unsteady_text(rows)}{opening}: {', '.join([*texts, *more])}."


def _unsteady_text(rows: Sequence[Result]) -> str:
    """Return a sentence on effects that are smaller than the variation of their baseline.

    It is empty if there are none.
    """
    hidden_effects = [
        row for row in rows if row.verdict is not Verdict.NO_EFFECT and _is_hidden_by_baseline(row)
    ]
    if not hidden_effects:
        return ""
    cases_text = ""
    if len(hidden_effects) < len(rows):
        cases_text = f" of {first_names(map(case_and_arm, hidden_effects), _MAX_IN_HEADLINE)}"
    return f"The baseline{cases_text} varies by more than the effect. "


def _is_hidden_by_baseline(row: Result) -> bool:
    """Return whether the repeated baseline's interval reaches further from 1 than the effect."""
    repeatability, effect = row.noise_floor, row.slowdown
    if not repeatability or not effect:
        return False
    return abs(effect.value - 1) < max(abs(repeatability.low - 1), abs(repeatability.high - 1))


#: Verdicts on slower runs for which lost cores may be the reason: processes other than the
#: application keep these cores busy.
_LOST_CORE_VERDICTS = {Verdict.NO_CONTROL, Verdict.NOT_ABOVE_CONTROL}


def _headline_opening(rows: Sequence[Result]) -> tuple[str, set[Verdict]]:
    """Return the opening words of the headline of these rows, and the verdicts they express."""
    traffic = " and ".join(dict.fromkeys(traffic_words(row.direction).noun for row in rows))
    verdicts = {row.verdict for row in rows}
    if verdicts == {Verdict.CONTENTION}:
        return f"Memory contention under network {traffic}", verdicts
    if all(verdict.is_loss for verdict in verdicts):
        return f"Slower under network {traffic}", verdicts - {Verdict.CONTENTION}
    if verdicts == {Verdict.NO_EFFECT}:
        return f"No effect of network {traffic}", verdicts
    if verdicts == {Verdict.SPEED_UP}:
        return f"Faster under network {traffic}", verdicts
    if verdicts <= _LOST_CORE_VERDICTS:
        return "Slower, but lost cores may explain it", set()
    if all(verdict.allows_no_statement for verdict in verdicts):
        return "No verdict yet", set()
    return "No slowdown is shown", set()


def unmeasured_cases(rows: Sequence[Result], header: RunHeader) -> list[str]:
    """Cases for which effects were requested, but of which no pair counts."""
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
    """Return what to do about the first verdict in the order of `SENTENCES`, with its command.

    `pair_s`: case -> mean time of a pair. `failures`: a text for each case in which no run counts.
    """
    pair_s = pair_s or {}
    if header.reproduces:
        if header.finished_s is not None:
            return f"Next: nothing; it has repeated the pairs of {header.reproduces.run}."
        if commands.shell is None:  # a crate, which is read on other hosts
            return f"Next: nothing; it has repeated some pairs of {header.reproduces.run}."
        return f"Next: `{commands.resume()}`, to repeat the other pairs of {header.reproduces.run}."
    effects = [row for row in rows if row.role == "effect"]
    first_row_by_verdict = {row.verdict: row for row in reversed(effects)}
    for verdict in SENTENCES:
        row = first_row_by_verdict.get(verdict)
        action = _action(row, effects, header) if row else ""
        if row and action:
            advice = rewording(header)(action).format(
                fresh=commands.resume("--fresh"),
                throttling=commands.throttling("run"),
                plan=commands.throttling("plan"),
                advise=commands.advise(),
                more=_more_pairs_text(row, rows, header, commands, pair_s),
                most=MAX_PAIRS,
            )
            return f"Next: {advice} ({case_and_arm(row)}: {verdict})."
    if failures:
        options = ["--fresh"] if header.finished_s else []
        return f"Next: mend what fails ({failures[0]}), then `{commands.resume(*options)}`."
    if unmeasured_cases(rows, header):
        return "Next: see why runs under writes were rejected; none of them counts."
    return "Next: measure an arm with writers; this run has none."


def _action(row: Result, effects: Sequence[Result], header: RunHeader) -> str:
    """Return what to do about a verdict, which also depends on other facts of the run."""
    verdict, action = row.verdict, SENTENCES[row.verdict].action
    if _is_undecided(row):
        is_hopeless = header.finished_s is not None and pairs_to_decide(row) is None
        return REDUCE_SCATTER if is_hopeless else SENTENCES[Verdict.INCONCLUSIVE].action
    if verdict is Verdict.TOO_FEW_PAIRS and row.rejected:
        return f"see why {plural(row.rejected, 'run')} did not count, then {action}"
    if verdict is Verdict.SLOWER and Note.UNPROVEN.remedy in map(remedy_of, row.notes):
        return f"prove the writes: {Note.UNPROVEN.remedy}"
    if verdict is Verdict.CONTENTION and _have_remedies(effects):
        return WEIGH_REMEDIES
    return action


def _is_undecided(row: Result) -> bool:
    """Return whether a row has an estimate, and more pairs may decide it."""
    if row.slowdown is None:
        return False
    may_exceed_control = row.verdict is Verdict.NOT_ABOVE_CONTROL and row.interval_exceeds_control
    return row.verdict is Verdict.INCONCLUSIVE or may_exceed_control


def _have_remedies(effects: Sequence[Result]) -> bool:
    """Return whether an effect has writers at a lower rate, or the application at another level."""
    changed = changed_factors((row.case, row.arm) for row in effects)
    return any("rate" in factors for factors in changed.values()) or any(
        arm_and_levels(row.baseline).levels for row in effects
    )


def _more_pairs_text(
    row: Result,
    rows: Sequence[Result],
    header: RunHeader,
    commands: RunCommands,
    pair_s: Mapping[str, float],
) -> str:
    """The command that measures more pairs of a row, and how long it takes.

    An unfinished run is resumed. A finished run is continued to the first interim analysis that has
    more pairs than the row, and at least as many pairs as the cap and as every row. If
    `_is_undecided` is true for the row, this analysis also has enough pairs to decide the row in
    90 % of runs of the campaign.
    """
    if header.finished_s is None:
        return f"`{commands.resume()}`, which resumes this run"
    most_measured = max(result.pairs for result in rows)
    needed = (pairs_to_decide(row) or 0) if _is_undecided(row) else 0
    pairs = pairs_of_next_interim(max(row.pairs + 1, most_measured, header.max_pairs, needed))
    measured_pairs = _measured_pairs_of_undecided(rows)
    additional_s = sum(
        (pairs - measured) * pair_s.get(case, 0.0) for case, measured in measured_pairs.items()
    )
    time_text = f", about {duration(additional_s)}" if additional_s else ""
    fewer_text = (
        ", fewer if the machine is quieter" if needed > pairs_of_next_interim(row.pairs + 1) else ""
    )
    return f"`{commands.resume('--pairs', str(pairs))}`{time_text}{fewer_text}"


def _measured_pairs_of_undecided(rows: Sequence[Result]) -> dict[str, int]:
    """Case with an undecided effect -> the number of its pairs that count.

    It is taken from the treatment with the fewest pairs, as in a session that measures more pairs.
    Controls are left out, since a session does not measure the other treatments beyond the cap if
    only a control lacks pairs.
    """
    rows_of_cases = grouped((row.case, row) for row in rows)
    return {
        case: min(row.pairs for row in case_rows if row.role != "control")
        for case, case_rows in rows_of_cases.items()
        if any(row.verdict.needs_pairs for row in case_rows)
    }


def failed_cases(run: RunData) -> list[str]:
    """Return a text for each reason why cases without samples could not be measured."""
    measured = set(run.samples["case"].cast(pl.String).unique())
    cases_by_reason = grouped(
        (reason, case) for case, reason in run.failures.items() if case not in measured
    )
    return [f"{', '.join(cases)}: {reason}" for reason, cases in cases_by_reason.items()]


def failures(run: RunData) -> list[str]:
    """Return the texts of `failed_cases`, and one for each other case in which no run counts.

    The latter has the reason of the case's last run. If the run has no samples, and no reason is
    stored, a text says so.
    """
    texts = failed_cases(run)
    if run.samples.is_empty():
        return texts or ["the run has no samples"]
    for (case,), runs in run.samples.group_by("case", maintain_order=True):
        reasons = runs["reason"].drop_nulls()
        if runs.filter(status="counts").is_empty() and len(reasons):
            run_count = plural(runs.height, "run")
            texts.append(f"{case}: none of {run_count} counts, the last: {run.reword(reasons[-1])}")
    return texts


def disturbance_of_run(run: RunData) -> str:
    """Return what disturbed a run, worded for the command that made it; empty if nothing did."""
    hosts = all_hosts(run.provenance.values())
    return run.reword(disturbance(run.samples, [host.get("threads") for host in hosts]))


def disturbance(samples: pl.DataFrame, thread_counts: Sequence[object]) -> str:
    """Return a sentence on the disturbances of the runs that count; empty if there are none.

    A disturbance is named if its median over these runs exceeds the default limit. Such runs count
    only if the campaign has a higher limit, or none. `thread_counts` has the number of hardware
    threads of each node, or None if it is unknown.
    """
    counted_runs = samples.filter(status="counts")
    limits = AcceptanceLimits()
    disturbances = []
    foreign_cpus = counted_runs["foreign_cpus"].drop_nulls()
    steal_shares = counted_runs["steal_share"].drop_nulls()
    if len(foreign_cpus) and median(foreign_cpus) > (limits.foreign_cpus or 0):
        is_same_known = len(set(thread_counts)) == 1 and thread_counts[0]
        total_text = f"of {thread_counts[0]} " if is_same_known else ""
        disturbances.append(
            f"other programs kept {median(foreign_cpus):.1f} {total_text}hardware threads busy"
            f" in the median run, {max(foreign_cpus):.1f} at most"
        )
    if len(steal_shares) and median(steal_shares) > (limits.steal_share or 0):
        share = percentage(median(steal_shares), ".1f")
        disturbances.append(f"the hypervisor took {share} of the processor time in the median run")
    if not disturbances:
        return ""
    return f"Disturbed: {' and '.join(disturbances)}; this campaign accepts such runs."
