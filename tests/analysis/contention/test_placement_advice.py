"""Tests advice on the placement of data and buffers.

The rates of the model are worked out by hand.
"""

import re
from dataclasses import replace

import pytest

from analysis.contention.parameters import UNKNOWN, Model, Parameters
from analysis.contention.placement_advice import PlacementRates, advise, sentences
from records.errors import InputError
from tests.messages import assert_message

GB = 1e9
#: Parameters of two NUMA nodes. Their capacities do not depend on the number of cores:
#:
#:     node                         0    1
#:     capacity, GB/s             100   40
#:     of a core, GB/s             10    5
#:     of communications, GB/s     20   10
#:     kept by communications     1/2  1/5
#:
#: The last line is the share of their rate that communications keep if the capacity is exceeded.
LOCAL = Parameters(
    n_par_max=12,
    t_par_max_b_s=100 * GB,
    t_par_max2_b_s=100 * GB,
    n_seq_max=12,
    t_seq_max_b_s=100 * GB,
    delta_l_b_s=0.0,
    delta_r_b_s=0.0,
    b_comp_seq_b_s=10 * GB,
    b_comm_seq_b_s=20 * GB,
    alpha=0.5,
)
REMOTE = Parameters(
    n_par_max=12,
    t_par_max_b_s=40 * GB,
    t_par_max2_b_s=40 * GB,
    n_seq_max=12,
    t_seq_max_b_s=40 * GB,
    delta_l_b_s=0.0,
    delta_r_b_s=0.0,
    b_comp_seq_b_s=5 * GB,
    b_comm_seq_b_s=10 * GB,
    alpha=0.2,
)
MODEL = Model(name="made", cores=12, numa_per_socket=1, numa_nodes=2, local=LOCAL, remote=REMOTE)


def placements(rows: list[PlacementRates]) -> list[tuple[int, int]]:
    """Return the nodes of data and of buffers of each row."""
    return [(row.comp_node, row.comm_node) for row in rows]


def test_placements_of_twelve_cores_are_ordered_by_their_smaller_share() -> None:
    """Twelve cores demand 120 GB/s.

    In each line, the first number is the node of the data, the second that of the buffers:

    0, 0: communications keep half of 20 GB/s; 90 of 100 remain for the cores.
    1, 0: the cores have all 40 of node 1; communications keep half of 20.
    0, 1: the cores have all 100 of node 0; communications keep half of 10.
    1, 1: communications keep a fifth of 10; 38 of 40 remain for the cores.

    Shares are relative to 100 and 20, the best rates of each side without the other.
    """
    rows = advise(MODEL, 12)
    assert placements(rows) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    rates = [(row.comp_b_s, row.comm_b_s) for row in rows]
    assert rates == [(90 * GB, 10 * GB), (40 * GB, 10 * GB), (100 * GB, 5 * GB), (38 * GB, 2 * GB)]
    shares = [pytest.approx(pair) for pair in ((0.9, 0.5), (0.4, 0.5), (1.0, 0.25), (0.38, 0.1))]
    assert [(row.comp_share, row.comm_share) for row in rows] == shares


def test_placements_of_the_calibration_are_measured() -> None:
    """The calibration has data and buffers on node 0, and both on node 1."""
    measured = {(row.comp_node, row.comm_node) for row in advise(MODEL, 12) if row.measured}
    assert measured == {(0, 0), (1, 1)}


def test_other_placements_are_measured_if_they_are_listed() -> None:
    rows = advise(MODEL, 12, measured_placements=[(1, 0)])
    measured = {(row.comp_node, row.comm_node) for row in rows if row.measured}
    assert measured == {(0, 0), (1, 0), (1, 1)}


def test_numbers_of_cores_with_which_sides_lose() -> None:
    """With both on node 0, 8 cores lose nothing: 80 + 20 GB/s. Beside 9 cores, communications keep
    half, 10 GB/s, and the cores have all 90. 10 cores have 90 of 100 GB/s.

    With both on node 1, 6 cores lose nothing: 30 + 10 GB/s. Beside 7 cores, communications keep 5
    GB/s. 8 cores have 38 of 40 GB/s.
    """
    counts = {
        (row.comp_node, row.comm_node): (row.unharmed_cores, row.both_lose_cores)
        for row in advise(MODEL, 1)
    }
    assert counts[0, 0] == (8, 10)
    assert counts[1, 1] == (6, 8)
    # If data and buffers are on different nodes, computations never lose by the equations.
    assert counts[0, 1][1] is counts[1, 0][1] is None


def test_the_node_of_the_data_may_be_given() -> None:
    assert placements(advise(MODEL, 12, comp_node=1)) == [(1, 0), (1, 1)]


def figures(text: str) -> list[str]:
    """Return the numbers of a text with their units or nouns, in order."""
    return re.findall(r"node \d+|[\d.]+ (?:of \d+ )?(?:GB/s|%|cores)", text)


def test_sentences_show_the_best_placement_with_its_rates_shares_and_numbers_of_cores() -> None:
    rates, counts = sentences(MODEL, 12, advise(MODEL, 12))
    assert figures(rates) == [
        "12 of 12 cores",
        "node 0",
        "node 0",
        "90.0 GB/s",
        "90 %",
        "10.0 GB/s",
        "50 %",
    ]
    assert figures(counts) == ["8 cores", "10 cores"]


def test_sentences_say_whether_the_placement_was_measured_and_that_rates_are_the_models() -> None:
    measured, *_ = sentences(MODEL, 12, advise(MODEL, 12))
    not_measured, *_ = sentences(MODEL, 12, advise(MODEL, 12, comp_node=1))
    assert "(placement measured). By the model, computations" in measured
    assert "(placement predicted). By the model, computations" in not_measured


def test_rates_are_those_of_the_given_number_of_cores() -> None:
    """Five cores demand 50 GB/s on node 0, and communications 20 GB/s: 70 of 100."""
    (row,) = (row for row in advise(MODEL, 5) if (row.comp_node, row.comm_node) == (0, 0))
    assert (row.comp_b_s, row.comp_share) == (50 * GB, 1.0)
    assert (row.comm_b_s, row.comm_share) == (20 * GB, 1.0)


def test_a_measured_placement_comes_before_an_equal_one_that_was_not() -> None:
    """Two cores take nothing from communications: 20 GB/s on node 0, and 20.06 GB/s on node 1."""
    model = replace(MODEL, remote=replace(REMOTE, b_comm_seq_b_s=20.06 * GB))
    assert placements(advise(model, 2))[:2] == [(0, 0), (0, 1)]


def test_a_model_without_parameters_gives_no_advice() -> None:
    unknown = Model(
        name="nothing", cores=4, numa_per_socket=1, numa_nodes=1, local=UNKNOWN, remote=None
    )
    (row,) = advise(unknown, 4)
    assert (row.comp_b_s, row.comm_share, row.unharmed_cores) == (None, None, None)
    (sentence,) = sentences(unknown, 4, [row])
    assert "nothing" in sentence
    assert figures(sentence) == ["4 cores"]


@pytest.mark.parametrize(
    ("cores", "comp_node", "option", "value", "allowed"),
    [
        (0, None, "--cores", "0", "1 to 12"),
        (13, None, "--cores", "13", "1 to 12"),
        (12, 2, "--comp-node", "2", "0, 1"),
    ],
)
def test_cores_and_nodes_that_the_model_lacks_are_refused(
    cores: int, comp_node: int | None, option: str, value: str, allowed: str
) -> None:
    with pytest.raises(InputError) as error:
        advise(MODEL, cores, comp_node)
    assert_message(str(error.value), option, value, allowed=allowed)
