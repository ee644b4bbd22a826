"""What else the logs of a block say about it: ReFrame's report, and the outputs of its writers.

When a block ends, its check reports to ReFrame what was measured (`estimate.reported`). ReFrame
stores that with the session's times, version and variables in `logs/CASE/BLOCK/reframe.json`, which
so repeats what the samples say. A report that is missing, damaged or of a block that failed
contradicts nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, Field, TypeAdapter

from analysis.effects.estimate import reported, results
from analysis.samples.columns import MOST, Samples
from analysis.samples.faults import ROUNDING
from nimc.base.errors import InputError, show
from nimc.base.json_limits import read_json, validated
from nimc.records import chain, run_folder
from nimc.records.run import RunHeader

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


_REPORT = TypeAdapter(Report)


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
        found: Report = validated(_REPORT, read_json(path), path)
    except (OSError, InputError):
        return None
    return found


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
