from __future__ import annotations

from analysis.report.palette import COLOURS, light, marker, variable

ARMS = ["off", "on", "constant", "daly", "spin", "aa", "an arm of one's own"]


def test_arms_differ_in_colour_and_shape_and_none_is_a_rejected_run() -> None:
    assert len({light(arm) for arm in ARMS}) == len(ARMS)
    assert len({marker(arm) for arm in ARMS}) == len(ARMS)
    assert not {"x", "X"} & {marker(arm) for arm in ARMS}


def test_full_is_on_by_another_name() -> None:
    assert (variable("full"), marker("full")) == (variable("on"), marker("on"))


def test_light_colours_differ_since_each_is_replaced_by_its_variable() -> None:
    assert len({colour for colour, _ in COLOURS.values()}) == len(COLOURS)
