"""The results as a table for terminals; fits 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result, notes_of
from analysis.effects.verdict import Verdict
from analysis.samples.pairs import kinds
from analysis.statistics.interval import effect, ends
from nimc.base.tables import blocks, folded, wrapped
from nimc.base.text import visible
from nimc.base.units import NONE, number, quantity, scale
from nimc.records.arms import parts_of

_WRITTEN = "written\nalone,\nduring"
_HEADER = ["workload", "off", "on", "slowdown", "baseline\nrepeated", "control", _WRITTEN]
#: Most characters of a line in the first column.
_NAME = 14
_CONTRASTS = ["workload", "treatment", "against", "price", "gain", "baseline\nrepeated", "pairs"]
#: Most characters of a line of the names among these.
_LEVEL = 12
_LEGEND = (
    "price: time at the level / at the first level, without writers; "
    "gain: time at the first level / at the level, with writers"
)
#: Most reasons for rejections shown.
_REASONS = 8
_COLOUR: dict[Verdict, str] = {
    Verdict.CONTENTION: "red",
    Verdict.SPEED_UP: "cyan",
    Verdict.NO_EFFECT: "green",
    Verdict.TYPICAL: "green",
}


def prose(text: str, **style: Any) -> str:
    """Text that may name what others wrote, in lines of 80 columns, as `click.style` styles it."""
    return click.style(wrapped(visible(text)), **style)


def results_table(rows: Sequence[Result], contrasts: Sequence[Contrast] = ()) -> str:
    """One row per effect with repeated baseline and control, then caveats, prices and gains.

    Controls and repeated baselines are columns; they are rows only in a case without effects.
    """
    effects = {row.case for row in rows if row.role == "effect"}
    shown = [row for row in rows if row.role == "effect" or row.case not in effects]
    if not shown:
        return "no result: only the arm 'off' was run"
    header, *lines = blocks(_HEADER, map(_cells, shown), left=[0])
    judged = (f"{text}\n{_verdict(row)}" for text, row in zip(lines, shown, strict=True))
    return "\n".join([bold(header), *judged, *_below(shown), *_prices(contrasts)])


def bold(text: str) -> str:
    """A title, or the header of a table."""
    return click.style(text, bold=True)


def _verdict(row: Result) -> str:
    rejected = f", {row.rejected} rejected" if row.rejected else ""
    colour = _COLOUR.get(row.verdict, "yellow")
    return prose(f"  {row.said}", fg=colour) + prose(f"; {row.pairs} pairs{rejected}", dim=True)


def _cells(row: Result) -> list[str]:
    """Text of each column, of one or more lines."""
    divisor, unit = scale(row.off_median, row.unit)

    def fom(value: float | None) -> str:
        return number(value / divisor) if value is not None else NONE

    arm, levels = parts_of(row.arm)
    name = row.case if arm == "on" else f"{row.case} {arm}"
    named = [name, *(f"{factor.replace('_', ' ')} {at}" for factor, at in levels.items()), unit]
    writers = NONE
    if row.writer_rate_b_s is not None and row.writer_rate_alone_b_s is not None:
        rates_b_s = (row.writer_rate_alone_b_s, row.writer_rate_b_s)
        writers = "\n".join(quantity(rate_b_s, "B/s", 3) for rate_b_s in rates_b_s)
    return [
        "\n".join(folded(line, _NAME) for line in named),
        fom(row.off_median),
        fom(row.on_median),
        "\n".join(effect(row.slowdown)),
        "\n" + ends(row.noise_floor),
        "\n" + ends(row.control),
        writers,
    ]


def _prices(contrasts: Sequence[Contrast]) -> list[str]:
    """Price and gain of each level; empty without factors of the application."""
    if not contrasts:
        return []
    cells = []
    for each in contrasts:
        figure = "\n".join(effect(each.ratio))
        names = (each.case, each.treatment, each.against)
        cells.append(
            [
                *(folded(name, _LEVEL) for name in names),
                *((figure, "") if each.kind == "price" else ("", figure)),
                "\n" + ends(each.noise_floor),
                str(each.pairs),
            ]
        )
    header, *lines = blocks(_CONTRASTS, cells, left=range(3))
    return ["", bold(header), *lines, prose(_LEGEND, dim=True)]


def _below(rows: Sequence[Result]) -> list[str]:
    """Caveats, each once, and reasons for rejections."""
    lines = []
    for case in dict.fromkeys(row.case for row in rows):
        lines += [f"{case}: {note}" for note in notes_of([row for row in rows if row.case == case])]
    lost: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        for run in row.rejections:
            lost.setdefault(row.case, {})[run["key"]] = (run["outcome"], run["reason"])
    reasons = [(case, kind) for case, runs in lost.items() for kind in kinds(runs.values())]
    for case, kind in reasons[:_REASONS]:
        reason = f": {kind.reason}" if kind.reason else ""
        lines.append(f"{case}: {kind.times} x {kind.outcome}{reason}")
    if len(reasons) > _REASONS:
        lines.append(f"and {len(reasons) - _REASONS} more reasons; the report has them all")
    return [prose(line, dim=True) for line in lines]
