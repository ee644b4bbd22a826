"""Disturbances in made series of a run, and the line of the judge that names each.

Figures are worked out by hand.
"""

from dataclasses import replace
from typing import Any

import pytest

from conductor.judge.series import Rails, Series
from tests.conductor.made_series import assert_named, device, node, reasons

MB = 1_000_000


# Conditions of the nodes. The limits are the same for all arms, with and without writers.


@pytest.mark.parametrize(
    ("series", "limits", "reason"),
    [
        (Series(nodes=[node()]), {}, None),
        # At the limits: foreign processes use 2.5 s in 10 s, the hypervisor takes 20 of 1000 ticks.
        (Series(nodes=[node(foreign_s=2.5, stolen=20)]), {}, None),
        (
            Series(nodes=[node(foreign_s=10.34)]), {},
            "n1: foreign processes used 1.03 hardware threads (most: stress); allowed: 0.25",
        ),
        (Series(nodes=[node(foreign_s=10.34)]), {"foreign_cpus": None}, None),
        (Series(nodes=[node(foreign_s=None)]), {}, None),  # foreign processes are hidden
        (
            Series(nodes=[node(), node(name="n2", foreign_s=9.0, busiest_program="")]), {},
            "n2: foreign processes used 0.90 hardware threads (most: unknown)",
        ),
        (
            Series(nodes=[node(stolen=31)]), {},
            "n1: the hypervisor took 3.1 % of the processor time; allowed: 2.0 %",
        ),
        (Series(nodes=[node(stolen=31)]), {"steal_share": None}, None),
        (Series(nodes=[node(frequencies_hz=[2.6e9, 2.8e9], usual_hz=3e9)]), {}, None),
        (
            Series(nodes=[node(frequencies_hz=[2.58e9, 2.8e9], usual_hz=3e9)]), {},
            "n1: its cores ran at 2.69 GHz, in the accepted runs of this block at 3.00 GHz;"
            " allowed: 10 % less",
        ),
        (Series(nodes=[node(frequencies_hz=[1e9], usual_hz=3e9)]), {"frequency_drop": None}, None),
        (Series(nodes=[node(frequencies_hz=[1e9])]), {}, None),  # too few accepted runs
        (Series(nodes=[node(usual_hz=3e9)]), {}, None),  # the frequency could not be read
    ],
)  # fmt: skip
def test_conditions_of_a_run(series: Series, limits: dict[str, Any], reason: str | None) -> None:
    assert_named(reasons(series, **limits), reason)


def silent(*nodes: Any, direction: Any = "received", alone_b_s: float = 1e9) -> Series:
    """Return the series of a run of 10 s in which nothing may write in `direction`.

    Writers of the block reach 1 GB/s without an application. 2 % of 10 s at this rate are 200 MB.
    """
    return Series(nodes=list(nodes), silent=[direction], alone_b_s=alone_b_s)


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (silent(node(device(200 * MB))), None),
        (
            silent(node(device(201 * MB))),
            "n1 received 201.0 MB (rdma:m0/1) although nothing wrote; allowed: 200.0 MB",
        ),
        (replace(silent(node(device(201 * MB))), silent=[]), None),  # the writers of this arm write
        (silent(node(device(201 * MB)), alone_b_s=0.0), None),  # no uncontended rate was measured
        # What the application sends is no foreign write, and does not hide received bytes.
        (silent(node(device(0, 90_000 * MB))), None),
        (silent(node(device(812 * MB, 90_000 * MB))), "n1 received 812.0 MB"),
        (silent(node(device(0, 812 * MB)), direction="sent"), "n1 sent 812.0 MB"),
        (silent(node(device(None, 812 * MB)), direction="sent"), None),
        (silent(node(device(812 * MB, None))), None),
        (silent(node()), None),  # no device
        # Targets receive each other's messages. In the second case, 30 MB/s come from elsewhere.
        (silent(node(device(5e9, 5e9)), node(device(5e9, 5e9), name="n2")), None),
        (
            silent(node(device(5e9, 5e9)), node(device(5.3e9, 5e9), name="n2")),
            "n1, n2 received 300.0 MB more than they sent (rdma:m0/1) although nothing wrote;"
            " allowed: 200.0 MB",
        ),
        (silent(node(device(5e9, 5e9)), node(device(5e9, 5.3e9), name="n2")), None),
        # The second target has no count: the 300 MB of the first one may be its messages.
        (silent(node(device(5.3e9, 5e9)), node(device(None, 5e9), name="n2")), None),
        (
            silent(node(device(5e9, 5e9)), node(device(5e9, 5.3e9), name="n2"), direction="sent"),
            "n1, n2 sent 300.0 MB more than they received",
        ),
    ],
)  # fmt: skip
def test_bytes_that_pass_although_nothing_writes(series: Series, reason: str | None) -> None:
    assert_named(reasons(series), reason)
    assert reasons(series, foreign_share=None) == []


def railed(second: tuple[float, float], required: list[str], allowed: list[str]) -> Series:
    """Return a series with two rails. The first receives 97 MB and sends 1 MB.

    `second` has the MB that the second rail receives and sends. A rail is a network device of a
    target.
    """
    rails = [device(97 * MB, MB, "m0"), device(int(second[0] * MB), int(second[1] * MB), "m1")]
    return Series(nodes=[node(*rails)], rails=Rails(["m0", "m1"], required, allowed))


@pytest.mark.parametrize(
    ("second", "required", "allowed", "reason"),
    [
        ((2, 0), ["m0"], ["m0"], None),  # 2 of 100 MB
        ((1.5, 1), ["m0"], ["m0"], "m1 passed 2.50 of 100.50 MB of all rails; the policy names m0"),
        ((50, 0), ["m0"], ["m0"], "allowed elsewhere: 2 %"),
        ((50, 0), ["m0", "m1"], ["m0", "m1"], None),
        ((2, 0), ["m0", "m1"], ["m0", "m1"], "m1 passed 2.00 of 100.00 MB of all rails"),
        ((1, 0), ["m1"], ["m1"], "m0 passed 98.00 of 99.00 MB of all rails; the policy names m1"),
        ((50, 0), ["m0"], ["m0", "m1"], None),
        ((50, 0), [], [], None),
    ],
)
def test_bytes_pass_the_rails_that_the_policy_names_and_no_other(
    second: tuple[float, float], required: list[str], allowed: list[str], reason: str | None
) -> None:
    assert_named(reasons(railed(second, required, allowed)), reason)


def test_rails_of_all_targets_count_and_each_must_have_a_counter() -> None:
    forth = [device(10 * MB, 0, "m0"), device(3 * MB, 0, "m1")]
    back = [device(0, 190 * MB, "m0"), device(0, 0, "m1")]
    series = Series(
        nodes=[node(*forth), node(*back, name="n2")], rails=Rails(["m0", "m1"], ["m0"], ["m0"])
    )
    assert reasons(series) == []
    nothing = replace(railed((0, 0), ["m0"], ["m0"]), nodes=[node(device(), device(name="m1"))])
    assert_named(reasons(nothing), "m0 passed 0.00 of 0.00 MB")
    missing = "n2: a rail's byte counter is missing or was set back (m0, m1)"
    for lost in (
        [],
        [device(-1, 0, "m0"), back[1]],
        [device(None, 0, "m0"), back[1]],
        [device(0, None, "m0"), back[1]],
    ):
        two = [series.nodes[0], node(*lost, name="n2")]
        assert reasons(replace(series, nodes=two)) == [missing]
