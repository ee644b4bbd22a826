"""Files of models: what is written is read again, older ones as well, and nothing else.

The improved model's rates, by hand.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from analysis.contention import evaluate
from analysis.contention.parameters import (
    Band,
    Bands,
    Groups,
    Model,
    Shape,
    alone,
    demand,
    from_dict,
    in_groups,
    share,
    soft_minimum,
    together,
)
from nimc.base.errors import InputError

HENRI = evaluate.load_published("henri")
LOCAL = HENRI.as_dict()["local"]
BANDS = Bands("numbers of cores", Band(0.02, 0.01, 16), None, Band(0.0, 0.0, 1))
IMPROVED = Model(
    name="m",
    cores=18,
    numa_per_socket=1,
    numa_nodes=2,
    local=HENRI.local,
    remote=HENRI.remote,
    kind="improved",
    shapes={"local": Shape(0.1, 12.5, 15.0, 40e9, 6e8), "remote": None},
    comm_alone_b_s={0: 11e9, 1: 10e9},
    groups=Groups(6, 3, "spread", in_step=True),
    bands={"local": BANDS, "others": BANDS},
)


def written(model):
    return json.loads(json.dumps(model.as_dict()))


def test_all_of_a_model_is_read_again():
    assert from_dict(written(IMPROVED), Path("m.json")) == IMPROVED
    assert from_dict(written(HENRI), Path("m.json")) == HENRI
    assert written(IMPROVED)["schema"] == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 1}, "allowed: a mapping with schema 2"),
        ({"numa_nodes": 257}, "numa_nodes: 257 found; allowed: less than or equal to 256"),
        ({"reach": {"local": -1}}, "reach.local: -1 found"),
        ({"local": {}}, "local.n_par_max: missing"),
        ({"remote": LOCAL | {"n_seq_max": 3.5}}, "n_seq_max: 3.5 found; allowed: a whole"),
        ({"local": LOCAL | {"delta_r_b_s": float("inf")}}, "local.delta_r_b_s: "),
        ({"kind": "better"}, "kind: 'better' found; allowed: 'paper' or 'improved'"),
        ({"shapes": {"middle": None}}, "shapes.middle.[key]: 'middle' found; allowed: match"),
        ({"shapes": {"local": {"softness": 2}}}, "shapes.local.softness: 2 found; allowed: less"),
        (
            {"groups": {"order": "spread", "size": 4096, "count": 2}},
            "groups: 4096 x 2 cores found; allowed: 18 to 4096 together",
        ),
        (
            {"bands": {"local": {"held_out": "placements", "comp_par": {"width": -1}}}},
            "bands.local.comp_par.width: -1 found; allowed: greater than or equal to 0",
        ),
    ],
)
def test_mistakes(change, text):
    with pytest.raises(InputError, match=r"^m\.json: ") as error:
        from_dict(written(IMPROVED) | change, Path("m.json"))
    assert text in str(error.value)


SHARP = Shape(softness=0.0, loss_from=2.0, loss_to=6.0, group_b_s=10e9, group_loss_b_s=1e9)
TWO = Groups(size=4, count=2, order="compact")
SPREAD = dataclasses.replace(TWO, order="spread")
#: Four GB/s a core, on 15 GB/s.
P = dataclasses.replace(
    evaluate.load_published("billy").local,
    b_comp_seq_b_s=4e9,
    t_par_max_b_s=15e9,
    t_seq_max_b_s=15e9,
    n_par_max=8,
    n_seq_max=8,
)


def test_rates_by_hand():
    n, taken = np.array([6, 8]), np.array([3e9, 3e9])
    assert alone(P, n, SHARP, SPREAD) == pytest.approx([15e9, 14e9])
    assert together(P, n, taken, SHARP, SPREAD) == pytest.approx([12e9, 12e9])
    # From 2 to 6 cores, down to 0.4: at 3 a quarter of the way.
    assert share(SHARP, 0.4, np.array([1, 2, 3, 6, 9])) == pytest.approx([1, 1, 0.85, 0.4, 0.4])
    assert share(SHARP, None, np.array([9])) == pytest.approx([1])
    # k = 2: (3^-2 + 4^-2)^(-1/2) = 12 / 5
    a, b = np.array([3.0, 3.0, 0.0]), np.array([4.0, np.inf, 2.0])
    assert soft_minimum(a, b, 0.5) == pytest.approx([2.4, 3.0, 0.0])
    assert soft_minimum(a, b, 0.0) == pytest.approx([3.0, 3.0, 0.0])


@pytest.mark.parametrize(
    ("order", "filled"),
    [("compact", "100 200 210 220 221 222"), ("spread", "100 110 111 211 221 222")],
)
def test_cores_fill_groups(order, filled):
    found = in_groups(Groups(size=2, count=3, order=order), np.arange(1, 7))
    assert ["{}{}{}".format(*row) for row in found] == filled.split()


@pytest.mark.parametrize(
    ("groups", "rates"),
    [
        # A group has 10, 9, 8, 7 GB/s with 1 to 4 cores of 4 GB/s: 4, 8, 8, 7. Then the other.
        (TWO, [4, 8, 8, 7, 11, 15, 15, 14]),
        # Each in turn: 1+0, 1+1, 2+1, 2+2, 3+2, 3+3, 4+3, 4+4.
        (SPREAD, [4, 8, 12, 16, 16, 16, 15, 14]),
        # In step: n times the rate of a core of the fullest group, 4, 4, 8/3, 7/4.
        (dataclasses.replace(TWO, in_step=True), [4, 8, 8, 7, 8.75, 10.5, 12.25, 14]),
        (None, [4, 8, 12, 16, 20, 24, 28, 32]),
    ],
)
def test_demand_of_groups(groups, rates):
    assert demand(P, SHARP, groups, np.arange(1, 9)) == pytest.approx(np.array(rates) * 1e9)
