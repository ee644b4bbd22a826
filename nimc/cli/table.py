"""The results as a table for terminals; fits 80 columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from analysis.effects.contrasts import Contrast
from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict, phrase
from analysis.samples.pairs import kinds
from nimc.base.text import visible
from nimc.base.units import NONE, effect, interval, number, quantity, scale
from nimc.records.arms import LEVELS

#: Columns of text that the table needs.
WIDTH = 80
_WRITTEN = "written\nalone,\nduring"
_HEADER = ["workload", "off", "on", "slowdown", "baseline\nrepeated", "control", _WRITTEN]
#: Most characters of a line in the first column.
_NAME = 14
#: Most reasons for rejections shown.
_REASONS = 8
_STYLE: dict[Verdict, str] = {
    Verdict.CONTENTION: "bold red",
    Verdict.SPEED_UP: "bold cyan",
    Verdict.NO_EFFECT: "green",
}


class _PlainConsole(Console):
    """Shows names and reasons as they are: no markup, and no command to the terminal, in them."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__(width=width, markup=False, emoji=False, highlight=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Rich's own commands are in a segment's style or control, never in its text."""
        for segment in super().render(renderable, options):
            text = segment.text
            yield segment if segment.control else segment._replace(text=visible(text))


def console() -> Console:
    """The console for tables: as wide as the terminal, 80 columns into a file or pipe."""
    terminal = _PlainConsole()
    return terminal if terminal.is_terminal else _PlainConsole(WIDTH)


def results_table(rows: Sequence[Result], contrasts: Sequence[Contrast] = ()) -> RenderableType:
    """One row per effect with repeated baseline and control, then caveats, prices and gains.

    Controls and repeated baselines are columns; they are rows only in a case without effects.
    """
    effects = {row.case for row in rows if row.role == "effect"}
    shown = [row for row in rows if row.role == "effect" or row.case not in effects]
    if not shown:
        return Text("no result: only the arm 'off' was run")
    blocks = [[cell.split("\n") for cell in cells] for cells in (_HEADER, *map(_cells, shown))]
    widths = [max(len(line) for block in blocks for line in block[i]) for i in range(len(_HEADER))]
    lines = [_line(line, widths, style="bold") for line in _aligned_at_end(blocks[0])]
    for block, row in zip(blocks[1:], shown, strict=True):
        lines += [_line(line, widths) for line in itertools.zip_longest(*block, fillvalue="")]
        lines.append(_verdict(row))
    return Group(*lines, *_below(shown), *_prices(contrasts))


def _aligned_at_end(block: list[list[str]]) -> list[tuple[str, ...]]:
    """Lines of the header: shorter cells at the bottom."""
    reversed_lines = itertools.zip_longest(*(cell[::-1] for cell in block), fillvalue="")
    return list(reversed_lines)[::-1]


def _line(cells: Sequence[str], widths: Sequence[int], style: str = "") -> Text:
    """One line of text: the first cell to the left, figures to the right."""
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return Text("  ".join(padded).rstrip(), style=style, no_wrap=True, overflow="ignore")


def _verdict(row: Result) -> Text:
    said = Text(f"  {phrase(row.verdict, row.margin)}", style=_STYLE.get(row.verdict, "yellow"))
    rejected = f", {row.rejected} rejected" if row.rejected else ""
    return said.append(f"; {row.pairs} pairs{rejected}", style="dim")


def _table() -> Table:
    return Table(box=None, padding=(0, 1, 0, 0), header_style="bold", collapse_padding=True)


def _cells(row: Result) -> list[str]:
    """Text of each column, of one or more lines."""
    divisor, unit = scale(row.off_median, row.unit)

    def fom(value: float | None) -> str:
        return number(value / divisor) if value is not None else NONE

    arm, _, suffix = row.arm.partition(LEVELS)
    name = row.case if arm == "on" else f"{row.case} {arm}"
    levels = [level.partition("=") for level in suffix.split(",") if level]
    named = [name, *(f"{factor.replace('_', ' ')} {at}" for factor, _, at in levels), unit]
    writers = NONE
    if row.writer_rate_b_s is not None and row.writer_rate_alone_b_s is not None:
        rates_b_s = (row.writer_rate_alone_b_s, row.writer_rate_b_s)
        writers = "\n".join(quantity(rate_b_s, "B/s", 3) for rate_b_s in rates_b_s)
    return [
        "\n".join(part for line in named for part in _folded(visible(line))),
        fom(row.off_median),
        fom(row.on_median),
        "\n".join(effect(row.slowdown, row.slowdown_low, row.slowdown_high)),
        "\n" + interval(row.noise_floor_low, row.noise_floor_high),
        "\n" + interval(row.control_low, row.control_high),
        writers,
    ]


def _folded(text: str) -> list[str]:
    """Lines of at most `_NAME` characters, cut anywhere."""
    return [text[at : at + _NAME].strip() for at in range(0, len(text), _NAME)]


def _prices(contrasts: Sequence[Contrast]) -> list[RenderableType]:
    """Price and gain of each level; empty without factors of the application."""
    if not contrasts:
        return []
    table = _table()
    table.add_column("workload", overflow="fold", min_width=8, max_width=12)
    for name in ("treatment", "against"):
        table.add_column(name, overflow="fold")
    for name in ("price", "gain", "baseline\nrepeated", "pairs"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in contrasts:
        figure = "\n".join(effect(each.ratio, each.ratio_low, each.ratio_high))
        table.add_row(
            each.case,
            *(Text(name.replace(",", ", ")) for name in (each.treatment, each.against)),
            *((figure, "") if each.kind == "price" else ("", figure)),
            "\n" + interval(each.noise_floor_low, each.noise_floor_high),
            str(each.pairs),
        )
    legend = (
        "price: time at the level / at the first level, without writers; "
        "gain: time at the first level / at the level, with writers"
    )
    return [Text(), table, Text(legend, style="dim")]


def _below(rows: Sequence[Result]) -> list[Text]:
    """Caveats, each once, and reasons for rejections."""
    lines = []
    notes = dict.fromkeys((row.case, note) for row in rows for note in row.notes)
    lines += [f"{case}: {note}" for case, note in notes]
    lost: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows:
        for run in row.rejections:
            lost.setdefault(row.case, {})[run["key"]] = (run["outcome"], run["reason"])
    reasons = [(case, kind) for case, runs in lost.items() for kind in kinds(runs.values())]
    for case, kind in reasons[:_REASONS]:
        why = f": {kind.reason}" if kind.reason else ""
        lines.append(f"{case}: {kind.times} x {kind.outcome}{why}")
    if len(reasons) > _REASONS:
        lines.append(f"and {len(reasons) - _REASONS} more reasons; the report has them all")
    return [Text(line, style="dim") for line in lines]
