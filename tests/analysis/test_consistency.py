"""A note names what differs between the blocks of a case, and nothing else."""

from typing import Any

import polars as pl
import pytest

from analysis.effects.facts import note_provenance_changes
from tests.analysis.synthetic import result

_NODE = {
    "cpu_model": "Example 8-Core",
    "kernel": "6.1",
    "governor": "performance",
    "rdma": [{"name": "mlx5_0", "firmware": "20.31"}],
}
_PROGRAM = {"name": "./stream", "path": "/logs/0/stream", "sha256": "aa"}
_FIRST = {
    "commit": "abc",
    "reframe": "4",
    "nodes": {"a": _NODE},
    "clock_offsets_s": {"a": 1e-6},
    "program": _PROGRAM,
    "modules": ["gcc/13"],
}
_WORDS = "provenance differs between blocks: "


@pytest.mark.parametrize(
    ("second", "differs"),
    [
        (_FIRST, []),
        ({**_FIRST, "nodes": {"b": _NODE}, "clock_offsets_s": {"b": 2e-6}}, []),
        ({**_FIRST, "nodes": {"a": _NODE, "b": _NODE}}, []),
        ({**_FIRST, "nodes": {"b": {**_NODE, "kernel": "6.6"}}}, [f"{_WORDS}kernel"]),
        (
            {**_FIRST, "nodes": {"b": {**_NODE, "cpu_model": "Other", "governor": "powersave"}}},
            [f"{_WORDS}CPU model, governor"],
        ),
        (
            {
                **_FIRST,
                "nodes": {"b": {**_NODE, "rdma": [{"name": "mlx5_0", "firmware": "20.32"}]}},
            },
            [f"{_WORDS}NIC firmware"],
        ),
        # One node of the block is of another kind; and of facts that only one block has, and of
        # records by others, nothing is known.
        ({**_FIRST, "nodes": {"a": _NODE, "b": {**_NODE, "kernel": "6.6"}}}, [f"{_WORDS}kernel"]),
        ({**_FIRST, "nodes": {"a": {**_NODE, "microcode": "0x2"}}}, []),
        ({**_FIRST, "nodes": {"a": 1, "b": {"rdma": 3}}}, []),
        ({**_FIRST, "commit": "def"}, [f"{_WORDS}commit"]),
        # Each block compiles the program in its own folder; its content is compared.
        ({**_FIRST, "program": {**_PROGRAM, "path": "/logs/1/stream"}}, []),
        ({**_FIRST, "program": {**_PROGRAM, "sha256": "bb"}}, [f"{_WORDS}program"]),
        ({**_FIRST, "modules": ["gcc/14"]}, [f"{_WORDS}modules"]),
        # As blocks of before a fact was kept; of programs and modules, nothing is known.
        (
            {"commit": "abc+", "nodes": {"a": _NODE}},
            [f"{_WORDS}commit, reframe"],
        ),
    ],
)
def test_a_case_says_where_its_blocks_were_made_in_several_ways(
    second: dict[str, Any], differs: list[str]
) -> None:
    """Blocks 0 and 1 count; what the third was made of does not matter, since it was rejected."""
    samples = pl.DataFrame(
        {"case": "stream", "provenance": ["0", "1", "2"], "status": ["counts"] * 2 + ["rejected"]}
    )
    records = {"0": _FIRST, "1": second, "2": {**_FIRST, "commit": "other"}}
    rows = [result(notes=["a caveat"]), result(case="lammps")]
    stream, lammps = note_provenance_changes(rows, samples, records)
    assert (stream.notes, lammps.notes) == ([*differs, "a caveat"], [])
