"""Verifies a stored run: its chain, the files that its samples name, and the samples themselves.

A sample is the record of one run of the application. It has the SHA-256 of its counters, outputs
and series. If a sample has a figure of merit, its stored output is parsed again by the workload's
parser. The figures must be those of the sample. Stored series are judged again. The judgement must
have the same records of writers and of disturbances (`Sample.conditions`), and must accept a run
that was accepted before.
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
from analysis.samples.integrity import MAX_ROUNDING_ERROR, check_run
from analysis.samples.provenance import read_provenance
from conductor.block.readers import FomError
from conductor.judge import series
from conductor.judge.judge import judge
from records import chain, run_folder
from records.errors import InputError
from records.json_limits import parse_document, validated
from records.run import load_header
from records.sample import Sample, upgraded
from reframe_tests import workload
from reframe_tests.workload import Workload

#: `broken`: a file cannot be read, or the chain or a digest shows that it was changed later.
#: `contradicted`: a value breaks a rule of records, or differs from another record, from the output
#: or from the series.
#: `unproven`: something cannot be verified, which is no fault.
FindingKind = Literal["broken", "contradicted", "unproven"]


@dataclass(frozen=True)
class IntegrityFinding:
    """A fault of a run, or something that cannot be verified."""

    kind: FindingKind
    #: In one line: where, what was found and, for most faults, what is allowed.
    text: str


@dataclass(kw_only=True)
class Verification:
    """The findings on one run."""

    run: Path
    #: Number of samples.
    samples: int = 0
    #: Number of samples whose output was parsed again.
    reread: int = 0
    #: Number of samples whose series were judged again.
    judged: int = 0
    #: Head of the run's chain: a SHA-256 over all its records. It is None if they cannot be read.
    head: str | None = None
    findings: list[IntegrityFinding] = field(default_factory=list)
    #: Remarks on the manifest and the signer, if the run is in a crate of `nimc pack`.
    remarks: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Return whether no finding is a fault. Findings of kind `unproven` are no faults."""
        return all(finding.kind == "unproven" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the verification in the form in which it is printed as JSON."""
        return {**asdict(self), "run": str(self.run), "sound": self.is_sound}


def verify(run: Path, head: str | None = None) -> Verification:
    """Verify a run. Raises InputError if the folder has no run.

    If `head` is given, the head of the run's chain must be equal to it. A user may have stored this
    head elsewhere.
    """
    if not (run / "run.json").exists():
        load_header(run)  # raises InputError
    verification = Verification(run=run)
    try:
        verification.findings += _run_findings(verification)
    except InputError as error:
        verification.findings += [
            IntegrityFinding("broken", line) for line in str(error).splitlines()
        ]
    if head is not None and head != verification.head:
        verification.findings.append(
            _mismatch("broken", f"{run}: head", verification.head, f"{head}, as given")
        )
    return verification


def _mismatch(
    kind: FindingKind, location: str, stated: object, allowed: object
) -> IntegrityFinding:
    """Return the finding that the value `stated` at a location differs from the `allowed` value."""
    return IntegrityFinding(
        kind, f"{location}: {'none' if stated is None else stated} found; allowed: {allowed}"
    )


def _run_findings(verification: Verification) -> Iterator[IntegrityFinding]:
    """Check the chain and the records of a run, then each sample and the files that it names.

    Yields the findings. Stores numbers of samples and the head in `verification`.
    """
    run, unproven = verification.run, Counter[str]()
    header, samples = load_header(run), read_run(run)
    integrity = check_run(run, header, samples, read_provenance(run))
    verification.samples, verification.head = samples.frame.height, integrity.head
    # If all faults are broken files, so are those that the last line, 'and N more', counts.
    only_broken_files = len(integrity.broken_file_faults) == integrity.fault_count
    for line in integrity.faults:
        is_broken = only_broken_files or line in integrity.broken_file_faults
        yield IntegrityFinding("broken" if is_broken else "contradicted", line)
    for path, count in samples.files.items():
        digests, blocks = _digests(run / "counters" / path.name), set()
        for location, sample in _samples(path, count):
            blocks.add(sample.block)
            counters_digest = digests.get(sample.key)
            if sample.counters_sha256 != counters_digest:
                allowed = f"{counters_digest or 'none'}, by counters/{path.name}"
                yield _mismatch(
                    "broken", f"{location}: counters_sha256", sample.counters_sha256, allowed
                )
            yield from _sample_findings(verification, sample, location, unproven)
        reports = (run / "logs" / path.stem / str(block) / "reframe.json" for block in blocks)
        unproven["blocks without a report of ReFrame"] += sum(
            not report.exists() for report in reports
        )
    yield from (
        IntegrityFinding("unproven", f"{run}: {subject}: {count}")
        for subject, count in unproven.items()
        if count
    )


def _samples(path: Path, count: int) -> Iterator[tuple[str, Sample]]:
    """Yield the location (`FILE:LINE`) and the sample of each of the first `count` lines of a file.

    Later lines are left out, since a run that goes on may add lines meanwhile.
    """
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, count), 1):
            location = f"{path}:{number}"
            yield location, validated(Sample, upgraded(parse_document(line, location)), location)


def _digests(path: Path) -> dict[str, str]:
    """Return key of a sample -> SHA-256 of the sample's lines in a file of counters.

    An incomplete last line is left out.
    """
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
    verification: Verification, sample: Sample, location: str, unproven: Counter[str]
) -> Iterator[IntegrityFinding]:
    """Compare a sample with its stored output and series.

    Yields the findings. Counts in `unproven` what cannot be compared.
    """
    stem = run_folder.log_stem(sample.pair, sample.arm, sample.attempt)
    contents: dict[str, bytes] = {}
    for ending in (".out", ".err", series.ENDING):
        name = f"logs/{sample.case}/{sample.block}/{stem}{ending}"
        try:
            content = run_folder.read_log(verification.run, name) if name in sample.logs else None
        except FileNotFoundError:
            content = None
        except InputError as error:
            yield IntegrityFinding("broken", f"{error}, named by {location}")
            content = None
        if content is not None:
            contents[ending] = content
            if (digest := chain.digest(content)) != sample.logs[name]:
                allowed = f"{sample.logs[name]}, named by {location}"
                yield _mismatch("broken", f"{verification.run / name}: SHA-256", digest, allowed)
    workload_record = _workload_record(sample.workload)
    recomputed = sample
    if sample.fom is not None and workload_record and ".out" in contents:
        verification.reread += 1
        output = contents[".out"].decode(errors="replace")
        recomputed = _reread(recomputed, workload_record, output)
    elif sample.fom is not None:
        subject = "figures of merit of checks that read their own outputs"
        if workload_record:
            subject = "figures of merit whose output is not kept"
        unproven[subject] += 1
    if sample.elapsed_s:  # the application ran
        try:
            stored = series.read(contents.get(series.ENDING, b""))
        except ValueError:
            unproven["runs whose series are not kept, or have another version"] += 1
        else:
            verification.judged += 1
            recomputed = _judged(recomputed, stored)
    if recomputed != sample:
        yield from _contradictions(asdict(sample), asdict(recomputed), location)


def _reread(sample: Sample, workload_record: Workload, output: str) -> Sample:
    """Return a copy of the sample with the figures that the workload's parser finds in `output`."""
    try:
        fom = workload_record.parse(output)
    except FomError as error:
        return replace(sample, fom=None, outcome="no_fom", reason=str(error))
    unit, better = fom.unit or workload_record.unit, fom.better or workload_record.better
    extra = dict(fom.extra)
    return replace(sample, fom=fom.value, fom_unit=unit, fom_better=better, fom_extra=extra)


def _judged(sample: Sample, stored: series.StoredSeries) -> Sample:
    """Return a copy of the sample with the verdict, writers and conditions of its `stored` series.

    An accepted sample may become rejected. Another outcome is not changed.
    """
    window_s = (sample.start_s, sample.start_s + sample.elapsed_s)
    judgement = judge(stored.series, window_s, stored.limits)
    if sample.outcome == "accepted" and judgement.reasons:
        sample = replace(sample, outcome="rejected", reason=judgement.reasons[0])
    return replace(sample, writers=judgement.writers, conditions=judgement.conditions)


def _contradictions(
    stated: Any, recomputed: Any, location: str, names: tuple[str, ...] = ()
) -> Iterator[IntegrityFinding]:
    """Yield a finding for each value of a sample that differs from the recomputed value.

    Floats may differ by rounding. `names` is the path of keys to the value in the sample.
    """
    if isinstance(stated, dict) and isinstance(recomputed, dict):
        for name in stated | recomputed:
            yield from _contradictions(
                stated.get(name), recomputed.get(name), location, (*names, name)
            )
    elif (
        isinstance(stated, list) and isinstance(recomputed, list) and len(stated) == len(recomputed)
    ):
        for index, (value, new_value) in enumerate(zip(stated, recomputed, strict=True)):
            yield from _contradictions(value, new_value, location, (*names, str(index)))
    else:
        if isinstance(stated, float) and isinstance(recomputed, float):
            agree = isclose(stated, recomputed, rel_tol=MAX_ROUNDING_ERROR)
        else:
            agree = stated == recomputed
        if not agree:
            allowed = f"{'none' if recomputed is None else recomputed}, by its output or series"
            yield _mismatch("contradicted", f"{location}: {'.'.join(names)}", stated, allowed)


@cache
def _workload_record(name: str) -> Workload | None:
    """Return the record of a workload; None for a check that parses its output itself."""
    return workload.load_workload(name) if name in workload.workload_names() else None
