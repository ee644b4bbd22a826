"""Rewrites samples in the format of schema 6.

Schema 6 calls an accepted run `kept`. All other fields are those of the present schema.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from records import chain


def as_schema_6(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a sample in the format of schema 6."""
    outcome = "kept" if sample["outcome"] == "accepted" else sample["outcome"]
    return {**sample, "schema": 6, "outcome": outcome}


def rewrite_as_schema_6(run: Path) -> None:
    """Rewrite the samples of a run in the format of schema 6.

    The chain of digests over the samples and its head in `run.json` are computed again. If a crash
    left the last line incomplete, this line stays as it is.
    """
    header = json.loads((run / "run.json").read_text())
    for path in (run / "samples").glob("*.jsonl"):
        text, _, incomplete_line = path.read_bytes().rpartition(b"\n")
        last_value = chain.genesis(chain.header_digest(header), path.stem)
        lines = []
        for line in text.splitlines():
            sample = as_schema_6(json.loads(line))
            del sample["chain"]
            chained_line, last_value = chain.chained_line(sample, last_value)
            lines.append(chained_line)
        path.write_bytes(b"".join(lines) + incomplete_line)
    if header["head"] is not None:
        header["head"] = chain.walk_run(run).head
        (run / "run.json").write_text(json.dumps(header, indent=2) + "\n")
