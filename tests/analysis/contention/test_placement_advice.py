"""Advice from a model whose rates are worked out by hand."""

import pytest

from analysis.contention.parameters import UNKNOWN, Model, Parameters
from analysis.contention.placement_advice import PlacementRates, advise, sentences
from records.errors import InputError

GB = 1e9
#: Both memories have one capacity, whatever the number of cores. Local: 100 GB/s, 10 a core, 20
#: for communications, of which they always keep half. Remote: 40, 5, 10, a fifth.
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
    return [(row.comp_node, row.comm_node) for row in rows]


def test_twelve_cores_by_hand() -> None:
    """120 GB/s wanted. Together on node 0: 10 for communications, 90 remain for the cores.

    Data on 0 alone: 100; buffers on 1 then keep half of 10. Data on 1 alone: 40, buffers on 0 half
    of 20. Together on 1: a fifth of 10, and 38.
    """
    rows = advise(MODEL, 12)
    assert placements(rows) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    rates = [(row.comp_b_s, row.comm_b_s) for row in rows]
    assert rates == [(90 * GB, 10 * GB), (40 * GB, 10 * GB), (100 * GB, 5 * GB), (38 * GB, 2 * GB)]
    shares = [pytest.approx(pair) for pair in ((0.9, 0.5), (0.4, 0.5), (1.0, 0.25), (0.38, 0.1))]
    assert [(row.comp_share, row.comm_share) for row in rows] == shares
    # Both streams lay there when the parameters were measured.
    assert [row.measured for row in rows] == [True, False, False, True]


def test_how_many_cores_until_both_lose_by_hand() -> None:
    """On node 0: 80 + 20 fit; of nine cores the 90 + 10 do not, so communications keep half, and
    ten cores have 90 of 100. On node 1: 30 + 10 fit, seven cores leave 5 for communications, eight
    have 38 of 40.
    """
    rows = {(row.comp_node, row.comm_node): row for row in advise(MODEL, 1)}
    counts = {
        placement: (row.unharmed_cores, row.both_lose_cores) for placement, row in rows.items()
    }
    assert counts[0, 0] == (8, 10)
    assert counts[1, 1] == (6, 8)
    # Apart, the equations let computations never lose.
    assert counts[0, 1][1] is counts[1, 0][1] is None


def test_the_data_may_be_given_and_the_advice_is_said() -> None:
    rows = advise(MODEL, 12, comp_node=1)
    assert placements(rows) == [(1, 0), (1, 1)]
    assert sentences(MODEL, 12, advise(MODEL, 12)) == [
        "With 12 of 12 cores computing: data on NUMA node 0, buffers on node 0 (measured):"
        " computations 90.0 GB/s, 90 % of the best rate alone; communications 10.0 GB/s, 50 %.",
        "There neither side loses up to 8 cores; both lose from 10 cores on.",
    ]
    assert "buffers on node 0 (predicted)" in sentences(MODEL, 12, rows)[0]
    marked = advise(MODEL, 12, 1, measured=[(1, 0)])
    assert [row.measured for row in marked] == [True, True]


def test_what_a_model_does_not_know_is_not_said() -> None:
    unknown = Model(
        name="nothing", cores=4, numa_per_socket=1, numa_nodes=1, local=UNKNOWN, remote=None
    )
    (row,) = advise(unknown, 4)
    assert (row.comp_b_s, row.comm_share, row.unharmed_cores) == (None, None, None)
    (sentence,) = sentences(unknown, 4, [row])
    assert sentence.endswith("predicts no placement.")


@pytest.mark.parametrize(("cores", "node"), [(0, None), (13, None), (12, 2)])
def test_cores_and_nodes_that_are_not_there_are_refused(cores: int, node: int | None) -> None:
    with pytest.raises(InputError, match=r"^--(cores: (0|13)|comp-node: 2) found; allowed: "):
        advise(MODEL, cores, node)
