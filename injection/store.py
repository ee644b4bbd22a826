"""Where the conductor keeps what it measured: appended, flushed to disk, never rewritten."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from analysis.sample import Sample


class Store:
    """The samples of one case and the provenance of the run (layout: `analysis.run`)."""

    def __init__(self, nimc_dir: Path, case: str) -> None:
        self._samples = nimc_dir / "samples" / f"{case}.jsonl"
        self._provenance = nimc_dir / "provenance"
        self._samples.parent.mkdir(parents=True, exist_ok=True)
        self._provenance.mkdir(parents=True, exist_ok=True)
        _cut_torn_line(self._samples)

    def append(self, sample: Sample) -> None:
        """Add one sample; when this returns it is on disk, when it raises nothing was added."""
        line = json.dumps(sample.as_dict(), separators=(",", ":")).encode() + b"\n"
        with self._samples.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                written = file.write(line)
                if written != len(line):
                    raise OSError(28, os.strerror(28), str(self._samples))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise

    def keep_provenance(self, record: dict[str, Any]) -> str:
        """Keep how runs are made under the SHA-256 of its text, which is returned."""
        text = json.dumps(record, indent=1, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        path = self._provenance / f"{name}.json"
        if not path.exists():
            temporary = path.with_suffix(".new")
            temporary.write_text(text)
            temporary.replace(path)
        return name


def _cut_torn_line(path: Path) -> None:
    """Take away a last line that a crash left without its end."""
    if path.exists():
        with path.open("rb+") as file:
            whole = file.read().rpartition(b"\n")
            file.truncate(len(whole[0]) + len(whole[1]))
