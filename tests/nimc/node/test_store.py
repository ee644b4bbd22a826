import dataclasses
import hashlib
import json
import resource
from contextlib import contextmanager

import pytest

from nimc.node.conductor import Store
from nimc.records.sample import Sample

SAMPLE = Sample(
    key="stream/0/0/off/0",
    case="stream",
    workload="stream",
    arm="off",
    block=0,
    pair=0,
    position=0,
    attempt=0,
    warmup=False,
    outcome="kept",
    reason=None,
    start_s=1.0,
    elapsed_s=2.0,
    fom=3.0e9,
    fom_unit="B/s",
    fom_better="higher",
    nodes=["n1"],
    origin_nodes=["n2"],
    provenance="0" * 64,
    seed=1,
    role="baseline",
)


def _lines(folder):
    return (folder / "samples" / "stream.jsonl").read_text().splitlines()


def test_samples_are_appended_across_openings(tmp_path):
    Store(tmp_path, "stream").append(SAMPLE)
    Store(tmp_path, "stream").append(dataclasses.replace(SAMPLE, pair=1))
    assert [json.loads(line)["pair"] for line in _lines(tmp_path)] == [0, 1]


def test_the_last_end_on_a_node_is_that_of_any_case(tmp_path):
    store = Store(tmp_path, "stream")
    assert store.last_end_s("n1") == 0.0
    store.append(SAMPLE)
    for case, start_s, nodes in (("lammps", 7.5, ["n1"]), ("snap", 90.0, ["n3", "n1"])):
        other = dataclasses.replace(SAMPLE, case=case, start_s=start_s, nodes=nodes)
        Store(tmp_path, case).append(other)
    with (tmp_path / "samples" / "lammps.jsonl").open("ab") as file:
        file.write(b"\0" * 40 + b'"n1"\n["n1"]\n')  # after a power failure
    (tmp_path / "samples" / "new.jsonl").write_text('{"start_s": 99')  # another block's, torn
    assert store.last_end_s("n1") == 9.5  # each took 2 s
    assert store.last_end_s("n3") == 92.0


def test_pairs_that_were_made_are_of_all_blocks_and_outcomes(tmp_path):
    store = Store(tmp_path, "stream")
    assert store.pairs_made() == 0
    store.append(dataclasses.replace(SAMPLE, pair=-1, warmup=True))
    for block, pair, arm in ((0, 0, "off"), (0, 0, "on"), (0, 1, "on"), (3, 0, "off")):
        store.append(dataclasses.replace(SAMPLE, block=block, pair=pair, arm=arm))
    store.append(dataclasses.replace(SAMPLE, block=3, pair=1, outcome="rejected", reason="x"))
    (tmp_path / "samples" / "lammps.jsonl").write_text("{}\n")
    with (tmp_path / "samples" / "stream.jsonl").open("ab") as file:
        file.write(b"\0" * 40 + b"\n{}\n[]\n")  # after a power failure
    assert store.pairs_made() == 4
    # Samples that the check has yet to read are not of the case before it has read them.
    assert Store(tmp_path, "stream", tmp_path / "unread.jsonl").pairs_made() == 4


def test_a_figure_that_is_no_number_is_not_stored(tmp_path):
    store = Store(tmp_path, "stream")
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.append(dataclasses.replace(SAMPLE, fom_extra={"copy": float("nan")}))
    assert not (tmp_path / "samples" / "stream.jsonl").exists()


@contextmanager
def full_after(size_b):
    """Lets no file become larger, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_b, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_sample_that_does_not_fit_leaves_the_earlier_ones_whole(tmp_path):
    store = Store(tmp_path, "stream")
    store.append(SAMPLE)
    path = tmp_path / "samples" / "stream.jsonl"
    with full_after(path.stat().st_size + 100), pytest.raises(OSError, match="No space"):
        store.append(SAMPLE)
    assert [json.loads(line)["pair"] for line in _lines(tmp_path)] == [0]


def test_provenance_is_named_by_the_sha256_of_its_text(tmp_path):
    name = Store(tmp_path, "stream").keep_provenance({"b": 1, "a": [2]})
    text = (tmp_path / "provenance" / f"{name}.json").read_text()
    assert hashlib.sha256(text.encode()).hexdigest() == name
    assert json.loads(text) == {"a": [2], "b": 1}


def test_provenance_that_does_not_fit_leaves_no_file(tmp_path):
    store = Store(tmp_path, "stream")
    with full_after(100), pytest.raises(OSError, match="too large"):
        store.keep_provenance({"text": 200 * "x"})
    assert list((tmp_path / "provenance").iterdir()) == []
