"""Tests that names, units and reasons from other people are escaped wherever they are shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from analysis.display.lines import aligned_table, visible
from analysis.effects.estimate import results
from analysis.report.page import make_reports
from analysis.report.plots import drawing, themed_svg
from nimc.cli import answer
from nimc.cli import results as shown
from records.text import one_line
from tests.analysis.synthetic import STREAM, commands, frame_of, header, reject, samples, write_run

#: A text with codes that clear the screen, set the terminal's title and reverse the direction of
#: text; with a tag, an invalid formula, and a script.
NASTY = '\x1b[2J\x1b]0;x\x07\u202e[/b] $\\frac{$ :boom: "><script>alert(1)</script>&'

#: Fields of a sample of a third-party check, which has its own units.
THEIRS: dict[str, Any] = {"workload": "theirs", "fom_unit": NASTY, "notes": [NASTY]}


def test_unprintable_characters_are_escaped_and_line_breaks_kept() -> None:
    assert visible("a\x1b[2J\r\nb\u202e\udcff ü") == "a\\x1b[2J\\r\nb\\u202e\\udcff ü"
    assert one_line("a\nb\tc") == "a\\nb\\tc"


def test_tables_and_prose_show_names_as_they_are() -> None:
    text = aligned_table([NASTY, "b"], [[NASTY, NASTY]], width=200)
    text += click.unstyle(answer.prose(NASTY))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert text.count('[/b] $\\frac{$ :boom: "><script>') == 4


def test_a_plot_with_such_labels_is_a_plain_picture() -> None:
    with drawing(3.0) as figure:
        axes = figure.subplots()
        name = NASTY[NASTY.index("[/b]") :]  # control characters are invalid in XML
        axes.plot([1, 2], [1, 2], label=name)
        axes.set_xlabel(name)
        axes.legend()
        svg = themed_svg(figure, "p", name)
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == name
    texts = {
        "".join(element.itertext()).strip() for element in root.iter() if "text" in element.tag
    }
    assert name in texts
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_results_and_a_page_of_such_a_run_have_no_script_of_its_author(tmp_path: Path) -> None:
    runs = [replace(sample, **THEIRS) for sample in samples(STREAM, pairs=7)]
    on = next(i for i, sample in enumerate(runs) if sample.arm == "on")
    runs[on] = reject(runs[on], "injector_died", NASTY)
    parts = shown.results_tables(results(frame_of(runs)), header(), commands())
    text = click.unstyle("\n".join(map(str, parts)))
    assert "injector_died: \\x1b[2J" in text
    assert "\x1b" not in text
    (report,) = make_reports([write_run(tmp_path / "run", runs)])
    page = report.page.read_text()
    assert "\\x1b[2J\\x1b]0;x\\x07\\u202e[/b]" in page
    assert all(character.isprintable() or character == "\n" for character in page)
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page
    assert '"><script' not in page
