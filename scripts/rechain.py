"""Write the chain and the head of a run again after its files were edited by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

from records import chain
from records.files import replace_text

_CHAIN = re.compile(rb', ?"chain": ?"[0-9a-f]{64}"\}$')


def rechain(run: Path) -> Path:
    """Replace the chain of a run's samples, and the head in its header; return its folder."""
    sha256 = chain.header_digest(chain.header_of(run))
    for path in (run / "samples").glob("*.jsonl"):
        value, chained = chain.genesis(sha256, path.stem), path.with_suffix(".chained")
        with path.open("rb") as old, chained.open("wb") as new:
            for line in old:
                content = _CHAIN.sub(b"}", line.rstrip(b"\n")).removesuffix(b"}")
                value = chain.link(value, content)
                new.write(content + chain.MARK + b'"' + value.encode() + b'"}\n')
        chained.replace(path)
    if (run / "run.json").exists():
        record = json.loads((run / "run.json").read_text())
        record["head"] = chain.walk_run(run).head if record.get("finished_s") else None
        replace_text(run / "run.json", json.dumps(record, indent=2))
    return run
