"""Verifies a stored run: its checks, what samples name by digest, and what they say of it again.

Every sample names the SHA-256 of its counters, outputs and series. What is kept is read again: by
the workload's parser, which must give the figures that the sample has, and by the judge of runs,
which must find the same of its writers and conditions, and accept what was accepted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from analysis.samples.columns import read_run
from analysis.samples.integrity import ROUNDING, UNPROVEN, check_run
from analysis.samples.provenance import read_provenance
from conductor import series
from conductor.figures import conditions, writer_records
from conductor.judge import faults
from conductor.readers import FomError
from records import chain, run_folder
from records.errors import InputError, first_fault
from records.run import load_header
from records.sample import Sample
from reframe_tests import workload
from reframe_tests.workload import Workload

#: `broken`: not what was written, by the chain or a digest. `contradicted`: by another record, by
#: the output when it is re-read, or by the series when they are judged again. `unproven`: cannot be
#: verified; no fault.
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
    #: Samples, those of them whose figure was re-read, and those that were judged again.
    samples: int
    reread: int
    judged: int
    #: Of its chain; None if it has none, or cannot be read.
    head: str | None
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong; something may be unproven."""
        return all(finding.kind == "unproven" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """As in JSON."""
        return {**asdict(self), "run": str(self.run), "sound": self.is_sound}


def verify(run: Path, head: str | None = None) -> Verified:
    """Verify a run; with `head`, against what was kept of it elsewhere. Raises InputError."""
    if not (run / "run.json").exists():
        load_header(run)  # raises
    verifier = _Verifier(run)
    try:
        verifier.verify()
    except InputError as error:
        for line in str(error).splitlines():
            verifier.add("broken", line)
    its_head = verifier.head
    if head is not None and head != its_head:
        verifier.deny("broken", f"{run}: head", its_head or "none", f"{head}, as given")
    counts = verifier.samples, verifier.reread, verifier.judged
    return Verified(run, *counts, its_head, verifier.findings)


@dataclass
class _Verifier:
    """Collects the findings of a run."""

    run: Path
    findings: list[Finding] = field(default_factory=list)
    samples: int = 0
    reread: int = 0
    judged: int = 0
    head: str | None = None
    #: Why something is unproven -> of how many.
    unproven: Counter[str] = field(default_factory=Counter)

    def add(self, kind: Kind, text: str) -> None:
        self.findings.append(Finding(kind, text))

    def deny(self, kind: Kind, at: str, stated: object, allowed: object) -> None:
        self.add(kind, f"{at}: {stated} found; allowed: {allowed}")

    def verify(self) -> None:
        """Chain and checks of the run; then what each sample names and states."""
        header, samples = load_header(self.run), read_run(self.run)
        integrity = check_run(self.run, header, samples, read_provenance(self.run))
        self.samples, self.head = samples.frame.height, integrity.head
        for line in integrity.faults:
            self.add("broken" if line in integrity.broken else "contradicted", line)
        if integrity.head is None:
            self.add("unproven", f"{self.run}: {UNPROVEN}")
        for path, count in samples.files.items() if integrity.head else ():
            self._verify_case(path, count)
        for why, number in self.unproven.items():
            self.add("unproven", f"{self.run}: {why}: {number}")

    def _verify_case(self, path: Path, count: int) -> None:
        """The first samples of a case: more may be added meanwhile, and counts before them."""
        counted = _counters(self.run / "counters" / path.name)
        blocks = set()
        for at, sample in islice(_samples(path), count):
            blocks.add(sample.block)
            if sample.counters_sha256 != (digest := counted.get(sample.key)):
                allowed = f"{digest or 'none'}, by counters/{path.name}"
                stated = sample.counters_sha256 or "none"
                self.deny("broken", f"{at}: counters_sha256", stated, allowed)
            self._verify_sample(sample, at)
        reports = (self.run / "logs" / path.stem / f"{block}/reframe.json" for block in blocks)
        if lacking := sum(not report.exists() for report in reports):
            self.unproven["blocks without a report of ReFrame"] += lacking

    def _verify_sample(self, sample: Sample, at: str) -> None:
        """What is kept of a run is what was written, and says what the sample says."""
        stem = run_folder.stem_of(sample.pair, sample.arm, sample.attempt)
        place = f"logs/{sample.case}/{sample.block}/{stem}"
        output, _, of_judge = (
            self._content(f"{place}{ending}", sample, at)
            for ending in (".out", ".err", series.ENDING)
        )
        record = _workload(sample.workload)
        if sample.fom is not None and record and output is not None:
            self._reread(sample, record, output.decode(errors="replace"), at)
        elif sample.fom is not None:
            why = "whose output is not kept" if record else "of checks that read their own outputs"
            self.unproven[f"figures of merit {why}"] += 1
        if sample.elapsed_s:  # its application ran
            self._judge(sample, of_judge, at)

    def _content(self, name: str, sample: Sample, at: str) -> bytes | None:
        """A file that a sample names; None if it names none, or it is not kept as it was."""
        if (sha256 := sample.logs.get(name)) is None:
            return None
        try:
            content = run_folder.read_log(self.run, name)
        except FileNotFoundError:
            return None
        except InputError as error:
            self.add("broken", f"{error}; named by {at}")
            return None
        if (digest := chain.digest(content)) == sha256:
            return content
        self.deny("broken", f"{self.run / name}: SHA-256", digest, f"{sha256}, by {at}")
        return None

    def _reread(self, sample: Sample, record: Workload, output: str, at: str) -> None:
        """The figures are those that the workload's parser gets from the output."""
        try:
            fom = record.parse(output)
        except FomError as error:
            self.deny("contradicted", f"{at}: fom", sample.fom, f"none, by its output: {error}")
            return
        self.reread += 1
        unit, better = fom.unit or record.unit, fom.better or record.better
        self._compare(
            {"fom": sample.fom, "fom_unit": sample.fom_unit, "fom_better": sample.fom_better}
            | sample.fom_extra,
            {"fom": fom.value, "fom_unit": unit, "fom_better": better} | dict(fom.extra),
            f"{at}: ",
            "output",
        )

    def _judge(self, sample: Sample, content: bytes | None, at: str) -> None:
        """The judge accepts the run by its series, and they give its writers and conditions."""
        try:
            stored = series.read(content or b"")
        except ValueError:
            self.unproven["runs whose series are not kept, or of another version"] += 1
            return
        self.judged += 1
        window_s = (sample.start_s, sample.start_s + sample.elapsed_s)
        reason = next(faults(stored.series, window_s, stored.limits), None)
        if sample.outcome == "kept" and reason:
            self.deny("contradicted", f"{at}: outcome", sample.outcome, f"rejected: {reason}")
        writers = writer_records(stored.series, window_s)
        nodes = [conditions(node) for node in stored.series.nodes]
        if (writers, nodes) != (sample.writers, sample.conditions):
            judged = asdict(replace(sample, writers=writers, conditions=nodes))
            self._compare(asdict(sample), judged, f"{at}: ", "series")

    def _compare(self, stated: Any, shown: Any, at: str, by: str) -> None:
        """Deny each value in a JSON value that is not the one shown, but for rounding."""
        if isinstance(stated, dict) and isinstance(shown, dict):
            for name in stated | shown:
                self._compare(stated.get(name), shown.get(name), f"{at}.{name}", by)
        elif isinstance(stated, list) and isinstance(shown, list) and len(stated) == len(shown):
            for number, pair in enumerate(zip(stated, shown, strict=True)):
                self._compare(*pair, f"{at}.{number}", by)
        elif not _same(stated, shown):
            self.deny("contradicted", at.replace(": .", ": "), stated, f"{shown}, by its {by}")


def _same(stated: Any, shown: Any) -> bool:
    numbers = isinstance(stated, float) and isinstance(shown, float)
    return isclose(stated, shown, rel_tol=ROUNDING) if numbers else bool(stated == shown)


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
