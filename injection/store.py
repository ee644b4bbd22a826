"""The conductor's storage: samples are appended, flushed to disk, never rewritten."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from analysis.replacing import replace_text
from analysis.sample import Sample


class Store:
    """Samples and counters of one case, and provenance of the run (layout: `analysis.run`)."""

    def __init__(self, nimc_dir: Path, case: str, samples: Path | None = None) -> None:
        """`samples` names another file for the samples."""
        self._samples = samples or nimc_dir / "samples" / f"{case}.jsonl"
        self._counters = nimc_dir / "counters" / f"{case}.jsonl"
        self._provenance = nimc_dir / "provenance"
        self._samples.parent.mkdir(parents=True, exist_ok=True)
        self._provenance.mkdir(parents=True, exist_ok=True)
        self._cases = nimc_dir / "samples"
        _cut_torn_line(self._samples)
        _cut_torn_line(self._counters)

    def last_end_s(self, node: str) -> float:
        """When the last run of any case ended whose first node this was, Unix time; 0 if none."""
        ends_s = (_last_end_s(path, node) for path in self._cases.glob("*.jsonl"))
        return max(ends_s, default=0.0)

    def append(self, sample: Sample) -> None:
        """Append one sample. It is on disk when this returns; if this raises, nothing was added."""
        _append(self._samples, [sample.as_dict()])

    def append_counters(self, rows: list[dict[str, Any]]) -> None:
        """Append what a tool counted in one run, like `append`."""
        if rows:
            self._counters.parent.mkdir(exist_ok=True)
            _append(self._counters, rows)

    def keep_provenance(self, record: dict[str, Any]) -> str:
        """Store the provenance of runs under the SHA-256 of its text; returns that name."""
        text = json.dumps(record, indent=1, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        path = self._provenance / f"{name}.json"
        if not path.exists():
            replace_text(path, text)
        return name


def _append(path: Path, records: list[dict[str, Any]]) -> None:
    lines = (json.dumps(each, separators=(",", ":"), allow_nan=False) + "\n" for each in records)
    text = "".join(lines).encode()
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            if file.write(text) != len(text):
                raise OSError(28, os.strerror(28), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _last_end_s(path: Path, node: str) -> float:
    """When a case's last run on a node ended; 0 if none. Lines that are no samples are passed."""
    name = json.dumps(node).encode()
    for line in reversed(path.read_bytes().split(b"\n")):
        if name in line:
            with suppress(ValueError, TypeError, LookupError):
                one = json.loads(line)
                if one["nodes"][0] == node:
                    return float(one["start_s"] + one["elapsed_s"])
    return 0.0


def _cut_torn_line(path: Path) -> None:
    """Remove a last line that a crash left incomplete."""
    if path.exists():
        with path.open("rb+") as file:
            whole = file.read().rpartition(b"\n")
            file.truncate(len(whole[0]) + len(whole[1]))
