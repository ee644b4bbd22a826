"""Verifies a stored run: its checks, what samples name by digest, and what they say of it again.

Every sample names the SHA-256 of its counters, outputs and series. What is kept is read again: by
the workload's parser, which must give the figures that the sample has, and by the judge of runs,
which must find the same of its writers and conditions, and accept what was accepted.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from analysis.samples.columns import read_run
from analysis.samples.integrity import ROUNDING, check_run
from analysis.samples.provenance import read_provenance
from conductor.block.readers import FomError
from conductor.judge import series
from conductor.judge.judge import judge
from records import chain, run_folder
from records.errors import InputError
from records.json_limits import parse_document, validated
from records.run import load_header
from records.sample import Sample, renewed
from reframe_tests import workload
from reframe_tests.workload import Workload

#: `broken`: not what was written, by the chain or a digest. `contradicted`: by another record, by
#: the output when it is re-read, or by the series when they are judged again. `unproven`: cannot be
#: verified; no fault.
Kind = Literal["broken", "contradicted", "unproven"]


@dataclass(frozen=True)
class IntegrityFinding:
    """A fault, or what cannot be verified, in one line."""

    kind: Kind
    text: str


@dataclass(kw_only=True)
class Verified:
    """The findings on one run."""

    run: Path
    #: Samples, those of them whose figure was re-read, and those that were judged again.
    samples: int = 0
    reread: int = 0
    judged: int = 0
    #: Of its chain; None if it has none, or cannot be read.
    head: str | None = None
    findings: list[IntegrityFinding] = field(default_factory=list)
    #: Further remarks: on a crate, its manifest and who signed it.
    remarks: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Return whether nothing is wrong; something may be unproven."""
        return all(finding.kind == "unproven" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the findings as in JSON."""
        return {**asdict(self), "run": str(self.run), "sound": self.is_sound}


def verify(run: Path, head: str | None = None) -> Verified:
    """Verify a run; with `head`, against what was kept of it elsewhere. Raises InputError."""
    if not (run / "run.json").exists():
        load_header(run)  # raises
    verified = Verified(run=run)
    try:
        verified.findings += _run_findings(verified)
    except InputError as error:
        verified.findings += [IntegrityFinding("broken", line) for line in str(error).splitlines()]
    if head is not None and head != verified.head:
        verified.findings.append(
            _denied("broken", f"{run}: head", verified.head, f"{head}, as given")
        )
    return verified


def _denied(kind: Kind, location: str, stated: object, allowed: object) -> IntegrityFinding:
    return IntegrityFinding(
        kind, f"{location}: {'none' if stated is None else stated} found; allowed: {allowed}"
    )


def _run_findings(verified: Verified) -> Iterator[IntegrityFinding]:
    """Chain and checks of the run; then what each sample names and states."""
    run, unproven = verified.run, Counter[str]()
    header, samples = load_header(run), read_run(run)
    integrity = check_run(run, header, samples, read_provenance(run))
    verified.samples, verified.head = samples.frame.height, integrity.head
    for line in integrity.faults:
        yield IntegrityFinding("broken" if line in integrity.broken else "contradicted", line)
    for path, count in samples.files.items():
        digests, blocks = _digests(run / "counters" / path.name), set()
        for location, sample in _samples(path, count):
            blocks.add(sample.block)
            counted = digests.get(sample.key)
            if sample.counters_sha256 != counted:
                allowed = f"{counted or 'none'}, by counters/{path.name}"
                yield _denied(
                    "broken", f"{location}: counters_sha256", sample.counters_sha256, allowed
                )
            yield from _sample_findings(verified, sample, location, unproven)
        reports = (run / "logs" / path.stem / str(block) / "reframe.json" for block in blocks)
        unproven["blocks without a report of ReFrame"] += sum(
            not report.exists() for report in reports
        )
    yield from (
        IntegrityFinding("unproven", f"{run}: {why}: {count}")
        for why, count in unproven.items()
        if count
    )


def _samples(path: Path, count: int) -> Iterator[tuple[str, Sample]]:
    """File and line of each of the first samples, and the sample; more may be added meanwhile."""
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, count), 1):
            location = f"{path}:{number}"
            yield location, validated(Sample, renewed(parse_document(line, location)), location)


def _digests(path: Path) -> dict[str, str]:
    """Key of a sample -> SHA-256 of its lines in a file of counters, whose last may be torn."""
    digests_by_key = defaultdict[str, "hashlib._Hash"](hashlib.sha256)
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            key = str(from_json(line)["key"])
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{path}:{number}: not a line of counters") from None
        digests_by_key[key].update(line + b"\n")
    return {key: digest.hexdigest() for key, digest in digests_by_key.items()}


def _sample_findings(
    verified: Verified, sample: Sample, location: str, unproven: Counter[str]
) -> Iterator[IntegrityFinding]:
    """Yield what is kept of a sample is what was written, and says what the sample says."""
    stem = run_folder.log_stem(sample.pair, sample.arm, sample.attempt)
    contents: dict[str, bytes] = {}
    for ending in (".out", ".err", series.ENDING):
        name = f"logs/{sample.case}/{sample.block}/{stem}{ending}"
        try:
            content = run_folder.read_log(verified.run, name) if name in sample.logs else None
        except FileNotFoundError:
            content = None
        except InputError as error:
            yield IntegrityFinding("broken", f"{error}, named by {location}")
            content = None
        if content is not None:
            contents[ending] = content
            if (digest := chain.digest(content)) != sample.logs[name]:
                allowed = f"{sample.logs[name]}, named by {location}"
                yield _denied("broken", f"{verified.run / name}: SHA-256", digest, allowed)
    record, shown = _workload(sample.workload), sample
    if sample.fom is not None and record and ".out" in contents:
        verified.reread += 1
        shown = _reread(shown, record, contents[".out"].decode(errors="replace"))
    elif sample.fom is not None:
        why = "whose output is not kept" if record else "of checks that read their own outputs"
        unproven[f"figures of merit {why}"] += 1
    if sample.elapsed_s:  # its application ran
        try:
            stored = series.read(contents.get(series.ENDING, b""))
        except ValueError:
            unproven["runs whose series are not kept, or of another version"] += 1
        else:
            verified.judged += 1
            shown = _judged(shown, stored)
    if shown != sample:
        yield from _denials(asdict(sample), asdict(shown), location)


def _reread(sample: Sample, record: Workload, output: str) -> Sample:
    """The sample with the figures that the workload's parser gets from the output."""
    try:
        fom = record.parse(output)
    except FomError as error:
        return replace(sample, fom=None, outcome="no_fom", reason=str(error))
    unit, better = fom.unit or record.unit, fom.better or record.better
    extra = dict(fom.extra)
    return replace(sample, fom=fom.value, fom_unit=unit, fom_better=better, fom_extra=extra)


def _judged(sample: Sample, stored: series.StoredSeries) -> Sample:
    """The sample as the judge accepts it by its series, with their writers and conditions."""
    window_s = (sample.start_s, sample.start_s + sample.elapsed_s)
    judgement = judge(stored.series, window_s, stored.limits)
    if sample.outcome == "accepted" and judgement.reasons:
        sample = replace(sample, outcome="rejected", reason=judgement.reasons[0])
    return replace(sample, writers=judgement.writers, conditions=judgement.conditions)


def _denials(
    stated: Any, shown: Any, location: str, names: tuple[str, ...] = ()
) -> Iterator[IntegrityFinding]:
    """A finding for each value within `stated` that differs from `shown` by more than rounding."""
    if isinstance(stated, dict) and isinstance(shown, dict):
        for name in stated | shown:
            yield from _denials(stated.get(name), shown.get(name), location, (*names, name))
    elif isinstance(stated, list) and isinstance(shown, list) and len(stated) == len(shown):
        for number, pair in enumerate(zip(stated, shown, strict=True)):
            yield from _denials(*pair, location, (*names, str(number)))
    else:
        numbers = isinstance(stated, float) and isinstance(shown, float)
        if not (isclose(stated, shown, rel_tol=ROUNDING) if numbers else stated == shown):
            allowed = f"{shown}, by its output or series"
            yield _denied("contradicted", f"{location}: {'.'.join(names)}", stated, allowed)


@cache
def _workload(name: str) -> Workload | None:
    """The record of a workload; None of a check that reads its output itself."""
    return workload.load(name) if name in workload.names() else None
