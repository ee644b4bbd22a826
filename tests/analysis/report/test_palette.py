from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from analysis.report.plots import (
    COLOURS,
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    light,
    marker,
    themed_svg,
    variable,
)
from nimc.records.arms import ARMS

TREATMENTS = ["off", "on", "constant", "daly", "spin", "aa", "an arm of one's own"]


def test_arms_differ_in_colour_and_shape_and_none_is_a_rejected_run() -> None:
    assert len({light(name) for name in TREATMENTS}) == len(TREATMENTS)
    assert len({marker(name) for name in TREATMENTS}) == len(TREATMENTS)
    assert not {"x", "X"} & {marker(name) for name in TREATMENTS}


def test_full_is_on_by_another_name() -> None:
    assert (light("full"), marker("full")) == (light("on"), marker("on"))


@pytest.mark.parametrize(
    ("treatment", "css"),
    [
        ("on@rate=25%,reserved_cores=1", "on"),
        ("off@load=nt_write", "off"),
        ("mine@rate=25%", "other"),
        ("ink", "ink"),
    ],
)
def test_treatments_have_the_variable_of_their_arm(treatment: str, css: str) -> None:
    """What stands in a name, such as `@ = , %`, is no part of a CSS variable."""
    assert variable(treatment) == css


def test_light_colours_differ_since_each_is_replaced_by_its_variable() -> None:
    # `full` is `on` by another name, and shares its colour.
    arms = [arm.colours[0] for name, arm in ARMS.items() if name != "full"]
    colours = [*arms, *(light for light, _ in COLOURS.values())]
    assert len(set(colours)) == len(colours)


def test_levels_differ_in_colour_and_shape() -> None:
    assert len(LEVEL_COLOURS) == len(LEVEL_MARKERS) == len(set(LEVEL_MARKERS)) == 6


def test_labels_keep_what_looks_like_an_id() -> None:
    figure = Figure()
    figure.subplots().set_xlabel("grid=fine, a < b")
    svg = themed_svg(figure, "f", 'a "title" & more')
    assert "grid=fine, a &lt; b" in svg
    assert 'aria-label="a &#34;title&#34; &amp; more"' in svg
    assert 'id="f-figure_1"' in svg
