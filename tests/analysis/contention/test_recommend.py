"""Recommendations, against arithmetic on Table 8 (henri) of the paper, MB/s."""

import dataclasses

import pytest

from analysis.contention import evaluate, improved
from analysis.contention.parameters import Band, Bands, Shape
from analysis.contention.recommend import Need, recommend
from nimc.base.errors import InputError
from studies.made_sweeps import sweep

HENRI = evaluate.load_published("henri")


def test_buffers_belong_on_the_other_node():
    # 18 cores ask 18 * 4455.4 = 80197.2. Buffers on node 1: computations have 72589.9 from 17
    # cores on (16: 71286.4, more than 1 % less), and the network loses less than that:
    # 80197.2 / 72589.9 = 1.1048. On node 0 communications take their share of the same memory;
    # 14 cores get 62375.6, 15 get 62917.8, less than 1 % more:
    # 72589.9 / 62375.6 - 1 = 16.4 % longer.
    advice = recommend(HENRI, Need(cores=18))
    best = advice.best
    assert (best.n, best.comm_node) == (17, 1)
    assert best.slowdown == pytest.approx(80197.2 / 72589.9)
    other = next(c for c in advice.placements if c.comm_node == 0)
    assert other.n == 14
    assert other.cost == pytest.approx(72589.9 / 62375.6 - 1)
    assert not other.tied
    assert [c.n for c in advice.cores] == list(range(1, 19))
    assert advice.cores[0].slowdown == pytest.approx(18)
    # Costs are of the shortest step; the recommended one has fewer cores, within 1 %.
    assert min(choice.cost for choice in (*advice.cores, *advice.placements)) == 0
    assert 0 <= best.cost <= 0.01
    assert all(choice.tied == (choice.cost <= 0.01) for choice in advice.cores)


def test_modest_demand():
    # 18 * 2000 + 11481.1 < 73423.0: all 18 cores, nobody loses; 17 cores would cost 1/17.
    advice = recommend(HENRI, Need(cores=18, per_core_b_s=2e9))
    assert (advice.best.n, advice.best.slowdown) == (18, 1)
    assert advice.cores[16].cost == pytest.approx(18 / 17 - 1)
    # 4 GB/s of traffic lies under the floor of 10.5 GB/s, so communications lose nothing and
    # computations have 73423.0 - 4000.0 left on the same node.
    advice = recommend(HENRI, Need(cores=18, traffic_b_s=4e9))
    same = next(c for c in advice.placements if c.comm_node == 0)
    assert same.comm_b_s == pytest.approx(4e9)
    assert same.comp_b_s == pytest.approx(73423.0e6 - 4000e6, rel=0.01)
    none = recommend(HENRI, Need(cores=18, traffic_b_s=0.0))
    assert none.best.slowdown == pytest.approx(80197.2 / 72589.9)


@pytest.mark.parametrize("name", [*evaluate.published_names(), "improved"])
def test_less_demand_never_leaves_less_for_communications(name):
    if name == "improved":
        truth = dataclasses.replace(evaluate.load_published("dahu"), remote=None, numa_nodes=1)
        model = improved.fit(sweep(truth, 2, 0.02))
    else:
        model = evaluate.load_published(name)
    for p in filter(None, (model.local, model.remote)):
        # One node only, so that both sides share it.
        one = dataclasses.replace(model, local=p, remote=None, numa_nodes=1, numa_per_socket=1)
        received: dict[int, float] = {}
        for part in (1.0, 0.98, 0.95, 0.9, 0.86, 0.84, 0.8, 0.7, 0.5, 0.3):
            advice = recommend(one, Need(one.cores, per_core_b_s=part * p.b_comp_seq_b_s))
            more = {choice.n: choice.comm_b_s for choice in advice.cores}
            assert all(more[n] >= received.get(n, 0.0) * (1 - 1e-9) for n in more), part
            received = more


def test_what_only_equation_6_limits_is_noted():
    # Table 8: at 10 cores 10 * 4456.4 exceeds the total, at 11 39719.0 < t_seq_max 43655.6.
    (note,) = recommend(evaluate.load_published("henri-subnuma"), Need(cores=18)).notes
    assert note.startswith("from 10 cores on, computations alone are limited by the total")
    assert recommend(HENRI, Need(cores=18)).notes == []


@pytest.mark.parametrize(
    ("need", "text"),
    [
        # Table 8: a core reaches 4455.4 MB/s, the network 11481.1, on node 0 as well as at best.
        (Need(cores=18, per_core_b_s=4.5e9), "--per-core: 4.5 GB/s found; allowed: .* 4.46 GB/s"),
        (Need(cores=18, traffic_b_s=50e9), "--traffic: 50 GB/s found; allowed: .* 11.48 GB/s"),
        (Need(cores=18, per_core_b_s=0.0), "--per-core: 0 GB/s found; allowed: above 0"),
        (Need(cores=19), "--cores: 19 found; allowed: 1 to 18"),
    ],
)
def test_a_need_that_was_never_reached_is_refused_not_cut_down(need, text):
    with pytest.raises(InputError, match=text):
        recommend(HENRI, need)


def test_choices_whose_bands_overlap_are_tied():
    # As above: 17 cores with buffers on node 1 take 1.1048, and 14 with buffers on node 0
    # 80197.2 / 62375.6 = 1.2857. Bands of 5 % leave a gap, 1.1048 / 0.95 = 1.163 and
    # 1.2857 / 1.05 = 1.2245; those of 10 % overlap, 1.2276 and 1.1688.
    for width, tied in ((0.05, False), (0.10, True)):
        band = Band(width, width / 2, 16)
        bands = dict.fromkeys(("local", "remote", "others"), Bands("placements", band, band, band))
        model = dataclasses.replace(HENRI, bands=bands)
        advice = recommend(model, Need(cores=18))
        best = advice.best
        # The recommendation does not depend on the bands.
        assert (best.n, best.comm_node) == (17, 1)
        assert best.slowdown_low == pytest.approx(80197.2 / 72589.9 / (1 + width))
        assert best.slowdown_high == pytest.approx(80197.2 / 72589.9 / (1 - width))
        other = next(c for c in advice.placements if c.comm_node == 0)
        assert other.tied is tied


def test_the_improved_model_with_less_demand():
    # Loss of communications from 10 to 14 cores of 4455.4 MB/s each, down to 0.6: cores with half
    # of that demand lose from 20 on, which 18 are not. Traffic of 0.8 is in the middle of the loss.
    model = dataclasses.replace(
        HENRI,
        kind="improved",
        numa_nodes=1,
        local=dataclasses.replace(HENRI.local, alpha=0.6),
        remote=None,
        shapes={"local": Shape(0.0, 10.0, 14.0)},
        comm_alone_b_s={0: 11481.1e6},
    )

    def received(**need):
        choices = recommend(model, Need(cores=18, **need)).cores
        return {c.n: c.comm_b_s / 11481.1e6 for c in choices}

    assert [received()[n] for n in (10, 12, 14, 18)] == pytest.approx([1, 0.8, 0.6, 0.6])
    half = 4455.4e6 / 2
    assert [received(per_core_b_s=half)[n] for n in (10, 18)] == pytest.approx([1, 1])
    # With a 1.3th of it from 13 to 18.2.
    assert received(per_core_b_s=4455.4e6 / 1.3)[18] == pytest.approx(1 - 0.4 * 5 / 5.2)
    less = received(traffic_b_s=0.8 * 11481.1e6)
    assert [less[n] for n in (10, 12, 13, 14)] == pytest.approx([0.8, 0.8, 0.7, 0.6])
    # Of 14 cores, that lose nothing, the network decides: 1 / 0.6, and with bands of 5 % and 8 %.
    bands = {"local": Bands("placements", Band(0.05, 0.02, 16), Band(0.08, 0.02, 16), None)}
    choice = recommend(dataclasses.replace(model, bands=bands), Need(cores=14)).cores[13]
    ends = (choice.slowdown_low, choice.slowdown, choice.slowdown_high)
    assert ends == pytest.approx((1 / 0.648, 1 / 0.6, 1 / 0.552))
