"""The shipped tables, spot-checked against the paper (Tables 1, 2, 5, 9 and 11)."""

from __future__ import annotations

import pytest

from analysis.contention import evaluate
from nimc.base.errors import InputError


def test_all_nine():
    assert sorted(evaluate.published_names()) == [
        "billy",
        "bora",
        "dahu",
        "diablo",
        "grvingt",
        "henri",
        "henri-subnuma",
        "occigen",
        "pyxis",
    ]
    assert all(evaluate.load_published(name).published for name in evaluate.published_names())


def test_rows():
    subnuma = evaluate.load_published("henri-subnuma")
    assert (subnuma.cores, subnuma.numa_per_socket, subnuma.numa_nodes) == (18, 2, 4)
    assert subnuma.remote is not None
    assert (subnuma.remote.n_par_max, subnuma.remote.n_seq_max) == (11, 4)
    assert subnuma.remote.t_par_max2_b_s == 15_217_800_000
    assert subnuma.remote.alpha == 0.27
    assert evaluate.load_published("dahu").local.delta_r_b_s == 656_800_000
    assert evaluate.load_published("pyxis").local.b_comm_seq_b_s == 4_958_600_000


def test_errors():
    assert evaluate.errors_percent("pyxis")["comm_nonsamples"] == 13.32
    assert evaluate.errors_percent("billy")["comp_samples"] is None


def test_unknown_name():
    with pytest.raises(InputError, match="--platform: nowhere found; allowed: billy"):
        evaluate.load_published("nowhere")
