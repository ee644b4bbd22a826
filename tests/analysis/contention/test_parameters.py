"""Tests predictions of the contention model for the nine published machines.

They are compared with a second implementation in plain Python, which follows the text of the paper
and computes one point at a time. Cases that the text leaves open are worked out by hand.
"""

import dataclasses
import json

import numpy as np
import pytest

from analysis.contention import evaluate
from analysis.contention.parameters import (
    Parameters,
    load_model,
    placements,
    predict,
    rates_together,
)
from records.errors import InputError
from tests.analysis.contention.fitted import FITTED, HENRI


def parameters(name, **changed):
    return dataclasses.replace(evaluate.load_published(name).local, **changed)


def test_unknown_parameters_and_cores_that_exceed_the_capacity():
    # The capacity is 10. One core needs 8, communications at least 0.4 * 10, which is 12 together.
    # So the share that communications keep falls from 1 at 0 cores to 0.4 at 4 cores: 0.85, 0.7,
    # 0.55, then 0.4. The total falls by 1 for each core from n = 2 on.
    p = Parameters(
        n_par_max=1,
        t_par_max_b_s=10.0,
        t_par_max2_b_s=7.0,
        n_seq_max=4,
        t_seq_max_b_s=9.0,
        delta_l_b_s=1.0,
        delta_r_b_s=0.0,
        b_comp_seq_b_s=8.0,
        b_comm_seq_b_s=10.0,
        alpha=0.4,
    )
    comp, comm = rates_together(p, np.arange(1, 6))
    assert comm == pytest.approx([8.5, 7.0, 5.5, 4.0, 4.0])
    assert comp == pytest.approx([1.5, 2.0, 2.5, 3.0, 3.0])
    # The slope delta_r is unknown. It is used only beyond n_seq_max, which is 14.
    comp, comm = rates_together(parameters("dahu", delta_r_b_s=None), np.arange(1, 17))
    assert not np.isnan(comp[:14]).any()
    assert np.isnan([comp[14:], comm[14:]]).all()
    # Without a capacity, rates have no bound.
    unknown = ("t_par_max_b_s", "n_par_max", "t_seq_max_b_s", "n_seq_max", "alpha")
    comp, comm = rates_together(parameters("diablo", **dict.fromkeys(unknown)), np.array([1, 2, 3]))
    assert comp == pytest.approx([2221.1e6, 4442.2e6, 6663.3e6])
    assert comm == pytest.approx([12139.7e6] * 3)
    # Without communications, 16 cores need 71286.4 MB/s, which is below the capacity of 73423.0. 17
    # cores need 75741.8 MB/s, which is above.
    comp, comm = rates_together(
        parameters("henri", b_comm_seq_b_s=0.0, alpha=None), np.arange(1, 19)
    )
    assert (comm == 0).all()
    assert comp[15:17] == pytest.approx([71286.4e6, 73423.0e6])


def capacity(m, n):
    if n <= m.n_par_max:
        return m.t_par_max_b_s
    if n <= m.n_seq_max:
        return m.t_par_max_b_s - m.delta_l_b_s * (n - m.n_par_max)
    return m.t_par_max2_b_s - m.delta_r_b_s * (n - m.n_seq_max)


def fits(m, n):
    return n * m.b_comp_seq_b_s + m.alpha * m.b_comm_seq_b_s < capacity(m, n)


def room(m, n):
    return min(capacity(m, n) - n * m.b_comp_seq_b_s, m.b_comm_seq_b_s)


def kept(m, n):
    """Return the share of their rate that communications keep if the capacity is exceeded."""
    if m.n_seq_max - m.n_par_max <= 1 or n >= m.n_seq_max:
        return m.alpha
    last = n
    while last > 0 and not fits(m, last):
        last -= 1
    before = room(m, last) / m.b_comm_seq_b_s if last else 1.0
    return before - (before - m.alpha) * (n - last) / (m.n_seq_max - last)


def parallel(m, n):
    if fits(m, n):
        return n * m.b_comp_seq_b_s, room(m, n)
    comm = kept(m, n) * m.b_comm_seq_b_s
    return capacity(m, n) - comm, comm


def alone_at(m, n):
    return min(n * m.b_comp_seq_b_s, capacity(m, n), m.t_seq_max_b_s)


@pytest.mark.parametrize("name", evaluate.published_names())
def test_predictions_agree_with_the_second_implementation(name):
    model = evaluate.load_published(name)

    def side(node):
        return model.local if node < model.numa_per_socket else model.remote

    for comp_node, comm_node in placements(model):
        p = predict(model, comp_node, comm_node)
        for n in range(1, model.cores + 1):
            if comp_node == comm_node:
                comp, comm = parallel(side(comp_node), n)
            else:
                comp = alone_at(side(comp_node), n)
                nominal = side(comm_node).b_comm_seq_b_s
                comm = parallel(dataclasses.replace(model.local, b_comm_seq_b_s=nominal), n)[1]
            rates = (p.comp_par_b_s, p.comm_par_b_s, p.comp_alone_b_s, p.comm_alone_b_s)
            expected = [comp, comm, alone_at(side(comp_node), n), side(comm_node).b_comm_seq_b_s]
            assert [rate[n - 1] for rate in rates] == pytest.approx(expected, rel=1e-12)


# Files of models.


LOCAL = HENRI.as_dict()["local"]


def read(folder, model, **change):
    path = folder / "m.json"
    path.write_text(json.dumps(model.as_dict() | change))
    return load_model(path)


def test_a_written_model_is_read_again(tmp_path):
    assert read(tmp_path, FITTED) == FITTED
    assert read(tmp_path, HENRI) == HENRI
    assert FITTED.as_dict()["schema"] == 4


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 3}, "allowed: a mapping with schema 4"),
        ({"numa_nodes": 257}, "numa_nodes: 257 found; allowed: less than or equal to 256"),
        ({"reach": {"local": -1}}, "reach.local: -1 found"),
        ({"local": {}}, "local.n_par_max: missing"),
        ({"remote": LOCAL | {"n_seq_max": 3.5}}, "n_seq_max: 3.5 found; allowed: a whole"),
        ({"local": LOCAL | {"delta_r_b_s": 1e31}}, "local.delta_r_b_s: "),
        ({"local": LOCAL | {"alpha": 1.5}}, "alpha: 1.5 found; allowed: less than or equal to 1"),
    ],
)
def test_mistakes(tmp_path, change, text):
    with pytest.raises(InputError, match=r"m\.json: ") as error:
        read(tmp_path, FITTED, **change)
    assert text in str(error.value)
