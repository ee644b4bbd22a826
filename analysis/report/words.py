"""Sentences and labels of the report."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from analysis.effects.result import Result, Verdict
from analysis.report.sentences import MEANING, SENTENCES, WEIGH
from analysis.samples.columns import MOST
from analysis.statistics.interval import FEWEST, Estimate, Interval, bracketed, ends
from analysis.statistics.looks import next_look, unseen
from records.acceptance import AcceptanceLimits
from records.arms import arm_of, parts_of
from records.calls import RunCommands
from records.groups import grouped
from records.notes import Note, remedy_of
from records.run import RunHeader
from records.text import duration as spent
from records.text import some
from records.units import SECONDS, plural, quantity

#: Outcome of a run that does not count -> its meaning.
OUTCOMES = {
    "rejected": "The application ran, but not under the required conditions.",
    "injector_never_ready": "The writers did not reach their rate.",
    "injector_died": "A writer ended while the application ran.",
    "application_failed": "The application ended with an error.",
    "application_hung": "The application did not end in time.",
    "no_fom": "The application's output has no figure of merit.",
    "kept": "Recorded as accepted, but no writer wrote.",
}


#: Between the ends of an interval, and for what is not known.
DASH = "\u2013"


def ratio(of: Estimate | None, following: Interval | None = None) -> dict[str, str]:
    """A ratio and its interval, for templates; that of the `following` allocation leads."""
    if of is None:
        return {"value": DASH, "interval": "", "beside": ""}
    shown = ends(following or of).replace("-", DASH)
    measured = f"these: {ends(of).replace('-', DASH)}" if following else ""
    return {"value": f"{of.value:.3f}", "interval": shown, "beside": measured}


def with_remedy(note: str) -> str:
    """A note, and what to do about it, if it is one of `records.notes`.

    It may have the names of its rows before it.
    """
    remedy = remedy_of(note) or remedy_of(note.partition(": ")[2])
    return f"{note}. {remedy[0].upper()}{remedy[1:]}." if remedy else note


def notes_of(rows: Sequence[Result]) -> list[str]:
    """The notes of a case's rows, each once; one that not all rows have names those that do."""
    arms_with = grouped((note, row.arm) for row in rows for note in dict.fromkeys(row.notes))
    return [
        note if len(arms) == len(rows) else f"{', '.join(arms)}: {note}"
        for note, arms in arms_with.items()
    ]


def breakable(treatment: str) -> Markup:
    """A treatment's name as HTML, with a possible line break before each level."""
    return Markup("<wbr>").join(re.split(r"(?=@)|(?<=,)", treatment))


def whole_dates(text: object) -> Markup:
    """A text as HTML whose dates do not break at their hyphens."""
    whole = r'<span class="nowrap">\g<0></span>'
    return Markup(re.sub(r"\b\d{4}-\d\d-\d\d\b", whole, str(escape(text))))


def with_code(text: object) -> Markup:
    """A sentence as HTML: commands between backticks are code, and dates do not break."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(whole_dates(text))))


#: No frame of a network is larger.
_FRAME_B = 10_000


def binary(value: float) -> str:
    """A size in powers of 1024: `64 KiB`; a small one that is none, as of a frame, `1400 B`."""
    if value < _FRAME_B and value % 512:
        return f"{value:.5g} B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def duration(value_s: float) -> str:
    """A duration, in years, days or seconds."""
    for unit in ("y", "d"):
        if value_s >= SECONDS[unit]:
            return f"{value_s / SECONDS[unit]:.4g} {unit}"
    return f"{value_s:.4g} s"


#: Direction -> its `kind`; others write.
_KINDS = {
    "read": ("reads", "read from"),
    "both": ("writes and reads", "written into, and as many read from,"),
    "receive": ("messages", "received by"),
}

#: Suffix of a key -> format of its number; longer suffixes come first.
_ENDINGS: dict[str, Callable[[float], str]] = {
    "_b_s": lambda value: quantity(value, "B/s"),
    "_b": binary,
    "_hz": lambda value: f"{value / 1e9:.4g} GHz",
    "_mhz": lambda value: f"{value:.4g} MHz",
    "_s": duration,
}


def kind(direction: str | None) -> tuple[str, str]:
    """What the network does (`writes`, `reads` or both), and with the target's memory."""
    return _KINDS.get(direction or "", ("writes", "written into"))


#: Most effects of the headline.
_HEADED = 3


def headline(effects: Sequence[Result]) -> str:
    """What was measured, in one sentence: the slowdown of the typical run with its interval."""
    shown = [row for row in effects if row.slowdown]
    if not shown:
        return "No slowdown was measured: too few pairs." if effects else ""
    slower = [row for row in shown if row.verdict.is_loss]
    chosen = slower or [row for row in shown if row.verdict in _BY_CORES] or shown
    begin, said_of = _begin(chosen)
    rows = sorted(chosen, key=lambda row: -row.slowdown.value if row.slowdown else 0.0)
    said = [
        f"{named(row)} takes {bracketed(row.slowdown, row.next)} times as long"
        f"{'' if row.verdict in said_of else f' ({row.verdict})'}"
        for row in rows[:_HEADED]
    ]
    more = [f"{len(rows) - _HEADED} more below"] if len(rows) > _HEADED else []
    return f"{_unsteady(rows)}{begin}: {', '.join([*said, *more])}."


def _unsteady(rows: Sequence[Result]) -> str:
    """That the baseline repeats itself less well than these effects are large, if so."""
    hidden = [row for row in rows if row.verdict is not Verdict.NO_EFFECT and _is_hidden(row)]
    if not hidden:
        return ""
    cases = "" if len(hidden) == len(rows) else f" of {some(map(named, hidden), _HEADED)}"
    return f"The baseline{cases} varies by more than the effect. "


def _is_hidden(row: Result) -> bool:
    """Whether the baseline's repeatability reaches further from 1 than the effect."""
    floor, effect = row.noise_floor, row.slowdown
    if not floor or not effect:
        return False
    return abs(effect.value - 1) < max(abs(floor.low - 1), abs(floor.high - 1))


#: Verdicts on runs that are slower, which a lost core may explain.
_BY_CORES = {Verdict.NO_CONTROL, Verdict.NOT_ABOVE_CONTROL}


def _begin(rows: Sequence[Result]) -> tuple[str, set[Verdict]]:
    """How the headline of these rows begins, and the verdicts that these words stand for."""
    traffic = " and ".join(dict.fromkeys(kind(row.direction)[0] for row in rows))
    found = {row.verdict for row in rows}
    if found == {Verdict.CONTENTION}:
        return f"Memory contention under network {traffic}", found
    if all(verdict.is_loss for verdict in found):
        return f"Slower under network {traffic}", found - {Verdict.CONTENTION}
    if found == {Verdict.NO_EFFECT}:
        return f"No effect of network {traffic}", found
    if found == {Verdict.SPEED_UP}:
        return f"Faster under network {traffic}", found
    if found <= _BY_CORES:
        return "Slower, but lost cores may explain it", set()
    if all(verdict.is_not_compared for verdict in found):
        return "No verdict yet", set()
    return "No slowdown is shown", set()


def sentence(row: Result) -> str:
    """The effect of one treatment on one case, in a sentence with its interval."""
    if row.slowdown is None:
        return f"No estimate: {plural(row.pairs, 'pair')}, at least {FEWEST} needed."
    writers = ""
    if row.writer_rate_b_s is not None:
        done = kind(row.direction)[1]
        writers = f" while {quantity(row.writer_rate_b_s, 'B/s', 3)} were {done} its node"
    following = f"next allocation: {_range(row.next)}; these: " if row.next else "interval: "
    return (
        f"The typical run took {_change(row.slowdown.value)} time{writers} ({following}"
        f"{_range(row.slowdown)}, {plural(row.pairs, 'pair')}).{_of_mean(row)}"
        f" {MEANING[row.verdict]}{_limits(row)}"
    )


def _of_mean(row: Result) -> str:
    """What is paid for, and what so few pairs have met of runs that are hit."""
    if row.mean is None or row.hit is None:
        return ""
    hit = round(row.hit.value * row.pairs)
    met = "no single run with writes stands out"
    if hit:
        runs = f"{hit} of {plural(row.pairs, 'run')} with writes"
        met = f"{runs} took unusually long (true share at most {row.hit.high:.0%})"
    return (
        f" In the mean it took {_change(row.mean.value)} ({_range(row.mean)}) in these"
        f" {plural(row.pairs, 'pair')}; {met}."
    )


def unmeasured(rows: Sequence[Result], header: RunHeader) -> list[str]:
    """The cases whose effects were requested, and of which no pair counts."""
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
) -> str:
    """What the first open verdict needs, with the command that does it and its price.

    `pair_s`: how long a pair of each case took.
    """
    pair_s = pair_s or {}
    if header.reproduces and header.finished_s is not None:
        return f"Next: nothing; it has repeated the pairs of {header.reproduces.run}."
    effects = [row for row in rows if row.role == "effect"]
    of = {row.verdict: row for row in reversed(effects)}
    for verdict in SENTENCES:
        row = of.get(verdict)
        if row is not None and (do := _do(row, effects, pair_s)):
            advice = do.format(
                fresh=commands.again("--fresh"),
                throttling=commands.shipped("run", "throttling"),
                plan=commands.shipped("plan", "throttling"),
                advise=commands.advise(),
                more=_more(row.pairs, rows, header, commands, pair_s),
            )
            return f"Next: {advice} ({named(row)}: {verdict})."
    return "Next: measure an arm with writers; this run has none."


def _do(row: Result, effects: Sequence[Result], pair_s: Mapping[str, float]) -> str:
    """What to do about a verdict, where other facts of the run may change it."""
    verdict, do = row.verdict, SENTENCES[row.verdict].do
    if verdict is Verdict.NOT_ABOVE_CONTROL and row.above_control_alone:
        return SENTENCES[Verdict.INCONCLUSIVE].do
    if verdict is Verdict.TOO_FEW_PAIRS and row.rejected:
        return f"see why {plural(row.rejected, 'run')} did not count, then {do}"
    if verdict is Verdict.INCONCLUSIVE and (enough := _enough(row)) > next_look(row.pairs + 1):
        took_s = pair_s.get(row.case, 0.0) * enough
        taken = f" ({spent(took_s)})" if took_s else ""
        return f"{do}; {_takes(row, enough)}{taken}, fewer if the machine is quieter"
    if verdict is Verdict.SLOWER and Note.UNPROVEN.remedy in map(remedy_of, row.notes):
        return f"prove the writes: {Note.UNPROVEN.remedy}"
    if verdict is Verdict.CONTENTION and any(_is_remedy(each) for each in effects):
        return WEIGH
    return do


def _is_remedy(row: Result) -> bool:
    """Whether a row is of slower writers, or of another level of the application."""
    return "rate" in parts_of(row.arm)[1] or bool(parts_of(row.baseline)[1])


def _more(
    had: int,
    rows: Sequence[Result],
    header: RunHeader,
    commands: RunCommands,
    pair_s: Mapping[str, float],
) -> str:
    """The command that measures more pairs than a row `had`, and how long it takes.

    A finished run goes on up to its cap or more, and to no fewer pairs than any of its rows has.
    """
    if header.finished_s is None:
        return f"`{commands.again()}`, which resumes this run"
    measured = max((row.pairs for row in rows), default=0)
    pairs = next_look(max(had + 1, measured, header.most_pairs))
    undecided = {row.case: row.pairs for row in rows if row.verdict.needs_pairs}
    takes_s = sum((pairs - of) * pair_s.get(case, 0.0) for case, of in undecided.items())
    about = f", about {spent(takes_s)}" if takes_s else ""
    return f"`{commands.again('--pairs', str(pairs))}`{about}"


def _enough(row: Result) -> int:
    """Pairs whose interval is about as narrow as the margin, two digits; 0 without an interval."""
    if row.slowdown is None or not 0 < row.slowdown.low < row.slowdown.high < math.inf:
        return 0
    half = math.log(row.slowdown.high / row.slowdown.low) / 2
    return int(float(f"{row.pairs * (half / math.log1p(row.margin)) ** 2:.2g}"))


def _takes(row: Result, pairs: int) -> str:
    return f"an interval of ± {row.margin * 100:.3g} % takes about {pairs:,} such pairs"


def named(row: Result) -> str:
    """The case, with the treatment if it is not `on`."""
    return row.case if row.arm == "on" else f"{row.case} {row.arm}"


def control(rows: Sequence[Result], *, same_host: bool, cpu_shares: Sequence[float]) -> str:
    """The control that the effects of one case were compared with, or why there is none.

    `cpu_shares` are the shares of a core that it used in its runs.
    """
    controls = [row for row in rows if row.role == "control"]
    if not controls:
        if same_host:
            return "Control: none was run, although origin and target share a host."
        return "Control: none; writers on other hosts take no core from the application."
    shown = "; ".join(
        f"{row.arm}, a busy process instead of the writers, in {plural(row.pairs, 'pair')}"
        for row in controls
    )
    used = f", using {min(cpu_shares):.0%} to {max(cpu_shares):.0%} of a core" if cpu_shares else ""
    against = "; ".join(
        f"{row.arm} took {row.over_control.value:.3f} times as long as the control"
        f" ({ends(row.over_control).replace('-', ' to ')})"
        for row in rows
        if row.over_control is not None
    )
    return f"Control: {shown}{used}. In the same pairs: {against or 'too few to compare'}."


def conditions(samples: pl.DataFrame) -> str:
    """What else went on at the nodes during the runs that count; empty if nothing was read."""
    counted = samples.filter(status="counts")
    foreign, steal = (
        counted[name].drop_nulls().to_list() for name in ("foreign_cpus", "steal_share")
    )
    said = []
    if foreign:
        ends = f"{min(foreign):.2f} to {max(foreign):.2f}"
        said.append(f"foreign processes kept {ends} hardware threads busy")
    if steal:
        said.append(f"the hypervisor took up to {max(steal):.1%} of the processor time")
    return f"During the runs that count, {' and '.join(said)}." if said else ""


def disturbance(samples: pl.DataFrame, threads: Sequence[object]) -> str:
    """What disturbed the runs that count beyond the usual limits; empty if nothing did.

    `threads` are the numbers of hardware threads of the nodes.
    """
    counted = samples.filter(status="counts")
    usual = AcceptanceLimits()
    said = []
    foreign, steal = (counted[name].drop_nulls() for name in ("foreign_cpus", "steal_share"))
    if len(foreign) and median(foreign) > (usual.foreign_cpus or 0):
        total = f"of {threads[0]} " if len(set(threads)) == 1 and threads[0] else ""
        said.append(
            f"other programs kept {median(foreign):.1f} {total}hardware threads busy in the median"
            f" run, {max(foreign):.1f} at most"
        )
    if len(steal) and median(steal) > (usual.steal_share or 0):
        said.append(
            f"the hypervisor took {median(steal):.1%} of the processor time in the median run"
        )
    return f"Disturbed: {' and '.join(said)}; this campaign rejects no run for it." if said else ""


def _limits(row: Result) -> str:
    """Within what there is no effect, and what may have stayed unseen; or what is possible."""
    if row.verdict is Verdict.NO_EFFECT and row.mean and row.hit:
        low, high = (100 * (ratio - 1) for ratio in (row.mean.low, row.mean.high))
        missed = f"; hits of fewer than {unseen(row.pairs):.0%} of runs may have stayed unseen"
        return (
            f" Typical run within {row.margin * 100:.3g} %; mean {low:+.1f} to {high:+.1f} % in"
            f" these {row.pairs} pairs{'' if row.hit.value else missed}."
        )
    if row.verdict is Verdict.INCONCLUSIVE and row.slowdown:
        least, most = map(_change, (row.slowdown.low, row.slowdown.high))
        takes = f"; {_takes(row, enough)}" if (enough := _enough(row)) > row.pairs else ""
        return f" Still possible: {least} to {most} time{takes}."
    return ""


def _range(of: Estimate | Interval) -> str:
    return f"{_change(of.low)} to {_change(of.high)}"


def _change(ratio: float) -> str:
    return f"{abs(ratio - 1) * 100:.1f} % {'more' if ratio >= 1 else 'less'}"


def facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as (label, text), in their order; units come from the keys' suffixes.

    Unknown facts (None) are listed in one last row.
    """
    rows = _flat(record, "")
    unknown = [label for label, text in rows if text is None]
    told = [(label, text) for label, text in rows if text is not None]
    return [*told, ("not known", ", ".join(unknown))] if unknown else told


def _flat(record: Mapping[str, Any], prefix: str) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = []
    for key, value in record.items():
        if isinstance(value, Mapping):
            # `offsets_s: {a: 1}` has the unit in the outer key: `offsets a_s`.
            unit = _ending(key)
            within = _label(prefix, key.removesuffix(unit))
            rows += _flat({f"{k}{unit}": v for k, v in value.items()}, within)
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for index, item in enumerate(value):
                of = dict(item) if isinstance(item, Mapping) else {"": item}
                name = of.pop("name", of.pop("number", index))
                rows += _flat(of, f"{_label(prefix, key)} {name}")
        else:
            rows.append(_fact(prefix, key, value))
    return rows


def _ending(key: str) -> str:
    return next((ending for ending in _ENDINGS if key.endswith(ending)), "")


#: Part of a key -> how it is written; other parts are words as they are.
_WRITTEN = {
    **{word: word.upper() for word in ("cpu", "numa", "nic", "rdma", "mpi", "smt", "mtu", "bios")},
    **{"cpus": "CPUs", "llc": "last-level cache", "mtti": "mean time to interrupt"},
}


def _label(prefix: str, key: str) -> str:
    parts = key.replace("_", " ").split()
    return " ".join(filter(None, [prefix, *(_WRITTEN.get(part, part) for part in parts)]))


def _fact(prefix: str, key: str, value: Any) -> tuple[str, str | None]:
    label = _label(prefix, key)
    bare = _label(prefix, key.removesuffix(_ending(key)))
    if value is None:
        return bare, None
    if value in ("", []):
        return label, "none"
    if isinstance(value, bool):
        return label, "yes" if value else "no"
    if isinstance(value, list):
        return label, ranges(value)
    if isinstance(value, (int, float)) and _ending(key) and not abs(value) > MOST:
        return bare, _ENDINGS[_ending(key)](value)
    return label, str(value)


def ranges(values: Sequence[Any]) -> str:
    """A list as text, with consecutive integers as ranges: `0-3, 8`."""
    parts: list[tuple[Any, Any]] = []
    for value in values:
        if parts and type(value) is type(parts[-1][1]) is int and value == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], value)
        else:
            parts.append((value, value))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def utc(moment_s: float | None) -> str:
    """A moment (Unix time) as a date and time in UTC."""
    if moment_s is None:
        return "not finished"
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment_s))
    except (OverflowError, ValueError):
        return f"{moment_s:g} is not a date"
