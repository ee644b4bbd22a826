"""Rules for cases and treatments: those that the campaign asked, each always made in one way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from analysis.arms import arm_of
from analysis.errors import InputError
from analysis.integrity.faults import Faults, Rows, Treatments
from analysis.run import RunHeader

_TREATMENT = ("case", "arm")
#: What is the same in all runs of a treatment; and in all of them that were accepted.
_MADE = ("role", "baseline", "factors", "workload")
_DOSE = ("writers", "injector", "direction", "transport", "message_b", "timetable")
_HOSTS = ("nodes", "origin_nodes", "writer_origins", "writer_targets")


def treatments(frame: pl.DataFrame, header: RunHeader) -> dict[str, list[str]]:
    """Those of each case with samples: as asked, else as found."""
    found: dict[str, list[str]] = {}
    for case, arm in frame.select(pl.col(_TREATMENT).cast(pl.String)).unique().iter_rows():
        found.setdefault(case, []).append(arm)
    asked = header.asked.cases if header.asked else {}
    return found | {case: names for case, names in asked.items() if case in found}


def known(frame: pl.DataFrame, of_case: Treatments) -> pl.DataFrame:
    """The samples with `runs`, the number of treatments of the case, and `scheduled`.

    `scheduled`: whether the writers of the arm follow a timetable.
    """
    arms = [str(arm) for arm in frame["arm"].unique()]
    scheduled = {arm: arm_of(arm).writing == "scheduled" for arm in arms}
    runs = {case: len(names) for case, names in of_case.items()}

    def looked_up(name: str, table: Mapping[str, Any], type_: type[pl.DataType]) -> pl.Expr:
        text = pl.col(name).cast(pl.String)
        return text.replace_strict(table, default=None, return_dtype=type_)

    return frame.with_columns(
        scheduled=looked_up("arm", scheduled, pl.Boolean), runs=looked_up("case", runs, pl.Int32)
    )


def judge(run: Path, rows: Rows, header: RunHeader, of_case: Treatments, faults: Faults) -> None:
    """Add the faults of cases, treatments and counts. Raises InputError for invalid factors."""
    for path, part in rows.parts():
        for case in part["case"].cast(pl.String).unique(maintain_order=True):
            if case != path.stem:
                faults.add(f"{path}: field 'case' is {case!r}, must be the file's name")
    for row, case, arm, *made in _kinds(rows.frame, _MADE):
        for field, required in _unlike_arm(arm, of_case[case], *made[:2]):
            value = dict(zip(_MADE, made, strict=True)).get(field, arm)
            faults.add(f"{rows.at(row)}: field '{field}' is {value!r}, must be {required}")
        if not _is_levels(made[2]):
            raise InputError(
                f"{rows.at(row)}: field 'factors' is {made[2]}, must be an object of levels"
            )
    _judge_alike(rows, rows.frame, _MADE, faults)
    _judge_alike(rows, rows.frame.filter(outcome="kept"), _DOSE, faults)
    _judge_hosts(rows, faults)
    _judge_counts(run, rows.frame, header, of_case, faults)


def _kinds(frame: pl.DataFrame, fields: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Row, case, arm and `fields` of the first sample of each kind."""
    chosen = frame if "row" in frame.columns else frame.with_row_index("row")
    kinds = (
        chosen.lazy()
        .group_by(*_TREATMENT, *fields, maintain_order=True)
        .agg(pl.col("row").first())
        .select("row", *_TREATMENT, *fields)
    )
    yield from kinds.collect().iter_rows()


def _unlike_arm(
    arm: str, names: Sequence[str], role: str | None, baseline: str | None
) -> Iterator[tuple[str, str]]:
    """Fields that are not those of a treatment of that name, and what they must be."""
    expected = arm_of(arm).role
    if arm not in names:
        yield "arm", f"one of those asked: {', '.join(names)}"
    if role != expected:
        yield "role", repr(expected)
    if (baseline is None) != (expected == "baseline"):
        yield "baseline", "absent of a baseline, and given of all others"
    elif baseline is not None and (baseline not in names or arm_of(baseline).role != "baseline"):
        yield "baseline", "a baseline of the same case"


def _is_levels(text: str | None) -> bool:
    try:
        levels = json.loads(text or "{}")
    except ValueError:
        return False
    return isinstance(levels, dict) and all(
        isinstance(level, (str, int, float)) for level in levels.values()
    )


def _judge_alike(rows: Rows, frame: pl.DataFrame, fields: Sequence[str], faults: Faults) -> None:
    """Every treatment is always made like its first run; unknown (null) is like anything."""
    firsts: dict[tuple[str, str], list[Any]] = {}
    for row, case, arm, *made in _kinds(frame, fields):
        first = firsts.setdefault((case, arm), made)
        for field, before, value in zip(fields, first, made, strict=True):
            if value != before and None not in (value, before):
                faults.add(
                    f"{rows.at(row)}: field '{field}' is {value!r}, must be {before!r} as in other"
                    f" runs of '{arm}'"
                )


def _judge_hosts(rows: Rows, faults: Faults) -> None:
    for row, _, _, nodes, origins, writers, targets in _kinds(rows.frame, _HOSTS):
        for field, found, allowed in (
            ("writers.origin", writers, origins),
            ("writers.target", targets, f"{nodes},*"),
        ):
            strange = set(filter(None, (found or "").split("+"))) - set(allowed.split(","))
            if strange:
                faults.add(
                    f"{rows.at(row)}: field '{field}' is {', '.join(sorted(strange))}, must be one"
                    f" of {allowed}"
                )


def _judge_counts(
    run: Path, frame: pl.DataFrame, header: RunHeader, of_case: Treatments, faults: Faults
) -> None:
    """No case has more pairs than the cap; in a run that is finished none has too few."""
    measured = frame.lazy().filter(~pl.col("warmup"))
    complete = (
        measured.filter(outcome="kept")
        .group_by("case", "block", "pair")
        .agg(pl.len().alias("made"), pl.col("runs").first())
        .filter(pl.col("made") >= pl.col("runs"))
        .group_by(pl.col("case").cast(pl.String))
        .len()
    )
    pairs = dict(complete.collect().iter_rows())
    for case, count in pairs.items():
        if count > header.pairs_cap:
            faults.add(
                f"{run}/samples/{case}.jsonl: has {count} complete pairs, must have at most"
                f" {header.pairs_cap}, the campaign's cap"
            )
    asked = header.asked
    if asked is None:
        return
    path = run / "samples"
    for case in [case for case in of_case if case not in asked.cases]:
        faults.add(f"{path}/{case}.jsonl: case '{case}' was not asked; see 'asked' of run.json")
    if header.finished_s is None:
        return
    for case in asked.cases:
        if case not in of_case and case not in asked.optional:
            faults.add(f"{path}/{case}.jsonl: is missing, must hold the samples of an asked case")
    accepted = measured.group_by(pl.col(_TREATMENT).cast(pl.String)).agg(
        kept=(pl.col("outcome") == "kept").sum(), others=(pl.col("outcome") != "kept").sum()
    )
    rest = {
        (case, arm): (kept, others) for case, arm, kept, others in accepted.collect().iter_rows()
    }
    for case, names in asked.cases.items():
        for arm in names if case in of_case else ():
            kept, others = rest.get((case, arm), (0, 0))
            if kept < header.pairs_floor and others < header.pairs_cap:
                faults.add(
                    f"{path}/{case}.jsonl: has {kept} accepted runs of '{arm}', must have at least"
                    f" {header.pairs_floor} in a finished run"
                )
