"""The provenance of runs: facts of all nodes of a block, in a file named by its digest."""

import hashlib
import json
from pathlib import Path

from analysis.samples.provenance import read_provenance


def test_the_facts_of_some_thousand_nodes_are_read(tmp_path: Path) -> None:
    """A node with 256 threads and four network interfaces has some 20 kB of facts."""
    record = {"hosts": {f"node{number}": {"cpu": "x" * 20_000} for number in range(1500)}}
    text = json.dumps(record, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = tmp_path / "provenance" / f"{digest}.json"
    path.parent.mkdir()
    path.write_text(text)
    provenance = read_provenance(tmp_path)
    assert provenance.records == {digest: record}
    assert not provenance.misnamed_files
