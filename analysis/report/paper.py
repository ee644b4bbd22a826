"""Pictures and tables of runs for a paper: SVG, PDF and LaTeX, in the widths of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.display.latex import escaped, tabular
from analysis.effects.result import Result
from analysis.report.data import RunData
from analysis.report.page import run_view
from analysis.report.plots import Picture, View, interval_text
from analysis.report.sections import ShownSection
from analysis.report.words import case_and_arm, fom_text
from analysis.statistics.interval import ends_text, estimate_text
from records.files import make_folder, replace_text

#: Folder -> width in inches, and the environment of LaTeX that has it.
WIDTHS = {
    "ieee-column": (3.5, "figure"),
    "ieee-page": (7.16, "figure*"),
    "acm-column": (3.33, "figure"),
    "acm-page": (7.0, "figure*"),
}
TABLES = "tables"
#: Headings of the table of effects; that of `_THESE` only where the next allocation's leads.
_THESE = "these allocations"
_EFFECTS = (
    "workload",
    "off",
    "on",
    "slowdown",
    _THESE,
    "baseline repeated",
    "control",
    "pairs",
    "verdict",
)
_LEGEND = (
    "medians of the runs without and with writes; intervals of the baseline against itself, and of"
    " a busy process instead of the writers"
)
#: A table as it is, or as wide as the page.
_AT_MOST = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}"


@dataclass
class PaperFiles:
    """The files that were written for a paper."""

    files: list[Path] = field(default_factory=list)
    #: Pictures that do not fit a width, by its folder.
    unfit: list[Path] = field(default_factory=list)


def write_for_paper(folder: Path, runs: Sequence[RunData]) -> PaperFiles:
    """Write pictures and tables of `runs` to `folder`, with a subfolder for each of several."""
    written = PaperFiles()
    for run in runs:
        _write_run(folder / run.header.run if len(runs) > 1 else folder, run, written)
    return written


def _write_run(folder: Path, run: RunData, written: PaperFiles) -> None:
    view = run_view(run, "", None)
    origin = f"Run {run.header.run} of nimc on {run.header.machine}."
    names: set[str] = set()
    for title, emulated, picture in _pictures(view):
        name = _unique(picture.name, names)
        about = [f"{title}.", picture.part and f"{picture.part}.", picture.caption]
        caption = " ".join(filter(None, [*about, _caveat(emulated), origin]))
        for width, (width_in, environment) in WIDTHS.items():
            make_folder(folder / width)
            path = folder / width / name
            if not picture.write(path, width_in):
                written.unfit.append(path)
                continue
            content = [rf"\includegraphics{{{name}.pdf}}", rf"\caption{{{escaped(caption)}}}"]
            replace_text(path.with_suffix(".tex"), _float(environment, f"fig:{name}", content))
            written.files += [path.with_suffix(end) for end in (".svg", ".pdf", ".tex")]
    make_folder(folder / TABLES)
    for title, emulated, rows in _tables(view):
        name = _unique(title, names)
        caption = escaped(" ".join(filter(None, [f"{title}.", _caveat(emulated), origin])))
        content = [rf"\caption{{{caption}}}", f"{_AT_MOST}{{%", f"{tabular(rows)}}}"]
        path = folder / TABLES / f"{name}.tex"
        replace_text(path, _float("table*", f"tab:{name}", content))
        written.files.append(path)


def _pictures(view: View) -> Iterator[tuple[str, Sequence[str], Picture]]:
    """Yield subject, caveats of the writes, and picture of each, in the page's order."""
    for part, sections in view.sections.items():
        if part == "run":
            for case in view.cases:
                for picture in _pictures_in(case.sections):
                    yield case.name, case.emulated, picture
        for section in sections:
            for picture in getattr(section.view, "pictures", ()):
                title = section.declared.title or "All cases"
                yield title, getattr(section.view, "emulated", view.emulated), picture


def _pictures_in(sections: Sequence[ShownSection]) -> list[Picture]:
    return [picture for section in sections for picture in getattr(section.view, "pictures", ())]


def _tables(view: View) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Caption, caveats and rows of each table, the header first."""
    if effects := view.data.effect_table_rows:
        rows: list[Sequence[str]] = [_EFFECTS, *map(_effect, effects)]
        shown = f"Slowdown of the typical run, {interval_text(effects)}"
        if any(row.next for row in effects):
            shown += ", and that of these allocations, on which the verdict rests"
        else:
            column = _EFFECTS.index(_THESE)
            rows = [[*cells[:column], *cells[column + 1 :]] for cells in rows]
        yield f"Slowdown by workload. {shown}; {_LEGEND}", view.emulated, rows
    for section in (section for sections in view.sections.values() for section in sections):
        table = section.view
        if getattr(table, "rows", None) and getattr(table, "headings", None):
            cells = [[_text(*cell) for cell in row] for row in table.rows]
            yield section.declared.title, table.emulated, [table.headings, *cells]


def _effect(row: Result) -> Sequence[str]:
    off, on = fom_text(row.off_median, row), fom_text(row.on_median, row)
    intervals = [ends_text(interval) for interval in (row.noise_floor, row.control)]
    return [
        case_and_arm(row),
        off,
        on,
        estimate_text(row.leading),
        ends_text(row.slowdown),
        *intervals,
        str(row.pairs),
        row.verdict_text,
    ]


def _text(text: str, below: str) -> str:
    """A cell of the page in one line."""
    more = "; ".join(below.split("\n"))
    return f"{text} ({more})" if more else text


def _caveat(emulated: Sequence[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in emulated)


def _unique(text: str, names: set[str]) -> str:
    """A name of files and labels, unlike those in `names`, to which it is added."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", text.split(". ")[0]).strip("-").lower()
    name = next(
        name
        for name in (plain, *(f"{plain}-{number}" for number in range(2, len(names) + 3)))
        if name not in names
    )
    names.add(name)
    return name


def _float(environment: str, label: str, content: Sequence[str]) -> str:
    lines = [rf"\begin{{{environment}}}", r"\centering", *content, rf"\label{{{label}}}"]
    return "\n".join([*lines, rf"\end{{{environment}}}", ""])
