import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.report.data import load_run
from tests.analysis.synthetic import STREAM, samples, write_run

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
    tmp_path: Path, second: dict[str, object], differs: list[str]
) -> None:
    found = [replace(s, provenance=str(s.block)) for s in samples(STREAM, blocks=2, pairs=4)]
    run = write_run(tmp_path / "run", found)
    (run / "provenance").mkdir(exist_ok=True)
    for block, record in enumerate((_FIRST, second)):
        (run / "provenance" / f"{block}.json").write_text(json.dumps(record))
    for row in load_run(run, force=True).results:
        assert [note for note in row.notes if note.startswith(_WORDS)] == differs
