"""Tests pictures and tables of a run that are written for a LaTeX document."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from analysis.display.latex import escaped, tabular
from analysis.report.data import RunData
from analysis.report.page import render
from analysis.report.paper import write_for_paper
from analysis.report.plots import Hover, Picture
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import LAMMPS, STREAM, header, loaded_run, samples

pytestmark = pytest.mark.slow
#: Kind of column -> its width in points of PDF and SVG (72 points are an inch).
POINTS = {"ieee-column": 252.0, "ieee-page": 515.52, "acm-column": 239.76, "acm-page": 504.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    runs = samples(STREAM, pairs=6) + samples(LAMMPS, pairs=6)
    return loaded_run(tmp_path_factory.mktemp("paper") / "run", runs, header())


@pytest.fixture(scope="module")
def folder(run: RunData) -> Path:
    written = write_for_paper(run.path / "paper", [run])
    assert written.too_wide == []
    assert sorted(written.files) == sorted(p for p in (run.path / "paper").rglob("*.*"))
    return run.path / "paper"


@pytest.mark.parametrize(("width", "points"), POINTS.items())
def test_every_picture_is_as_wide_as_the_column_and_has_its_font(
    folder: Path, width: str, points: float
) -> None:
    names = {path.stem for path in (folder / width).glob("*.pdf")}
    assert names >= {"slowdown", "stream-runs", "stream-pairs", "lammps-runs", "lammps-pairs"}
    for name in names:
        svg = ElementTree.parse(folder / width / f"{name}.svg").getroot()
        assert float(svg.attrib["width"].removesuffix("pt")) == pytest.approx(points)
        # In SVG, letters are drawn as outlines.
        assert [tag for tag in svg.iter() if tag.tag.endswith("}text")] == []
        assert len([tag for tag in svg.iter() if tag.tag.endswith("}use")]) > 10
        pdf = (folder / width / f"{name}.pdf").read_bytes()
        (box,) = re.findall(rb"/MediaBox \[ 0 0 (\S+) ", pdf)
        assert float(box) == pytest.approx(points)
        fonts = len(re.findall(rb"/Type /FontDescriptor", pdf))
        assert fonts == len(re.findall(rb"/FontFile2 \d+ 0 R", pdf)) > 0
        assert b"/Type3" not in pdf


def test_the_caption_of_a_picture_names_the_run_and_emulation(folder: Path, run: RunData) -> None:
    text = (folder / "acm-page" / "stream-pairs.tex").read_text()
    assert text.startswith("\\begin{figure*}\n")
    assert "\\includegraphics{stream-pairs.pdf}" in text
    assert "\\label{fig:stream-pairs}" in text
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    assert caption.startswith("stream. One point per pair")
    assert f"Run {escaped(run.header.run)} of nimc on {run.header.machine}." in caption
    assert "emulation, not RDMA hardware" in caption


def test_pictures_are_in_the_order_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has pictures of all rates, and pictures of its case."""
    run = loaded_run(tmp_path / "run", swept(sweep(noise=0.005), pairs=6))
    drawn: list[str] = []
    monkeypatch.setattr(Picture, "write", lambda self, *_: not drawn.append(self.alt_text))
    monkeypatch.setattr(
        Picture, "svg", lambda self, *_: Markup("<svg>{}</svg>").format(self.alt_text)
    )
    write_for_paper(tmp_path / "paper", [run])
    on_page = dict.fromkeys(re.findall("<svg>(.*?)</svg>", render([run])))
    assert drawn[:: len(POINTS)] == [unescape(title) for title in on_page]
    firsts = [title.partition(":")[0].partition(".")[0] for title in drawn[:: len(POINTS)]]
    assert (firsts[0], firsts[1]) == ("Slowdown of every case", "Remedies")
    assert firsts[-1] == "Slowdown of every pair"


def test_the_table_of_effects_has_a_row_for_each_effect(folder: Path) -> None:
    text = (folder / "tables" / "slowdown-by-workload.tex").read_text()
    rows = re.findall(r"^(\w+) & .* \\\\$", text, re.MULTILINE)
    assert sorted(rows) == ["lammps", "stream", "workload"]


def test_the_table_of_effects_shows_the_same_interval_first_as_the_terminal(
    folder: Path, tmp_path: Path
) -> None:
    """Two allocations give no interval for the next one.

    With three, the interval for the next allocation comes first, then that of these allocations.
    """
    few = (folder / "tables" / "slowdown-by-workload.tex").read_text()
    assert "these allocations" not in few
    allocations = samples(replace(STREAM, block_noise=0.05), blocks=3, pairs=6)
    run = loaded_run(tmp_path / "run", allocations, header())
    write_for_paper(tmp_path / "paper", [run])
    text = (tmp_path / "paper" / "tables" / "slowdown-by-workload.tex").read_text()
    (row,) = (row for row in run.results if row.role == "effect")
    assert row.slowdown
    assert row.next
    following = escaped(f"{row.slowdown.value:.2f} [{row.next.low:.2f}, {row.next.high:.2f}]")
    these = f"{row.slowdown.low:.3f}-{row.slowdown.high:.3f}"
    assert " & slowdown & these allocations & " in text
    assert f" & {following} & {these} & " in text


def test_letters_get_smaller_before_a_picture_is_left_out(tmp_path: Path) -> None:
    """Glyphs of DejaVu Sans have 100 units, so a scale of 0.08 is 8 points."""
    sizes = {}
    for length in (10, 23, 200):

        def draw(figure: "object", length: int = length) -> Hover:
            axes = figure.subplots()  # type: ignore[attr-defined]
            axes.set_yticks([0], ["m" * length])
            axes.tick_params(labelsize="medium")
            return {}

        fits = Picture(
            name="x", alt_text="title", caption="caption", height_in=2.0, draw=draw
        ).write(tmp_path / str(length), 3.5)
        svg = tmp_path / f"{length}.svg"
        assert svg.exists() == fits == (tmp_path / f"{length}.pdf").exists()
        if fits:
            sizes[length] = set(re.findall(r"scale\((\S+) -", svg.read_text()))
    assert sizes[10] == {"0.08"}
    assert sizes[23] <= {"0.07", "0.06"}
    assert 200 not in sizes


def test_special_characters_of_latex_are_escaped() -> None:
    assert escaped("a_b & 5 % < 6 [x]") == r"a\_b \& 5 \% \textless{} 6 {[}x]"
    long = "w " * 30
    assert tabular([["a", "b"], ["1", long]]).startswith("\\begin{tabular}{lp{18em}}\n")
