"""Links between pages lead somewhere, and README leads to every page."""

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

from records.checkout import ROOT

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
#: What code, templates and campaigns name.
_NAMED = r"\bdocs/[a-zA-Z0-9_-]+\.md(#[a-zA-Z0-9_-]+)?"


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


@cache
def anchors(page: Path) -> set[str]:
    """Names that GitHub gives the headings of a page; a repeated one ends with -1, -2, ..."""
    titles = _HEADING.findall(_FENCED.sub("", page.read_text()))
    shown = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).strip().lower() for title in titles)
    names, seen = set[str](), Counter[str]()
    for name in (re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in shown):
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def links(page: Path) -> list[str]:
    """Links of a page to files and anchors here."""
    targets = _LINK.findall(_FENCED.sub("", page.read_text()))
    return [link for link in targets if "://" not in link]


def missing(source: Path, folder: Path, targets: list[str]) -> list[str]:
    """Links without a target; they begin at `folder`, or are anchors of `source`."""
    lines = []
    for link in targets:
        name, _, anchor = link.partition("#")
        target = folder / name if name else source
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lines.append(f"{source.name}: {link}")
    return lines


def reached(start: Path) -> set[Path]:
    """Pages that links lead to from `start`, which is one of them."""
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
    """And of whatever else is text."""
    command = ["git", "grep", "-IoE", _NAMED]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = [line.split(":", 1) for line in lines.splitlines()]
    assert len(named) > 100
    assert [name for path, link in named for name in missing(ROOT / path, ROOT, [link])] == []


def test_readme_leads_to_every_page() -> None:
    pages = {page.resolve() for page in tracked("docs/*.md")}
    assert len(pages) > 20
    assert pages - reached(ROOT / "README.md") == set()
