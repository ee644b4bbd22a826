"""Files of models: what is written is read again, older ones as well, and nothing else."""

from __future__ import annotations

import json

import pytest

from analysis.contention import evaluate
from analysis.contention.model_file import from_dict
from analysis.contention.parameters import Band, Bands, Groups, Model, Shape
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
    assert from_dict(written(IMPROVED), "m.json") == IMPROVED
    assert from_dict(written(HENRI), "m.json") == HENRI
    assert written(IMPROVED)["schema"] == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 3}, "must be 2"),
        ({"schema": 1}, "must be 2"),
        ({"numa_nodes": 257}, "numa_nodes: must be a whole number from 1 to 256, not 257"),
        ({"kind": "better"}, "kind: must be paper or improved, not 'better'"),
        ({"shapes": {"middle": None}}, "shapes: must be local, remote, not 'middle'"),
        ({"unidentified": {"local": "unknown"}}, "local: must be a mapping, not 'unknown'"),
        ({"unidentified": 5}, "unidentified: must be a mapping, not 5"),
        ({"bands": [1]}, "bands: must be a mapping, not [1]"),
        ({"reach": [["local", 1]]}, "reach: must be a mapping"),
        ({"notes": "emulated"}, "notes: must be a list of texts, not 'emulated'"),
        ({"shapes": {"local": 3}}, "shapes: local: must be a mapping or null"),
        ({"shapes": {"local": {"softness": 2}}}, "softness: must be a number from 0 to 1, not 2"),
        ({"comm_alone_b_s": {"a": 1}}, "comm_alone_b_s: must have NUMA nodes as keys, not 'a'"),
        ({"comm_alone_b_s": {"0": -1}}, "comm_alone_b_s: 0: must be a number from 0"),
        ({"groups": {"order": "random"}}, "groups: order: must be compact or spread"),
        ({"groups": {"order": "spread", "size": 0, "count": 1}}, "groups: size: must be a whole"),
        (
            {"groups": {"order": "spread", "size": 4096, "count": 2}},
            "groups: must have 18 to 4096 cores together, not 4096 x 2",
        ),
        ({"bands": {"local": {"held_out": "luck"}}}, "held_out: must be 'placements' or 'numbers"),
        (
            {"bands": {"local": {"held_out": "placements", "comp_par": {"width": -1}}}},
            "bands: local: comp_par: width: must be a number from 0 to 10, not -1",
        ),
    ],
)
def test_mistakes(change, text):
    with pytest.raises(InputError, match=r"^m\.json: ") as error:
        from_dict(written(IMPROVED) | change, "m.json")
    assert text in str(error.value)
