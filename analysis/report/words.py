"""Sentences and labels of the report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from analysis.effects.estimate import Result, pairs_for_none
from analysis.effects.verdict import MEANING, Verdict
from analysis.samples.columns import MOST
from analysis.statistics.interval import FEWEST, Estimate, Interval, effect
from records.notes import Note, remedy_of
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


def ratio(of: Estimate | None) -> dict[str, str]:
    """A ratio and its interval, for templates."""
    if of is None:
        return {"value": DASH, "interval": ""}
    text, ends = effect(of)
    return {"value": text, "interval": ends.replace("-", DASH)}


def with_remedy(note: str) -> str:
    """A note, and what to do about it, if it is one of `records.notes`.

    It may have the names of its rows before it.
    """
    remedy = remedy_of(note) or remedy_of(note.partition(": ")[2])
    return f"{note}. {remedy[0].upper()}{remedy[1:]}." if remedy else note


def breakable(treatment: str) -> Markup:
    """A treatment's name as HTML, with a possible line break before each level."""
    return Markup("<wbr>").join(re.split(r"(?=@)|(?<=,)", treatment))


def whole_dates(text: object) -> Markup:
    """A text as HTML whose dates do not break at their hyphens."""
    whole = r'<span class="nowrap">\g<0></span>'
    return Markup(re.sub(r"\b\d{4}-\d\d-\d\d\b", whole, str(escape(text))))


def binary(value: float) -> str:
    """A size in powers of 1024: `64 KiB`."""
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


#: How the note of replayed traffic begins.
_TRAFFIC = Note.TRAFFIC.text.partition("{")[0]


def sentence(row: Result) -> str:
    """The effect of one treatment on one case, in a sentence with its interval."""
    if row.slowdown is None:
        return f"No estimate: {plural(row.pairs, 'pair')}, at least {FEWEST} needed."
    writers = ""
    if any(note.startswith(_TRAFFIC) for note in row.notes):
        writers = " under this traffic"
    if row.writer_rate_b_s is not None:
        done = kind(row.direction)[1]
        writers += f" while {quantity(row.writer_rate_b_s, 'B/s', 3)} were {done} its node"
    following = f"; next allocation: {_range(row.next)}" if row.next else ""
    return (
        f"The typical run took {_change(row.slowdown.value)} time{writers} (interval: "
        f"{_range(row.slowdown)}, {plural(row.pairs, 'pair')}{following}).{_of_mean(row)}"
        f" {MEANING[row.verdict]}{_limits(row)}"
    )


def _of_mean(row: Result) -> str:
    """What is paid for, and how often runs are hit."""
    if row.mean is None or row.hit is None:
        return ""
    hit = round(row.hit.value * row.pairs)
    slowest = ""
    if row.slowest_tenth is not None:
        value, ends = effect(row.slowest_tenth)
        slowest = f"; the slowest tenth took {value} times as long ({ends.replace('-', ' to ')})"
    return (
        f" In the mean it took {_change(row.mean.value)} ({_range(row.mean)})."
        f" {hit or 'None'} of {plural(row.pairs, 'run')} with writes took unusually long (true"
        f" share at most {row.hit.high:.0%}){slowest}."
    )


#: Verdict -> what to do next; what the figures need first comes first.
NEXT: dict[Verdict, str] = {
    Verdict.BASELINE_UNSTABLE: "look for drift and other load on the nodes, and measure again",
    Verdict.NO_NOISE_FLOOR: "add the arm aa, which repeats the baseline",
    Verdict.TOO_FEW_PAIRS: "measure more pairs; the reasons of rejected runs may say why they lack",
    Verdict.NO_WRITES: "measure on more nodes, or with longer writes",
    Verdict.NO_CONTROL: "add the control spin, or take origins on other hosts",
    Verdict.INCONCLUSIVE: "measure more pairs",
    Verdict.NOT_ABOVE_CONTROL: "take origins on other hosts: lost cores may explain the loss",
    Verdict.SPEED_UP: "find out why runs with writes are faster before these figures are used",
    Verdict.EMULATED: "measure with RDMA hardware; this loss is that of the emulation",
    Verdict.CONTENTION: "measure what remedies gain, such as a lower rate or a reserved core",
    Verdict.SOMETIMES: "find out what hits some runs: look at the slowest ones and their counters",
    Verdict.TYPICAL: "measure more pairs if a mean that is sometimes higher would matter",
    Verdict.NO_EFFECT: "nothing is needed under the writes that were measured",
}


def next_step(effects: Sequence[Result]) -> str:
    """What the first open verdict needs."""
    of = {row.verdict: row for row in reversed(effects)}
    for verdict, advice in NEXT.items():
        if row := of.get(verdict):
            if verdict is Verdict.NOT_ABOVE_CONTROL and row.above_control_alone:
                advice = NEXT[Verdict.INCONCLUSIVE]
            return f"Next: {advice} ({named(row)}: {verdict})."
    return "Next: measure an arm with writers; this run has none."


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
        f"{row.arm} took {ratio} times as long as the control ({ends.replace('-', ' to ')})"
        for row in rows
        if row.over_control is not None
        for ratio, ends in [effect(row.over_control)]
    )
    return f"Control: {shown}{used}. In the same pairs: {against or 'too few to compare'}."


def conditions(samples: pl.DataFrame) -> str:
    """What else went on at the nodes during the runs that count; empty if nothing was read."""
    counted = samples.filter(status="counts")
    foreign, steal = (
        counted[name].drop_nulls().to_list() for name in ("foreign_cpus", "steal_share")
    )
    found = []
    if foreign:
        ends = f"{min(foreign):.2f} to {max(foreign):.2f}"
        found.append(f"foreign processes kept {ends} hardware threads busy")
    if steal:
        found.append(f"the hypervisor took up to {max(steal):.1%} of the processor time")
    return f"During the runs that count, {' and '.join(found)}." if found else ""


def _limits(row: Result) -> str:
    """What the effect is at most, or what is still possible, and what would show it."""
    if row.verdict is Verdict.NO_EFFECT:
        return f" The effect is less than {row.margin * 100:.3g} %."
    if row.verdict is Verdict.TYPICAL:
        pairs = pairs_for_none(row.margin, row.family)
        return f" About {pairs} pairs without a run that is hit would show that the mean is, too."
    if row.verdict is Verdict.INCONCLUSIVE and row.slowdown:
        low, high = map(_change, (row.slowdown.low, row.slowdown.high))
        return f" Still possible: {low} to {high} time."
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
    known = [(label, text) for label, text in rows if text is not None]
    return [*known, ("not known", ", ".join(unknown))] if unknown else known


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
                own = of.pop("name", of.pop("number", index))
                rows += _flat(of, f"{_label(prefix, key)} {own}")
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
