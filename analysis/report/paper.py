"""Pictures and tables of runs for a paper, as SVG, PDF and LaTeX, in the widths of its columns."""

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
from analysis.report.words import case_and_arm, fom_text
from analysis.statistics.interval import ends_text, estimate_text
from records.files import make_folder, replace_text

#: Folder -> width of its pictures in inches, and the LaTeX environment of this width.
WIDTHS = {
    "ieee-column": (3.5, "figure"),
    "ieee-page": (7.16, "figure*"),
    "acm-column": (3.33, "figure"),
    "acm-page": (7.0, "figure*"),
}
#: Folder of the tables.
TABLES_FOLDER = "tables"
#: Heading of a column of the table of effects. It is left out if no row has an interval of the next
#: allocation.
_THESE_ALLOCATIONS = "these allocations"
#: Headings of the table of effects.
_EFFECT_HEADINGS = (
    "workload",
    "off",
    "on",
    "slowdown",
    _THESE_ALLOCATIONS,
    "baseline repeated",
    "control",
    "pairs",
    "verdict",
)
_LEGEND = (
    "medians of the runs without and with writes; intervals of the baseline against itself, and of"
    " a busy process instead of the writers"
)
#: LaTeX that shrinks a table which is wider than the page.
_RESIZED_TO_PAGE = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}"


@dataclass
class PaperFiles:
    """The files that were written for a paper."""

    files: list[Path] = field(default_factory=list)
    #: Paths, without endings, of pictures that are wider than a column of their folder.
    too_wide: list[Path] = field(default_factory=list)


def write_for_paper(folder: Path, runs: Sequence[RunData]) -> PaperFiles:
    """Write pictures and tables of `runs` to `folder`; several runs have a subfolder each."""
    written = PaperFiles()
    for run in runs:
        _write_run(folder / run.header.run if len(runs) > 1 else folder, run, written)
    return written


def _write_run(folder: Path, run: RunData, written: PaperFiles) -> None:
    view = run_view(run, "", None)
    source = f"Run {run.header.run} of nimc on {run.header.machine}."
    used_names: set[str] = set()
    for title, caveats, picture in _pictures(view):
        name = _unique_name(picture.name, used_names)
        key_text = f"{picture.key_text}." if picture.key_text else ""
        sentences = [f"{title}.", key_text, picture.caption, _caveats_text(caveats), source]
        caption = " ".join(filter(None, sentences))
        for width_folder, (width_in, environment) in WIDTHS.items():
            make_folder(folder / width_folder)
            path = folder / width_folder / name
            if not picture.write(path, width_in):
                written.too_wide.append(path)
                continue
            content = [rf"\includegraphics{{{name}.pdf}}", rf"\caption{{{escaped(caption)}}}"]
            replace_text(
                path.with_suffix(".tex"), _latex_float(environment, f"fig:{name}", content)
            )
            written.files += [path.with_suffix(ending) for ending in (".svg", ".pdf", ".tex")]
    make_folder(folder / TABLES_FOLDER)
    for title, caveats, rows in _tables(view):
        name = _unique_name(title, used_names)
        sentences = [f"{title}.", _caveats_text(caveats), source]
        caption = escaped(" ".join(filter(None, sentences)))
        content = [rf"\caption{{{caption}}}", f"{_RESIZED_TO_PAGE}{{%", f"{tabular(rows)}}}"]
        path = folder / TABLES_FOLDER / f"{name}.tex"
        replace_text(path, _latex_float("table*", f"tab:{name}", content))
        written.files.append(path)


def _pictures(view: View) -> Iterator[tuple[str, Sequence[str], Picture]]:
    """Yield title, caveats of the writes, and picture of each picture, in the page's order."""
    for part, sections in view.sections.items():
        if part == "after_cases":
            for case in view.cases:
                for section in case.sections:
                    for picture in getattr(section.view, "pictures", ()):
                        yield case.name, case.emulation_caveats, picture
        for section in sections:
            for picture in getattr(section.view, "pictures", ()):
                title = section.declaration.title or "All cases"
                caveats = getattr(section.view, "emulation_caveats", view.emulation_caveats)
                yield title, caveats, picture


def _tables(view: View) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]]]]:
    """Yield title, caveats of the writes, and rows of each table; the first row is the header."""
    if effects := view.data.effect_table_rows:
        rows: list[Sequence[str]] = [_EFFECT_HEADINGS, *map(_effect_cells, effects)]
        estimate = f"Slowdown of the typical run, {interval_text(effects)}"
        if any(row.next for row in effects):
            estimate += ", and that of these allocations, on which the verdict rests"
        else:
            column = _EFFECT_HEADINGS.index(_THESE_ALLOCATIONS)
            rows = [[*cells[:column], *cells[column + 1 :]] for cells in rows]
        yield f"Slowdown by workload. {estimate}; {_LEGEND}", view.emulation_caveats, rows
    for sections in view.sections.values():
        for section in sections:
            table = section.view
            if getattr(table, "rows", None) and getattr(table, "headings", None):
                table_rows = [[_cell_text(*cell) for cell in row] for row in table.rows]
                yield (
                    section.declaration.title,
                    table.emulation_caveats,
                    [table.headings, *table_rows],
                )


def _effect_cells(row: Result) -> Sequence[str]:
    off, on = fom_text(row.off_median, row), fom_text(row.on_median, row)
    intervals = [ends_text(interval) for interval in (row.noise_floor, row.control)]
    return [
        case_and_arm(row),
        off,
        on,
        estimate_text(row.leading_estimate),
        ends_text(row.slowdown),
        *intervals,
        str(row.pairs),
        row.verdict_text,
    ]


def _cell_text(text: str, text_below: str) -> str:
    """The text of a cell and the smaller text below it, in one line."""
    details = "; ".join(text_below.split("\n"))
    return f"{text} ({details})" if details else text


def _caveats_text(caveats: Sequence[str]) -> str:
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in caveats)


def _unique_name(title: str, used_names: set[str]) -> str:
    """A name for files and labels, from a title's first sentence; it is added to `used_names`."""
    first_sentence = title.partition(". ")[0]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", first_sentence).strip("-").lower()
    name, number = stem, 1
    while name in used_names:
        number += 1
        name = f"{stem}-{number}"
    used_names.add(name)
    return name


def _latex_float(environment: str, label: str, content: Sequence[str]) -> str:
    """A float of LaTeX: a figure or a table with its label."""
    lines = [rf"\begin{{{environment}}}", r"\centering", *content, rf"\label{{{label}}}"]
    return "\n".join([*lines, rf"\end{{{environment}}}", ""])
