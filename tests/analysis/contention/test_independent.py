"""Prediction against a second implementation: one point at a time, plain Python, from the text.

It shares no code with `equations` and `predict`: equation 5's last number of cores is searched for
anew at each point, and placements are chosen as algorithms 3 and 4 of the paper do.
"""

from __future__ import annotations

import pytest

from analysis.contention import evaluate
from analysis.contention.predict import placements, predict


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
    """Share that communications keep beyond the capacity."""
    if m.n_seq_max - m.n_par_max <= 1 or n >= m.n_seq_max:
        return m.alpha
    last = n
    while last > 0 and not fits(m, last):
        last -= 1
    before = room(m, last) / m.b_comm_seq_b_s if last else 1.0
    return before - (before - m.alpha) * (n - last) / (m.n_seq_max - last)


def both(m, n):
    if fits(m, n):
        return n * m.b_comp_seq_b_s, room(m, n)
    comm = kept(m, n) * m.b_comm_seq_b_s
    return capacity(m, n) - comm, comm


def alone(m, n):
    return min(n * m.b_comp_seq_b_s, capacity(m, n), m.t_seq_max_b_s)


class Renamed:
    """The parameters of one placement with another's rate of communications."""

    def __init__(self, m, b_comm_seq_b_s):
        self.__dict__.update(vars(m), b_comm_seq_b_s=b_comm_seq_b_s)


@pytest.mark.parametrize("name", evaluate.published_names())
def test_agrees_to_1e_12(name):
    model = evaluate.load_published(name)

    def of(node):
        return model.local if node < model.numa_per_socket else model.remote

    for comp_node, comm_node in placements(model):
        p = predict(model, comp_node, comm_node)
        for n in range(1, model.cores + 1):
            if comp_node == comm_node:
                comp, comm = both(of(comp_node), n)
            else:
                comp = alone(of(comp_node), n)
                comm = both(Renamed(model.local, of(comm_node).b_comm_seq_b_s), n)[1]
            found = [
                p.comp_par_b_s[n - 1],
                p.comm_par_b_s[n - 1],
                p.comp_alone_b_s[n - 1],
                p.comm_alone_b_s[n - 1],
            ]
            expected = [comp, comm, alone(of(comp_node), n), of(comm_node).b_comm_seq_b_s]
            assert found == pytest.approx(expected, rel=1e-12)
