"""Tests that links between pages have targets, and that links lead from README to every page."""

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

from records.checkout import ROOT

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: References to pages in code, templates and campaigns.
_NAMED = r"\bdocs/[a-zA-Z0-9_-]+\.md(#[a-zA-Z0-9_-]+)?"


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page.

    If a heading is repeated, its next anchors end with -1, -2, ...
    """
    titles = _HEADING.findall(_FENCED.sub("", page.read_text()))
    shown = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).strip().lower() for title in titles)
    names, seen = set[str](), Counter[str]()
    for name in (re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in shown):
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def links(page: Path) -> list[str]:
    """Return the links of a page to files and anchors of this checkout."""
    targets = _LINK.findall(_FENCED.sub("", page.read_text()))
    return [link for link in targets if "://" not in link]


def missing(source: Path, folder: Path, targets: list[str]) -> list[str]:
    """Return the links whose target does not exist.

    Paths are relative to `folder`. A link without a path is an anchor of `source`.
    """
    lines = []
    for link in targets:
        name, _, anchor = link.partition("#")
        target = folder / name if name else source
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lines.append(f"{source.name}: {link}")
    return lines


def reached(start: Path) -> set[Path]:
    """Return `start` and all pages to which links lead from it, directly or by other pages."""
    pages, waiting = set[Path](), [start.resolve()]
    while waiting:
        page = waiting.pop()
        if page not in pages:
            pages.add(page)
            names = (link.partition("#")[0] for link in links(page))
            waiting += [(page.parent / name).resolve() for name in names if name.endswith(".md")]
    return pages


def test_links_of_pages() -> None:
    pages = tracked("*.md")
    assert [line for page in pages for line in missing(page, page.parent, links(page))] == []


def test_links_of_code() -> None:
    """Checks references to pages in all tracked text files."""
    command = ["git", "grep", "-IoE", _NAMED]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [line.split(":", 1) for line in lines.splitlines()]
    assert len(named) > 100
    assert [name for path, link in named for name in missing(ROOT / path, ROOT, [link])] == []


def test_readme_leads_to_every_page() -> None:
    pages = {page.resolve() for page in tracked("docs/*.md")}
    assert len(pages) > 20
    assert pages - reached(ROOT / "README.md") == set()
