"""Files that a block stores of its case: samples, counts, provenance, notes for its next blocks.

Samples are appended, flushed to disk, and never rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from records import chain
from records.errors import MachineError
from records.files import replace_text
from records.run_folder import KeptLogs
from records.sample import Sample


class Store:
    """Samples and counters of one case, and provenance of the run (layout: `records.run`)."""

    def __init__(self, nimc_dir: Path, case: str, samples: Path | None = None) -> None:
        """`samples` names another file for the samples."""
        self._case = nimc_dir / "samples" / f"{case}.jsonl"
        self._samples = samples or self._case
        self._counters = nimc_dir / "counters" / f"{case}.jsonl"
        self._provenance = nimc_dir / "provenance"
        self._samples.parent.mkdir(exist_ok=True)
        self._provenance.mkdir(exist_ok=True)
        _cut_torn_line(self._samples)
        _cut_torn_line(self._counters)
        self._logs = KeptLogs(nimc_dir)
        #: The value in the chain of the last sample.
        self._last = chain.genesis(chain.header_digest(chain.header_of(nimc_dir)), case)
        if self._samples.exists():
            self._last = chain.walk(self._samples, self._last).last

    def pairs_made(self) -> int:
        """Pairs of the case with a run of any outcome: those of earlier blocks, as one begins."""
        return sum(pair >= 0 for _, pair in {row[1:] for row in self._rows()})

    def keys(self) -> set[str]:
        """Keys of the case's samples."""
        return {key for key, _, _ in self._rows()}

    def _rows(self) -> Iterator[tuple[str, int, int]]:
        """Key, block and pair of each sample of the case."""
        for line in self._case.read_bytes().splitlines() if self._case.exists() else []:
            with suppress(ValueError, LookupError, TypeError):  # of a power failure
                row = json.loads(line)
                yield str(row["key"]), row["block"], row["pair"]

    def append(
        self,
        sample: Sample,
        counters: Sequence[Mapping[str, Any]] = (),
        outputs: Iterable[Path] = (),
    ) -> None:
        """Append a sample with what a tool counted in its run, and keep its outputs.

        It is on disk when this returns; if this raises, no sample was added.
        """
        # Counters come first: a sample without its counters would look complete.
        if counters:
            dump = partial(json.dumps, separators=(",", ":"), allow_nan=False)
            lines = "".join(f"{dump(row)}\n" for row in counters).encode()
            self._counters.parent.mkdir(exist_ok=True)
            _append(self._counters, lines)
            sample = replace(sample, counters_sha256=chain.digest(lines))
        needed = sample.outcome != "accepted"
        kept = {path: self._logs.keep(path, needed=needed) for path in outputs}
        logs = sample.logs | {log.name: log.sha256 for log in kept.values()}
        line, value = chain.chained(replace(sample, logs=logs).as_dict(), self._last)
        _append(self._samples, line)
        self._last = value
        for path, log in kept.items():
            if not log.stays:
                path.unlink()

    def keep_provenance(self, record: dict[str, Any]) -> str:
        """Store the provenance of runs under the SHA-256 of its text; returns that name."""
        text = json.dumps(record, indent=1, sort_keys=True)
        name = chain.digest(text.encode())
        path = self._provenance / f"{name}.json"
        if not path.exists():
            replace_text(path, text)
        return name


def note(logs: Path, name: str, value: Any) -> None:
    """Write a JSON value into a file of a block's logs, for the case's next blocks."""
    replace_text(logs / name, json.dumps(value, indent=1))


def noted(case_logs: Path, name: str, kind: Any) -> list[Any]:
    """Return what each earlier block of the case noted.

    Raises MachineError for what is no `kind`.
    """
    from pydantic import TypeAdapter  # the block has read its plan with it

    values = []
    for path in sorted(case_logs.glob(f"*/{name}")):
        try:
            values.append(TypeAdapter(kind).validate_json(path.read_bytes()))
        except (OSError, ValueError):
            raise MachineError(f"{path}: not what a block wrote; remove the file") from None
    return values


def _append(path: Path, text: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            if file.write(text) != len(text):
                raise OSError(28, os.strerror(28), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _cut_torn_line(path: Path) -> None:
    """Remove a last line that a crash left incomplete."""
    if path.exists():
        with path.open("rb+") as file:
            whole = file.read().rpartition(b"\n")
            file.truncate(len(whole[0]) + len(whole[1]))
