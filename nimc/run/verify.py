"""Verifies a stored run: its checks, what samples name by digest, and figures re-read from outputs.

Every sample names the SHA-256 of its counters and outputs. An output that is kept is read again by
the workload's parser of today, and must give the figures that the sample has.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from analysis.samples.columns import read_run
from analysis.samples.faults import ROUNDING, UNPROVEN
from analysis.samples.integrity import check_run
from analysis.samples.provenance import read_provenance
from conductor.readers import FomError
from records import chain, run_folder
from records.errors import InputError, first_fault
from records.run import load_header
from records.sample import Sample
from reframe_tests import workload
from reframe_tests.workload import Workload

#: `broken`: not what was written, by the chain or a digest. `contradicted`: by another record, or
#: by the output when it is re-read. `unproven`: cannot be verified; no fault.
Kind = Literal["broken", "contradicted", "unproven"]
_SAMPLE = TypeAdapter(Sample)


@dataclass(frozen=True)
class Finding:
    """A fault, or what cannot be verified, in one line."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Verified:
    """What was found of one run."""

    run: Path
    #: Samples, and those of them whose figure was re-read from its output.
    samples: int
    reread: int
    #: Of its chain; None if it has none, or cannot be read.
    head: str | None
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong; something may be unproven."""
        return all(each.kind == "unproven" for each in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """As in JSON."""
        return {**asdict(self), "run": str(self.run), "sound": self.is_sound}


def verify(run: Path, head: str | None = None) -> Verified:
    """Verify a run; with `head`, against what was kept of it elsewhere. Raises InputError."""
    if not (run / "run.json").exists():
        load_header(run)  # raises
    verifier = _Verifier(run)
    samples, its_head = 0, None
    try:
        samples, its_head = verifier.verify()
    except InputError as error:
        for line in str(error).splitlines():
            verifier.add("broken", line)
    if head is not None and head != its_head:
        line = f"{run}: head: {its_head or 'none'} found; allowed: {head}, as given"
        verifier.add("broken", line)
    return Verified(run, samples, verifier.reread, its_head, verifier.findings)


@dataclass
class _Verifier:
    """Collects what is found of a run."""

    run: Path
    findings: list[Finding] = field(default_factory=list)
    reread: int = 0
    #: Why something is unproven -> of how many.
    unproven: Counter[str] = field(default_factory=Counter)

    def add(self, kind: Kind, text: str) -> None:
        self.findings.append(Finding(kind, text))

    def verify(self) -> tuple[int, str | None]:
        """Number of samples, and the head of the chain."""
        header, samples = load_header(self.run), read_run(self.run)
        integrity = check_run(self.run, header, samples, read_provenance(self.run))
        for line in integrity.faults:
            self.add("broken" if line in integrity.broken else "contradicted", line)
        if integrity.head is None:
            self.add("unproven", f"{self.run}: {UNPROVEN}")
        for path, count in samples.files.items() if integrity.head else ():
            self._verify_case(path, count)
        for why, number in self.unproven.items():
            self.add("unproven", f"{why}: {number}")
        return samples.frame.height, integrity.head

    def _verify_case(self, path: Path, count: int) -> None:
        """The first samples of a case: more may be added meanwhile, and counts before them."""
        counted = _counters(self.run / "counters" / path.name)
        blocks = set()
        for at, sample in islice(_samples(path), count):
            blocks.add(sample.block)
            if sample.counters_sha256 != counted.get(sample.key):
                stated = sample.counters_sha256 or "none"
                allowed = f"{counted.get(sample.key) or 'none'}, by counters/{path.name}"
                self.add("broken", f"{at}: counters_sha256: {stated} found; allowed: {allowed}")
            self._verify_outputs(sample, at)
        logs = self.run / "logs" / path.stem
        if missing := [each for each in blocks if not (logs / f"{each}/reframe.json").exists()]:
            self.unproven[f"{logs}: blocks without a report of ReFrame"] += len(missing)

    def _verify_outputs(self, sample: Sample, at: str) -> None:
        """Outputs are what was written; the figure of merit is re-read from its own."""
        stem = run_folder.stem_of(sample.pair, sample.arm, sample.attempt)
        output = f"logs/{sample.case}/{sample.block}/{stem}.out"
        text = None
        for name, sha256 in sample.logs.items():
            if name not in (output, output.removesuffix("out") + "err"):
                return self.add("contradicted", f"{at}: logs: {name!r} found; allowed: {output}")
            try:
                content = run_folder.read_log(self.run, name)
            except FileNotFoundError:
                continue
            except InputError as error:
                return self.add("broken", f"{error}; named by {at}")
            if (digest := chain.digest(content)) != sha256:
                line = f"SHA-256: {digest} found; allowed: {sha256}, by {at}"
                return self.add("broken", f"{self.run / name}: {line}")
            text = content.decode(errors="replace") if name == output else text
        record = _workload(sample.workload)
        if text is not None and record is not None:
            return self._reread(record, sample, text, at)
        if sample.fom is not None:
            why = "whose output is not kept" if record else "of a check that reads its own outputs"
            self.unproven[f"{self.run}/logs/{sample.case}: figures of merit {why}"] += 1
        return None

    def _reread(self, record: Workload, sample: Sample, text: str, at: str) -> None:
        """Add a finding for each figure that is not the one which the output gives."""
        try:
            fom = record.parse(text)
        except FomError as error:
            if sample.fom is not None:
                line = f"{at}: fom: {sample.fom} found; allowed: none, by its output: {error}"
                self.add("contradicted", line)
            return
        if sample.fom is None:
            # A number of ranks that was not requested is no figure either.
            if sample.outcome == "no_fom" and "ranks" not in fom.extra:
                line = f"{at}: fom: none found; allowed: {fom.value}, by its output"
                self.add("contradicted", line)
            return
        self.reread += 1
        stated = {"fom": sample.fom, "fom_unit": sample.fom_unit, **sample.fom_extra}
        read = {"fom": fom.value, "fom_unit": fom.unit or record.unit, **fom.extra}
        stated["fom_better"], read["fom_better"] = sample.fom_better, fom.better or record.better
        for name in stated | read:
            if not _same(stated.get(name), read.get(name)):
                line = f"{stated.get(name)} found; allowed: {read.get(name)}, by its output"
                self.add("contradicted", f"{at}: {name}: {line}")


def _same(stated: Any, read: Any) -> bool:
    numbers = isinstance(stated, float) and isinstance(read, float)
    return isclose(stated, read, rel_tol=ROUNDING) if numbers else bool(stated == read)


@cache
def _workload(name: str) -> Workload | None:
    """The record of a workload; None of a check that reads its output itself."""
    return workload.load(name) if name in workload.names() else None


def _samples(path: Path) -> Iterator[tuple[str, Sample]]:
    """File and line of each whole sample, and the sample. Raises InputError."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield f"{path}:{number}", _SAMPLE.validate_json(line)
            except ValidationError as error:
                if line.endswith(b"\n"):
                    raise InputError(f"{path}:{number}: {first_fault(error)}") from error


def _counters(path: Path) -> dict[str, str]:
    """Key of a sample -> SHA-256 of all its lines in a file of counters. Raises InputError."""
    of_key: dict[str, hashlib._Hash] = {}
    for number, line in enumerate(path.read_bytes().splitlines(True) if path.exists() else (), 1):
        try:
            key = from_json(line)["key"]
        except (ValueError, TypeError, KeyError):
            if line.endswith(b"\n"):
                raise InputError(f"{path}:{number}: not a line of counters") from None
            continue
        of_key.setdefault(str(key), hashlib.sha256()).update(line)
    return {key: digest.hexdigest() for key, digest in of_key.items()}
