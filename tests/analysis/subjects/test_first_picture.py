"""Tests the picture at the top of a report, with measured and published slowdowns.

Figures are worked out by hand.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.subjects.first_picture import first_picture_view
from tests.analysis.drawn import texts
from tests.analysis.subjects.made_paper_tables import (
    OFF_B_S,
    OFF_S,
    ON_B_S,
    ON_S,
    load,
    runs,
)


def test_the_picture_has_every_case_and_the_published_value_of_its_workload(tmp_path: Path) -> None:
    """Table II has rates of 73.4 (off) and 36.1 (on). Table III has times of 177.21 and 372.04."""
    two_node_runs = [replace(s, nodes=["a", "b"]) for s in runs("snap", OFF_S, ON_S)]
    groups = [runs("stream", OFF_B_S, ON_B_S, "B/s"), runs("lammps", OFF_S, ON_S), two_node_runs]
    view = first_picture_view(load(tmp_path, *groups, runs("minife", OFF_S, ON_S)))
    assert view is not None
    assert sorted(view.published_texts) == ["LAMMPS 2.10 (Table III)", "STREAM 2.03 (Table II)"]
    (plot,) = view.pictures
    svg = plot.svg("s")
    diamonds = re.search(r'<g id="s-published">.*?</g>\s*</g>', svg, re.DOTALL)
    assert diamonds[0].count("<use ") == 2
    assert {"stream", "lammps", "snap", "minife"} <= {*texts(svg)}
    (published,) = re.findall(r'Published: ([^"]*)"', svg)
    assert sorted(published.split("; ")) == ["lammps 2.099", "stream 2.033"]
    # Without an interval there is no picture.
    short = load(tmp_path / "short", runs("lammps", OFF_S[:5], ON_S[:5]))
    assert first_picture_view(short) is None


@pytest.mark.parametrize(
    ("more", "level", "labels"),
    [
        (11, "a_", {"stream", "stream on", *(f"message size=a_{n}" for n in range(11))}),
        (12, "a_", {"stream"}),
        # Names with 36 characters fit, those with 37 do not.
        (1, "x" * 22, {"stream", "stream on", f"message size={'x' * 22}0"}),
        (1, "x" * 23, {"stream"}),
    ],
)
def test_the_picture_has_at_most_twelve_effects_of_names_that_fit(
    tmp_path: Path, more: int, level: str, labels: set[str]
) -> None:
    stream_runs = runs("stream", OFF_B_S, ON_B_S, "B/s")
    levels = [
        replace(sample, arm=f"on@message_size={level}{n}", key=f"{sample.key}{n}")
        for sample in stream_runs
        if sample.arm == "on"
        for n in range(more)
    ]
    view = first_picture_view(load(tmp_path, [*stream_runs, *levels]))
    assert view is not None
    (plot,) = view.pictures
    svg = plot.svg("s")
    assert {text for text in texts(svg) if "stream" in text or "=" in text} == labels


def test_the_only_rate_of_a_case_is_its_first_level(tmp_path: Path) -> None:
    """Names have every rate but the full one. More effects than fit are left out by their names."""
    stream_runs = runs("stream", OFF_B_S, ON_B_S, "B/s")
    names = ["on@rate=50%", *(f"on@rate=50%,message={size}" for size in range(12))]
    slow_writes = [
        replace(sample, arm=name, key=f"{sample.key}{name}")
        for sample in stream_runs
        if sample.arm == "on"
        for name in names
    ]
    baselines = [sample for sample in stream_runs if sample.arm != "on"]
    view = first_picture_view(load(tmp_path, [*baselines, *slow_writes]))
    assert view is not None
    assert {text for text in texts(view.pictures[0].svg("s")) if "=" in text} == {"rate=50%"}
