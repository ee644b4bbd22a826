"""Names of hosts and users become pseudonyms everywhere, and the run still verifies."""

import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.crate.pack import renamed, run_files, written
from nimc.run.verify import verify
from tests.analysis.synthetic import HOST, STREAM, header, rechain, samples, write_run

NODE, ORIGIN = "nid007.site.example", "nid008"
OUTPUT = """\
rank 0 on nid007, rank 1 on NID008, all on nid[007-008] and nid007.site.example
/home/ann/lmp in /scratch/ann/x; annual report; xnid007 is another
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two nodes, a user's paths in provenance, and an output that names all of them."""
    log = "logs/stream/0/0-off-0.out"
    made = [
        replace(
            sample,
            nodes=[NODE],
            origin_nodes=[ORIGIN],
            writers=[replace(each, origin=ORIGIN, target=NODE) for each in sample.writers],
            notes=[f"slow:\n{NODE}"],
            logs={log: hashlib.sha256(OUTPUT.encode()).hexdigest()}
            if (sample.pair, sample.arm) == (0, "off")
            else {},
        )
        for sample in samples(STREAM, pairs=6)
    ]
    record = {"nodes": {NODE: {"hostname": "nid007"}}, "program": "/home/zoe/stream"}
    facts = {"host": {"hostname": "login1"}}
    run = write_run(tmp_path / "synthetic-run", made, header(facts=facts), record)
    (run / log).parent.mkdir(parents=True)
    (run / f"{log}.gz").write_bytes(gzip.compress(OUTPUT.encode()))
    job = {"outcome": "done", "reason": None, "nodes": [NODE, "nid009"]}
    (run / "logs/stream/0/job.json").write_text(json.dumps(job))
    return rechain(run)


def texts(files: dict[str, bytes]) -> dict[str, str]:
    return {
        name: (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
        for name, raw in files.items()
    }


def test_no_name_is_left_and_pseudonyms_are_the_same_everywhere(run: Path) -> None:
    found = texts(renamed(run_files(run), "ann"))
    everything = "".join(f"{name}\n{text}" for name, text in found.items())
    for name in ("nid007.", "nid008", "nid009", "login1", "/ann", "zoe", "site.example", "nid["):
        assert name not in everything.lower().replace("xnid007", ""), name
    assert found["logs/stream/0/0-off-0.out.gz"] == (
        "rank 0 on host-2, rank 1 on host-3, all on hosts and host-2\n"
        "/home/user-1/lmp in /scratch/user-1/x; annual report; xnid007 is another\n"
    )
    (record,) = (json.loads(text) for name, text in found.items() if "provenance" in name)
    assert record == {"nodes": {"host-2": {"hostname": "host-2"}}, "program": "/home/user-2/stream"}
    assert json.loads(found["run.json"])["facts"]["host"]["hostname"] == "host-1"
    assert json.loads(found["logs/stream/0/job.json"])["nodes"] == ["host-2", "host-4"]
    sample = json.loads(found["samples/stream.jsonl"].splitlines()[0])
    assert (sample["nodes"], sample["origin_nodes"]) == (["host-2"], ["host-3"])
    assert sample["notes"] == ["slow:\nhost-2"]


def test_the_renamed_run_verifies_as_the_original_does(run: Path, tmp_path: Path) -> None:
    files = run_files(run)
    made = renamed(files, "ann")
    old, new = verify(run), verify(written(made, tmp_path / "new"))
    assert [each.kind for each in new.findings] == [each.kind for each in old.findings]
    assert (new.samples, new.reread) == (old.samples, old.reread)
    assert new.head not in (None, old.head)
    was, now = (
        [json.loads(line)["fom"] for line in each["samples/stream.jsonl"].splitlines()]
        for each in (files, made)
    )
    assert was == now


def test_a_host_named_as_its_machine_is_rejected(tmp_path: Path) -> None:
    made = samples(STREAM, pairs=6)
    run = write_run(tmp_path / "synthetic-run", made, header(machine=HOST))
    with pytest.raises(InputError, match="has the name of its machine"):
        renamed(run_files(run), "ann")


def test_the_digest_of_what_was_asked_is_recomputed_and_the_order_stays(run: Path) -> None:
    """On a shared host the digest covers its name, and the order follows from the digest."""
    header = json.loads((run / "run.json").read_text())
    asked = {"campaign": {"name": "x"}, "hostname": "login1"}
    (run / "run.json").write_text(json.dumps({**header, "resolved": asked}))
    made = json.loads(renamed(run_files(run), "ann")["run.json"])
    assert made["resolved"] == {**asked, "hostname": "host-1"}
    text = b'{"campaign": {"name": "x"}, "hostname": "host-1"}'
    assert made["digest"] == hashlib.sha256(text).hexdigest()
    assert made["reproduces"] == {"run": header["run"], "digest": header["digest"]}
    assert made["seed"] == header["seed"]
