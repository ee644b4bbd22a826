"""Files of models: what is written is read again, older ones as well, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.contention import evaluate
from analysis.contention.parameters import Band, Bands, Groups, Model, Shape, from_dict
from nimc.base.errors import InputError

HENRI = evaluate.load_published("henri")
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
        ({"schema": 3}, "allowed: a mapping with schema 2"),
        ({"schema": 1}, "allowed: a mapping with schema 2"),
        ({"numa_nodes": 257}, "numa_nodes: 257 found; allowed: less than or equal to 256"),
        ({"kind": "better"}, "kind: 'better' found; allowed: 'paper' or 'improved'"),
        (
            {"shapes": {"middle": None}},
            "shapes.middle.[key]: 'middle' found; allowed: match pattern",
        ),
        (
            {"unidentified": {"local": "unknown"}},
            "unidentified.local: 'unknown' found; allowed: a mapping",
        ),
        ({"unidentified": 5}, "unidentified: 5 found; allowed: a mapping"),
        ({"bands": [1]}, "bands: a list found; allowed: a mapping"),
        ({"reach": [["local", 1]]}, "reach: a list found; allowed: a mapping"),
        ({"notes": "emulated"}, "notes: 'emulated' found; allowed: a list"),
        ({"shapes": {"local": 3}}, "shapes.local: 3 found; allowed: a mapping"),
        (
            {"shapes": {"local": {"softness": 2}}},
            "shapes.local.softness: 2 found; allowed: less than or equal to 1",
        ),
        (
            {"comm_alone_b_s": {"a": 1}},
            "comm_alone_b_s.a.[key]: 'a' found; allowed: a whole number",
        ),
        (
            {"comm_alone_b_s": {"0": -1}},
            "comm_alone_b_s.0: -1 found; allowed: greater than or equal to 0",
        ),
        (
            {"groups": {"order": "random", "size": 1, "count": 18}},
            "groups.order: 'random' found; allowed: 'compact' or 'spread'",
        ),
        ({"groups": {"order": "spread", "size": 0, "count": 1}}, "groups.size: 0 found"),
        (
            {"groups": {"order": "spread", "size": 4096, "count": 2}},
            "groups: 4096 x 2 cores found; allowed: 18 to 4096 together",
        ),
        (
            {"bands": {"local": {"held_out": "luck"}}},
            "bands.local.held_out: 'luck' found; allowed: 'placements' or 'numbers",
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
