"""Brings the rows of `docs/workloads.md` up to date with the records of the workloads."""

from __future__ import annotations

import re

from records.checkout import ROOT
from records.files import replace_text
from reframe_tests.workload import load, names

PAGE = ROOT / "docs/workloads.md"


def page(text: str) -> str:
    """The page, Markdown, with a row of each workload."""
    records = {name: load(name) for name in names()}
    rows = "".join(
        f"| `{name}`: {each.title} | {each.fom} ({each.unit}) | {each.better} | {each.sanity} |"
        f" {', '.join(f'`{key}`' for key in sorted(each.extra))} |\n"
        for name, each in records.items()
    )
    return re.sub(r"(?<=\|---\|---\|---\|---\|---\|\n)(\|.*\n)*", lambda _: rows, text)


if __name__ == "__main__":
    replace_text(PAGE, page(PAGE.read_text()))
