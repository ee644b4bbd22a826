"""Sections of the report. Each is declared once, by the module of its subject.

A module of `analysis.subjects` lists its sections as `SECTIONS`. A section says when it applies,
what its template shows, its title in the contents, and its data files. No other module names a
section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

import polars as pl

from analysis.report.data import RunData

#: The package of the modules that declare sections, and of their templates.
SUBJECTS = "analysis.subjects"
#: Name of a data file next to the page -> its content: a JSON document or a table.
Files = Mapping[str, Mapping[str, Any] | pl.DataFrame]
#: Part of the page in which a section stands: before or after all runs of the page, below
#: the headline of a run (`lead`), before or after the cases of a run, or within a case.
Part = Literal["before_runs", "after_runs", "lead", "before_cases", "after_cases", "case"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section. The sections of one part of the page are in order of `position`."""

    part: Part
    position: int
    #: Name of the section. Its id on the page is the id of the run or case, followed by this name.
    #: Its template is NAME.html unless `template` is set.
    name: str
    #: Returns the template's `view`, or None if the section does not apply. The argument is a
    #: `RunData` for sections of a run, and a `CaseData` for sections of a case. For sections of the
    #: page, it is the list of all `RunData`, the newest first.
    make_view: Callable[[Any], object | None]
    #: Heading of the section and its entry in the contents. If empty, it has neither. Sections of
    #: the parts `lead` and `case` have no entry.
    title: str = ""
    #: Returns the data files of all runs of a page. It leaves out files without rows.
    make_files: Callable[[Sequence[RunData]], Files] | None = None
    #: Text of a link to the section, which stands below the table of effects. If empty, there is no
    #: link. Only sections of the part `after_cases` can have one.
    link: str = ""
    #: True if only its title is shown until a reader opens it.
    folded: bool = False
    #: Name of a template that several sections share. If empty, the section has its own template.
    template: str = ""

    @property
    def template_file(self) -> str:
        """File name of its template."""
        return f"{self.template or self.name}.html"


@dataclass(frozen=True)
class ShownSection:
    """A section that applies, with its view, for the template of the page."""

    declaration: Section
    id: str
    view: object


def sections_shown(part: Part, data: object, anchor: str = "") -> list[ShownSection]:
    """Return the sections of a part of the page that apply.

    `data` is the argument of `Section.make_view`: the run, the case, or all runs. `anchor` is the
    id of the run or case on the page.
    """
    return [
        ShownSection(section, f"{anchor}{section.name}", view)
        for section in declared_sections()
        if section.part == part and (view := section.make_view(data)) is not None
    ]


def data_files(runs: Sequence[RunData]) -> Files:
    """Return the data files of all sections."""
    files: dict[str, Mapping[str, Any] | pl.DataFrame] = {}
    for section in declared_sections():
        if section.make_files:
            files |= section.make_files(runs)
    return files


@cache
def declared_sections() -> list[Section]:
    """Return all sections of the modules of `SUBJECTS`, in order of `position`.

    The modules are imported at the first call only.
    """
    package = import_module(SUBJECTS)
    modules = (
        import_module(f"{SUBJECTS}.{module.name}") for module in iter_modules(package.__path__)
    )
    sections = [section for module in modules for section in getattr(module, "SECTIONS", ())]
    return sorted(sections, key=lambda section: section.position)
