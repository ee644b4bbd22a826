"""Writes the chain and the head of a run again after its files were edited by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

from records import chain
from records.files import replace_text

_CHAIN = re.compile(rb', ?"chain": ?"[0-9a-f]{64}"\}$')


def rechain(run: Path) -> Path:
    """Replace the chain of a run's samples, and the head in its header; return its folder."""
    header_digest = chain.header_digest(chain.header_of(run))
    for path in (run / "samples").glob("*.jsonl"):
        digest = chain.genesis(header_digest, path.stem)
        chained_path = path.with_suffix(".chained")
        with path.open("rb") as old_file, chained_path.open("wb") as chained_file:
            for line in old_file:
                content = _CHAIN.sub(b"}", line.rstrip(b"\n")).removesuffix(b"}")
                digest = chain.link(digest, content)
                chained_file.write(
                    content + chain.VALUE_FIELD_START + b'"' + digest.encode() + b'"}\n'
                )
        chained_path.replace(path)
    if (run / "run.json").exists():
        header = json.loads((run / "run.json").read_text())
        header["head"] = chain.walk_run(run).head if header.get("finished_s") else None
        replace_text(run / "run.json", json.dumps(header, indent=2))
    return run
