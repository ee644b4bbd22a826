"""Verifies a stored run: its chain, what samples name by digest, and figures re-read from logs.

Every sample names the SHA-256 of its counters and outputs. An output that is kept is read again by
the workload's parser of today, and must give the figures that the sample has.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from analysis.samples.columns import read_run
from analysis.samples.counts import read_counts
from analysis.samples.faults import CHAINED, ROUNDING, UNPROVEN
from analysis.samples.integrity import check_run
from analysis.samples.provenance import read_provenance
from nimc.base.errors import InputError, first_fault
from nimc.base.json_limits import may_have_deep_line, refuse_deep, refuse_long
from nimc.base.units import plural
from nimc.node.readers import FomError
from nimc.records import chain, run_folder
from nimc.records.run import load_header
from nimc.records.sample import Better, Outcome
from nimc.run.block_logs import judge_block_logs, judge_heads
from reframe_tests import workload
from reframe_tests.workload import Workload

#: `broken`: not what was written, by the chain or a digest. `contradicted`: by another record, or
#: by the log when it is re-read. `unproven`: cannot be verified; no fault.
Kind = Literal["broken", "contradicted", "unproven"]


@dataclass(frozen=True)
class Finding:
    """A fault, or what cannot be verified, in one line."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Verified:
    """What was found of one run."""

    run: Path
    #: Samples, and those of them whose figure was re-read from its log.
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
    found = _Found()
    try:
        samples, its_head = _verify(run, found)
    except InputError as error:
        samples, its_head = 0, None
        for line in str(error).splitlines():
            found.add("broken", line)
    if head is not None and head != its_head:
        found.add("broken", f"{run}: head: {its_head or 'none'} found; allowed: {head}, as given")
    return Verified(run, samples, found.reread, its_head, found.findings)


@dataclass
class _Found:
    findings: list[Finding] = field(default_factory=list)
    reread: int = 0
    #: Why figures are unproven -> how many.
    unproven: Counter[str] = field(default_factory=Counter)

    def add(self, kind: Kind, text: str) -> None:
        self.findings.append(Finding(kind, text))


def _verify(run: Path, found: _Found) -> tuple[int, str | None]:
    header, samples, records = load_header(run), read_run(run), read_provenance(run)
    integrity = check_run(run, header, samples, records, read_counts(run))
    for line in integrity.faults:
        found.add("broken" if line in integrity.broken else "contradicted", line)
    for line in judge_block_logs(run, header, samples, records.records):
        found.add("contradicted", line)
    if integrity.head is None:
        found.add("unproven", f"{run}: {UNPROVEN}")
    ends: dict[tuple[str, int], str] = {}
    for path, count in samples.files.items() if integrity.head else ():
        _verify_case(run, path, count, found, ends)
    for line in judge_heads(run, samples, ends):
        found.add("broken", line)
    for why, count in found.unproven.items():
        found.add("unproven", f"{why}: {plural(count, 'figure')} of merit cannot be re-read")
    return samples.frame.height, integrity.head


# The records of a case: what each sample claims, its counters, and its logs.


@dataclass(frozen=True)
class _Claim:
    """What is verified of a sample."""

    key: str
    case: str
    workload: str
    arm: str
    block: int
    pair: int
    attempt: int
    outcome: Outcome
    fom: float | None
    fom_unit: str
    fom_better: Better
    schema: int
    fom_extra: dict[str, float] = field(default_factory=dict)
    counters_sha256: str | None = None
    logs: dict[str, str] = field(default_factory=dict)
    chain: str = ""

    @property
    def stem(self) -> str:
        """Path of its logs in the folder of the run, without ending."""
        return (
            f"logs/{self.case}/{self.block}/{run_folder.stem_of(self.pair, self.arm, self.attempt)}"
        )


_CLAIM = TypeAdapter(_Claim)


def _verify_case(
    run: Path, path: Path, count: int, found: _Found, ends: dict[tuple[str, int], str]
) -> None:
    """Verify the first samples of a case: more may be added meanwhile, and counts before them.

    Adds to `ends` the last value in the chain of each of its blocks.
    """
    counted = _counters(run / "counters" / path.name, found)
    for at, claim in islice(_claims(path), count):
        ends[claim.case, claim.block] = claim.chain
        if claim.schema < CHAINED:
            found.add("contradicted", f"{at}: schema: {claim.schema} found; allowed: {CHAINED}")
            continue
        sha256 = counted.get(claim.key)
        if claim.counters_sha256 != sha256:
            stated = f"counters_sha256: {claim.counters_sha256 or 'none'} found"
            allowed = f"{sha256 or 'none'}, by counters/{path.name}"
            found.add("broken", f"{at}: {stated}; allowed: {allowed}")
        _verify_logs(run, claim, at, found)


def _verify_logs(run: Path, claim: _Claim, at: str, found: _Found) -> None:
    output = f"{claim.stem}.out"
    if strange := [name for name in claim.logs if name not in (output, f"{claim.stem}.err")]:
        found.add("contradicted", f"{at}: logs: {strange[0]!r} found; allowed: {output}")
        return
    not_kept = "none is named" if output not in claim.logs else None
    for name, sha256 in claim.logs.items():
        try:
            text = _log(run, name, sha256, at, found)
        except FileNotFoundError:
            not_kept = "not kept" if name == output else not_kept
            continue
        if name == output and text is not None:
            _reread(claim, text, f"{run / name}", at, found)
    if not_kept and claim.fom is not None:
        found.unproven[f"{run}/logs/{claim.case}: {not_kept}"] += 1


def _claims(path: Path) -> Iterator[tuple[str, _Claim]]:
    """File and line of each whole sample, and what it claims. Raises InputError."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield f"{path}:{number}", _CLAIM.validate_json(line)
            except ValidationError as error:
                if line.endswith(b"\n"):
                    raise InputError(f"{path}:{number}: {first_fault(error)}") from error


def _counters(path: Path, found: _Found) -> dict[str, str]:
    """Key of a sample -> SHA-256 of all its lines in a file of counters."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    deep = may_have_deep_line(whole)
    of_key: dict[str, hashlib._Hash] = {}
    for number, line in enumerate(io.BytesIO(whole), 1):
        at = f"{path}:{number}"
        refuse_long(line, at)
        if deep:
            refuse_deep(line, at)
        key = None
        with suppress(ValueError, TypeError, KeyError):
            key = from_json(line)["key"]
        # The key comes first in all lines that a run writes.
        if isinstance(key, str) and line.startswith(f'{{"key":{json.dumps(key)}'.encode()):
            of_key.setdefault(key, hashlib.sha256()).update(line)
        else:
            found.add("broken", f"{at}: not a line of counters")
    return {key: digest.hexdigest() for key, digest in of_key.items()}


def _log(run: Path, name: str, sha256: str, at: str, found: _Found) -> str | None:
    """The text of a log, None if it is not what its sample says. Raises FileNotFoundError."""
    try:
        content = run_folder.read_log(run, name)
    except InputError as error:
        found.add("broken", f"{error}; named by {at}")
        return None
    digest = chain.digest(content)
    if digest != sha256:
        found.add("broken", f"{run / name}: SHA-256: {digest} found; allowed: {sha256}, by {at}")
        return None
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace").read()


# The figure of merit, re-read.


@cache
def _workload(name: str) -> Workload | None:
    """The record of a workload; None of a check that reads its output itself."""
    return workload.load(name) if name in workload.names() else None


def _reread(claim: _Claim, text: str, log: str, at: str, found: _Found) -> None:
    """Add a finding for each figure that is not the one which the log gives."""
    record = _workload(claim.workload)
    if record is None:
        found.unproven[f"{claim.workload}: a check of others reads its logs"] += 1
        return
    try:
        fom = record.parse(text)
    except FomError as error:
        if claim.fom is not None:
            what = f"{at}: fom: {claim.fom} found; allowed: none: {log}: {error}"
            found.add("contradicted", what)
        return
    if claim.fom is None:
        # A number of ranks that was not requested is no figure either.
        if claim.outcome == "no_fom" and "ranks" not in fom.extra:
            found.add("contradicted", f"{at}: fom: none found; allowed: {fom.value}, by {log}")
        return
    found.reread += 1
    # Field, what the sample has, and what the log gives.
    figures: list[tuple[str, Any, Any]] = [
        ("fom", claim.fom, fom.value),
        ("fom_unit", claim.fom_unit, fom.unit or record.unit),
        ("fom_better", claim.fom_better, fom.better or record.better),
    ]
    for name in {**claim.fom_extra, **fom.extra}:
        figures.append((f"fom_extra.{name}", claim.fom_extra.get(name), fom.extra.get(name)))
    for name, stated, read in figures:
        numbers = isinstance(stated, float) and isinstance(read, float)
        if not (math.isclose(stated, read, rel_tol=ROUNDING) if numbers else stated == read):
            found.add("contradicted", f"{at}: {name}: {stated} found; allowed: {read}, by {log}")
