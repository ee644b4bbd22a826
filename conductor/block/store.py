"""Files that a block stores: samples, counters, provenance, and notes for later blocks of the case.

Samples are appended, flushed to disk, and never rewritten.
"""

from __future__ import annotations

import errno
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
        """Open the files of a case; `samples` replaces its file of samples."""
        self._case_samples = nimc_dir / "samples" / f"{case}.jsonl"
        self._samples = samples or self._case_samples
        self._counters = nimc_dir / "counters" / f"{case}.jsonl"
        self._provenance = nimc_dir / "provenance"
        self._samples.parent.mkdir(exist_ok=True)
        self._provenance.mkdir(exist_ok=True)
        _cut_torn_line(self._samples)
        _cut_torn_line(self._counters)
        self._logs = KeptLogs(nimc_dir)
        #: Value of the last sample in the chain.
        self._last_value = chain.genesis(chain.header_digest(chain.header_of(nimc_dir)), case)
        if self._samples.exists():
            self._last_value = chain.walk(self._samples, self._last_value).last_value

    def count_pairs(self) -> int:
        """Return the number of pairs of the case that have a run of any outcome.

        Pairs of warm-up runs have negative numbers, and do not count.
        """
        return len({(block, pair) for _, block, pair in _rows(self._case_samples) if pair >= 0})

    def keys(self) -> set[str]:
        """Return the keys of the case's samples."""
        return {key for key, _, _ in _rows(self._case_samples)}

    def append(
        self,
        sample: Sample,
        counters: Sequence[Mapping[str, Any]] = (),
        outputs: Iterable[Path] = (),
    ) -> None:
        """Append a sample with the rows of its counters, and keep its outputs.

        The sample is on disk when this returns. If this raises, no sample was added.
        """
        # Counters are written first, since a sample without its counters would look complete.
        if counters:
            dump = partial(json.dumps, separators=(",", ":"), allow_nan=False)
            lines = "".join(f"{dump(row)}\n" for row in counters).encode()
            self._counters.parent.mkdir(exist_ok=True)
            _append(self._counters, lines)
            sample = replace(sample, counters_sha256=chain.digest(lines))
        not_accepted = sample.outcome != "accepted"
        kept_logs = {path: self._logs.keep(path, needed=not_accepted) for path in outputs}
        logs = sample.logs | {log.name: log.sha256 for log in kept_logs.values()}
        line, value = chain.chained_line(replace(sample, logs=logs).as_dict(), self._last_value)
        _append(self._samples, line)
        self._last_value = value
        for path, log in kept_logs.items():
            if not log.stays:
                path.unlink()

    def keep_provenance(self, record: dict[str, Any]) -> str:
        """Store the provenance of runs under the SHA-256 of its text; return this SHA-256."""
        text = json.dumps(record, indent=1, sort_keys=True)
        name = chain.digest(text.encode())
        path = self._provenance / f"{name}.json"
        if not path.exists():
            replace_text(path, text)
        return name


def _rows(samples: Path) -> Iterator[tuple[str, int, int]]:
    """Yield key, block and pair of each sample of a file, which need not exist."""
    if not samples.exists():
        return
    # What follows the last newline is empty, or a line that is not complete.
    *lines, _ = samples.read_bytes().split(b"\n")
    for line in lines:
        with suppress(ValueError, LookupError, TypeError):  # a power failure may damage a line
            row = json.loads(line)
            yield str(row["key"]), row["block"], row["pair"]


def write_note(logs: Path, name: str, value: Any) -> None:
    """Write a JSON value into a file of a block's logs, for later blocks of the case."""
    replace_text(logs / name, json.dumps(value, indent=1))


def read_notes(case_logs: Path, name: str, value_type: Any) -> list[Any]:
    """Return the notes of this name that earlier blocks of the case have written, oldest first.

    Raises MachineError for a note that is not of the type `value_type`.
    """
    from pydantic import TypeAdapter  # it is available, since the block's plan is read with it

    notes = []
    for path in sorted(case_logs.glob(f"*/{name}"), key=lambda path: int(path.parent.name)):
        try:
            notes.append(TypeAdapter(value_type).validate_json(path.read_bytes()))
        except (OSError, ValueError):
            raise MachineError(f"{path}: not what a block wrote; remove the file") from None
    return notes


def _append(path: Path, lines: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        size_b = file.tell()
        try:
            if file.write(lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size_b)
            raise


def _cut_torn_line(path: Path) -> None:
    """Remove the last line if a crash left it incomplete."""
    if path.exists():
        with path.open("rb+") as file:
            complete_lines_b = file.read().rfind(b"\n") + 1
            file.truncate(complete_lines_b)
