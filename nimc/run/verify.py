"""Verifies a stored run: its chain, what samples name by digest, and figures re-read from logs.

Every sample names the SHA-256 of its counters and outputs. An output that is kept is read again by
the workload's parser of today, and must give the figures that the sample has.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from analysis.effects.estimate import reported, results
from analysis.samples.columns import MOST, Samples, read_run
from analysis.samples.counts import read_counts
from analysis.samples.faults import CHAINED, ROUNDING, UNPROVEN
from analysis.samples.integrity import check_run
from analysis.samples.provenance import read_provenance
from nimc.base.errors import InputError, first_fault, show
from nimc.base.json_limits import read_json, refuse_long, validated
from nimc.base.units import plural
from nimc.node.readers import FomError
from nimc.records import chain, run_folder
from nimc.records.run import RunHeader, load_header
from nimc.records.sample import Better, Outcome
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
    of_key: dict[str, hashlib._Hash] = {}
    for number, line in enumerate(io.BytesIO(whole), 1):
        at = f"{path}:{number}"
        refuse_long(line, at)
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


# What else the logs of a block say about it: ReFrame's report, and the outputs of its writers.
#
# When a block ends, its check reports to ReFrame what was measured (`estimate.reported`). ReFrame
# stores that with the session's times, version and variables in `logs/CASE/BLOCK/reframe.json`,
# which so repeats what the samples say. A report that is missing, damaged or of a block that failed
# contradicts nothing.


#: How far the clocks of the nodes may be from that of ReFrame's host, seconds.
_CLOCKS_S = 60.0
#: A session that begins so soon after its run was made by the same version, seconds.
_AT_ONCE_S = 10.0
#: Transport -> what perftest prints of the link below it.
_LINKS = {"InfiniBand": "IB", "RoCE": "Ethernet", "soft-RoCE": "Ethernet"}
_LINK = re.compile(rb"^ Link type\s*:\s*(\w+)", re.MULTILINE)


class Session(BaseModel):
    """One session of ReFrame."""

    version: str
    time_start_unix: float
    time_end_unix: float
    #: Head of the run's chain before the block (`--session-extras`).
    nimc_head: str | None = None


class Testcase(BaseModel):
    """A check in it; those that only build have no case."""

    case: str | None = None
    block: int | None = None
    result: str | None = None
    nimc_dir: str = ""
    seed: int | None = None
    notes: list[str] = []
    #: `SYSTEM:PARTITION:NAME` -> value, reference, thresholds, unit and result.
    perfvalues: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = None


class SessionRun(BaseModel):
    """One execution of its checks."""

    testcases: list[Testcase]


class Report(BaseModel):
    """ReFrame's report."""

    session_info: Session
    runs: list[SessionRun]


def judge_block_logs(
    run: Path, header: RunHeader, samples: Samples, records: Mapping[str, Any]
) -> Iterator[str]:
    """A line for each contradiction; `records` are those of provenance (`Provenance.records`)."""
    cases = {path.stem for path in samples.files}
    frame = samples.frame.with_row_index("row").with_columns(name=pl.col("case").cast(pl.String))
    for part in frame.partition_by("case", "block", maintain_order=True):
        case, block = part.select("name", "block").row(0)
        if case in cases:
            folder = f"logs/{case}/{block}"
            own = [records.get(sha, {}) for sha in part["provenance"].cast(pl.String).unique()]
            yield from _of_report(run / folder / "reframe.json", case, part, header, own)
            writers = samples.writers.join(part.select("row"), on="row", how="semi")
            yield from _of_writers(run, folder, writers)


def judge_heads(run: Path, samples: Samples, ends: Mapping[tuple[str, int], str]) -> Iterator[str]:
    """A line for each report whose head is not that of the samples before its block.

    `ends`: case and block -> the last value in the chain, empty of a run that has none. Blocks are
    made one after another.
    """
    case = pl.col("case").cast(pl.String)
    known = samples.frame.filter(case.is_in([path.stem for path in samples.files]))
    begun = known.group_by(case, "block").agg(pl.col("start_s").min())
    header, last = chain.header_digest(chain.header_of(run)), dict[str, str]()
    for name, block in begun.sort("start_s").select("case", "block").iter_rows():
        path = run / "logs" / name / str(block) / "reframe.json"
        report = _report(path)
        head = chain.head(header, last) if ends else "none"
        if report and report.session_info.nimc_head not in (None, head):
            found = show(report.session_info.nimc_head)
            yield f"{path}: nimc_head: {found} found; allowed: {head}, of what was before the block"
        last[name] = ends.get((name, block), "")


def _report(path: Path) -> Report | None:
    try:
        return validated(Report, read_json(path), path)
    except (OSError, InputError):
        return None


def _of_report(
    path: Path, case: str, block: pl.DataFrame, header: RunHeader, records: list[dict[str, Any]]
) -> Iterator[str]:
    report = _report(path)
    if report is None:
        return
    by = f"samples/{case}.jsonl and run.json"
    for name, value, allowed in _of_session(report.session_info, block, header, records):
        yield f"{path}: {name}: {show(value)} found; allowed: {allowed}"
    found = [each for one in report.runs for each in one.testcases]
    for each in found:
        if (each.case, each.block, each.result) != (case, block["block"][0], "pass"):
            continue
        for name, value, allowed in _of_testcase(each, block, header):
            yield f"{path}: {name}: {show(value)} found; allowed: {show(allowed)}, by {by}"


def _of_session(
    session: Session, block: pl.DataFrame, header: RunHeader, records: list[dict[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Its times enclose the runs, and its versions are those of the block, and of the run."""
    began_s, ended_s = session.time_start_unix, session.time_end_unix
    first_s: Any = block["start_s"].min()
    last_s: Any = (block["start_s"] + block["elapsed_s"]).max()
    if not began_s - _CLOCKS_S <= first_s <= last_s <= ended_s + _CLOCKS_S:
        yield "session_info", f"{began_s} to {ended_s}", f"around the runs, {first_s} to {last_s}"
    versions = {str(each["reframe"]) for each in records if "reframe" in each}
    commits = {str(each["commit"]) for each in records if "commit" in each}
    if 0 <= began_s - header.started_s <= _AT_ONCE_S:
        versions |= {header.versions.get("reframe-hpc", session.version)}
        commits |= {str(header.commit)}
    if versions - {session.version}:
        yield "version", session.version, f"{', '.join(sorted(versions))}, by provenance, run.json"
    if len({each.removesuffix("+") for each in commits}) > 1:
        yield "commit", " and ".join(sorted(commits)), "one, since the block began with the run"


def _of_testcase(
    reported_: Testcase, block: pl.DataFrame, header: RunHeader
) -> Iterator[tuple[str, Any, Any]]:
    """The run's folder and seed, notes of all samples, and figures of the block."""
    if reported_.nimc_dir and (name := Path(reported_.nimc_dir).name) != header.run:
        yield "nimc_dir", name, header.run
    if None not in (reported_.seed, header.seed) and reported_.seed != header.seed:
        yield "seed", reported_.seed, header.seed
    notes = block["notes"].cast(pl.List(pl.String)).to_list()
    for note in reported_.notes:
        if not all(note in each for each in notes):
            yield "notes", note, "a note of every sample"
    now = dict(pair for row in results(block) for pair in reported(row).items())
    for name, (value, *_) in (reported_.perfvalues or {}).items():
        figure = name.split(":", 2)[-1]
        # Medians, ratios, rates and counts are what they were; intervals may be made otherwise.
        is_number = isinstance(value, (int, float)) and abs(value) < MOST
        if figure.endswith(("_low", "_high")) or not is_number:
            continue
        known, _ = now.get(figure, (None, ""))
        if known is None or not math.isclose(known, value, rel_tol=ROUNDING):
            yield show(figure), value, known


def _of_writers(run: Path, folder: str, writers: pl.DataFrame) -> Iterator[str]:
    """Transports fit the links that perftest names."""
    found = set[str]()
    for path in sorted((run / folder).glob("writer-*-origin.log")):
        with suppress(FileNotFoundError, InputError):
            links = _LINK.findall(run_folder.read_log(run, f"{folder}/{path.name}"))
            found |= {link.decode(errors="replace") for link in links}
    perftest = writers.filter(pl.col("injector").str.starts_with("perftest"))
    for transport in perftest["transport"].unique(maintain_order=True):
        link = _LINKS.get(transport)
        if link and found and link not in found <= set(_LINKS.values()):
            yield (
                f"{run / folder}: transport: {transport!r} found; allowed: one over"
                f" {' or '.join(sorted(found))}, by the writers' outputs"
            )
