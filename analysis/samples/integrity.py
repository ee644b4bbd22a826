"""All checks of a stored run: samples one by one, their order, cases, and provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from analysis.samples.asked import judge_asked
from analysis.samples.columns import MOST, Samples, read_run
from analysis.samples.contradictions import judge_contradictions
from analysis.samples.counts import read_counts
from analysis.samples.faults import CHAINED, ROUNDING, UNPROVEN, Faults, Rows, Rule, mapped
from analysis.samples.order import Treatments, judge_drawn, overlapping_blocks, rules_of_order
from analysis.samples.provenance import Provenance, judge_provenance, read_provenance
from nimc.base.errors import InputError
from nimc.base.groups import grouped
from nimc.base.units import plural
from nimc.records.arms import arm_of
from nimc.records.chain import walk_run
from nimc.records.run import RunHeader, load_header

_TREATMENT = ("case", "arm")
#: What is the same in all runs of a treatment; and in all of them that were accepted.
_MADE = ("role", "baseline", "factors", "workload")
_DOSE = ("writers", "injector", "direction", "transport", "message_b", "timetable")
_HOSTS = ("nodes", "origin_nodes", "writer_origins", "writer_targets")


def treatments(frame: pl.DataFrame, header: RunHeader) -> dict[str, list[str]]:
    """Those of each case with samples: as asked, else as found."""
    kinds = frame.select(pl.col(_TREATMENT).cast(pl.String)).unique()
    found = grouped((str(case), str(arm)) for case, arm in kinds.iter_rows())
    return found | {case: names for case, names in header.asked.cases.items() if case in found}


def known(frame: pl.DataFrame, of_case: Treatments) -> pl.DataFrame:
    """The samples with `runs`, the number of treatments of the case, and `scheduled`.

    `scheduled`: whether the writers of the arm follow a timetable.
    """
    return frame.with_columns(
        scheduled=mapped(frame, "arm", lambda arm: arm_of(arm).writing == "scheduled", pl.Boolean),
        runs=mapped(frame, "case", lambda case: len(of_case[case]), pl.Int32),
    )


def judge_cases(run: Path, rows: Rows, header: RunHeader, of_case: Treatments) -> None:
    """Add the faults of cases, treatments and counts."""
    for path, part in rows.parts():
        for case in part["case"].cast(pl.String).unique(maintain_order=True):
            if case != path.stem:
                rows.faults.add(f"{path}: case: {case!r} found; allowed: the file's name")
    for row, case, arm, *made in rows.kinds(*_TREATMENT, *_MADE):
        for name, required in _unlike_arm(arm, of_case[case], *made[:2]):
            value = dict(zip(_MADE, made, strict=True)).get(name, arm)
            rows.add(row, name, repr(value), required)
    _judge_alike(rows, _MADE, rows.kinds(*_TREATMENT, *_MADE))
    kept = rows.kinds(*_TREATMENT, *_DOSE, where=pl.col("outcome") == "kept")
    _judge_alike(rows, _DOSE, kept)
    _judge_hosts(rows)
    _judge_counts(run, rows, header, of_case)


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


def _judge_alike(rows: Rows, fields: Sequence[str], kinds: Sequence[tuple[Any, ...]]) -> None:
    """Every treatment is always made like its first run; unknown (null) is like anything."""
    firsts: dict[tuple[str, str], list[Any]] = {}
    for row, case, arm, *made in kinds:
        first = firsts.setdefault((case, arm), made)
        for name, before, value in zip(fields, first, made, strict=True):
            if value != before and None not in (value, before):
                allowed = f"{before!r} as in other runs of '{arm}'"
                rows.add(row, name, repr(value), allowed)


def _judge_hosts(rows: Rows) -> None:
    for row, _, _, nodes, origins, writers, targets in rows.kinds(*_TREATMENT, *_HOSTS):
        for name, found, allowed in (
            ("writers.origin", writers, origins),
            ("writers.target", targets, f"{nodes},*"),
        ):
            strange = set(filter(None, (found or "").split("+"))) - set(allowed.split(","))
            if strange:
                rows.add(row, name, ", ".join(sorted(strange)), f"one of {allowed}")


def _judge_counts(run: Path, rows: Rows, header: RunHeader, of_case: Treatments) -> None:
    """No case has more pairs than the cap; in a run that is finished none has too few."""
    faults, path = rows.faults, run / "samples"
    measured = rows.frame.lazy().filter(~pl.col("warmup"))
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
                f"{path}/{case}.jsonl: has {count} complete pairs, must have at most"
                f" {header.pairs_cap}, the campaign's cap"
            )
    requested = header.asked
    for case in [case for case in of_case if case not in requested.cases]:
        faults.add(f"{path}/{case}.jsonl: case '{case}' was not asked; see 'asked' of run.json")
    if header.finished_s is None:
        return
    for case in requested.cases:
        if case not in of_case and case not in requested.optional:
            faults.add(f"{path}/{case}.jsonl: is missing, must hold the samples of an asked case")
    accepted = measured.group_by(pl.col(_TREATMENT).cast(pl.String)).agg(
        kept=(pl.col("outcome") == "kept").sum(), others=(pl.col("outcome") != "kept").sum()
    )
    rest = {
        (case, arm): (kept, others) for case, arm, kept, others in accepted.collect().iter_rows()
    }
    for case, names in requested.cases.items():
        # At the cap of the others, no pairs are added for a control that lacks some.
        others = [arm for arm in names if arm_of(arm).role != "control"]
        fewest = min((rest.get((case, arm), (0, 0))[0] for arm in others), default=0)
        for arm in names if case in of_case else ():
            kept, rejected = rest.get((case, arm), (0, 0))
            enough = arm not in others and fewest >= header.pairs_cap
            if kept < header.pairs_floor and rejected < header.pairs_cap and not enough:
                faults.add(
                    f"{path}/{case}.jsonl: has {kept} accepted runs of '{arm}', must have at least"
                    f" {header.pairs_floor} in a finished run"
                )


#: Smallest figure other than 0; smaller ones are not measured, and their inverse overflows.
_LEAST = 1 / MOST
#: Most runs of a pair, repetitions of a run, and pairs of a block.
_MOST_RUNS = 1_000_000
_RATES = ("writer_rate_b_s", "writer_rate_alone_b_s")
#: How far the clocks of the nodes may be from that of the header's host, seconds.
_CLOCKS_S = 60.0


def _of_names() -> list[Rule]:
    kept, baseline = pl.col("outcome") == "kept", pl.col("role") == "baseline"
    own = pl.concat_str(
        [pl.col(name).cast(pl.String) for name in ("case", "block", "pair", "arm", "attempt")],
        separator="/",
    )
    counts = ("block", "position", "attempt")
    return [
        Rule("key", pl.col("key") != own, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields"),
        *(
            Rule(name, ~pl.col(name).is_between(0, _MOST_RUNS), "a whole number from 0")
            for name in counts
        ),
        Rule("pair", pl.col("pair").abs() > _MOST_RUNS, "a number of a pair"),
        Rule("warmup", pl.col("warmup") != (pl.col("pair") < 0), "true if 'pair' is below 0"),
        Rule("role", pl.col("warmup") & ~baseline, "'baseline' in a warm-up"),
        Rule("reason", pl.col("reason").is_null() != kept, "a text if the run was not accepted"),
        Rule("nodes", pl.col("nodes").cast(pl.String) == "", "at least one node"),
    ]


def _of_figures(frame: pl.DataFrame) -> list[Rule]:
    """Every figure is finite and not negative; `is_between` is false for NaN."""
    figures = [name for name, type_ in frame.schema.items() if type_ == pl.Float64]
    required = f"0, or a number from {_LEAST:.0e} to {MOST:.0e}"
    return [
        *(
            Rule(
                name,
                ~(pl.col(name).is_between(_LEAST, MOST) | (pl.col(name) == 0)),
                required,
            )
            for name in figures
        ),
        Rule("fom", pl.col("fom") == 0, "above 0"),
        Rule("writer_figures", ~pl.col("writer_figures"), "finite, and not negative"),
    ]


def _of_times(header: RunHeader) -> list[Rule]:
    kept = pl.col("outcome") == "kept"
    start_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("elapsed_s")
    found = [
        Rule("elapsed_s", kept & (pl.col("elapsed_s") == 0), "above 0 if the run was accepted"),
        Rule(
            "start_s",
            start_s < header.started_s - _CLOCKS_S,
            f"after the run's start, {header.started_s!r}",
        ),
    ]
    if header.finished_s is not None:
        late = end_s > header.finished_s + _CLOCKS_S
        found.append(Rule("start_s", late, f"before the run's end, {header.finished_s!r}"))
    return found


def _of_writers(header: RunHeader) -> list[Rule]:
    """What each arm requires of its writers, judged again from what is stored of them."""
    kept, role = pl.col("outcome") == "kept", pl.col("role")
    silent, control = role.is_in(["baseline", "floor"]), kept & (role == "control")
    scheduled = pl.col("scheduled")
    effect = kept & (role == "effect")
    continuous, short = effect & ~scheduled, effect & scheduled
    share = header.asked.min_share
    writers, at_once = pl.col("writers"), pl.col("timetable")
    writing = effect & (writers > 0)
    return [
        Rule("writers", silent & (writers > 0), "0: the arm is silent"),
        Rule("writers", control & (writers == 0), "at least the control"),
        *(
            Rule(name, control & (pl.col(name) > 0), "0 of a control")
            for name in ("writer_rate_b_s", "message_b")
        ),
        Rule("timetable", ~scheduled & at_once.is_not_null(), "absent: the arm has none"),
        Rule("writers", continuous & (writers == 0), "at least 1 in an accepted run of the arm"),
        Rule("timetable", short & at_once.is_null(), "present: the arm follows one"),
        Rule("writers", short & (writers != at_once), "as many as the timetable has at a time"),
        *(
            Rule(name, where & (pl.col(name) == 0), "above 0")
            for name, where in (
                *((name, writing) for name in ("writer_message_b", *_RATES)),
                *((name, continuous) for name in ("writer_bytes_b", "writer_share")),
            )
        ),
        Rule(
            "writer_share",
            continuous & (pl.col("writer_share") < share * (1 - ROUNDING)),
            f"at least {share:g}: 'min_share' of the campaign",
        ),
        *(
            Rule(
                name,
                short & (pl.col(name) > pl.col("allowed_share") + ROUNDING),
                "at most 'allowed_share' of the timetable",
            )
            for name in ("missing_share", "excess_share")
        ),
    ]


def judge_chain(run: Path, header: RunHeader, samples: pl.DataFrame, faults: Faults) -> str | None:
    """The value of the run's chain after all samples; None of a run that has none.

    Add a fault for each file that was changed, and for a head that is not the run's. Raises
    InputError for a header that cannot be read.
    """
    if header.schema < CHAINED and (samples["schema"] < CHAINED).all():
        return None
    try:
        found = walk_run(run)
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"{run / 'run.json'}: {error}") from error
    for path, walked in found.cases.items():
        if walked.broken:
            first, *others = walked.broken
            before = "the line before it" if first > 1 else "run.json"
            more = f", and so on in {plural(len(others), 'later line')}" if others else ""
            line = f"{path}:{first}: chain: this line was changed, or {before} was{more}"
            faults.add(line, broken=True)
    ended = header.finished_s is not None or header.head is not None
    if ended and header.head != found.head:
        allowed = f"{found.head}, the chain's"
        line = f"{run / 'run.json'}: head: {header.head} found; allowed: {allowed}"
        faults.add(line, broken=True)
    return found.head


@dataclass(frozen=True)
class Integrity:
    """What the checks of one run found."""

    run: Path
    #: Number of faults, and the first ones, one line each.
    count: int
    faults: list[str]
    #: What could not be checked, and what is odd without being a fault.
    notes: list[str] = field(default_factory=list)
    #: Those of `faults` by which a file is not what was written; and the value of the chain after
    #: all samples, None of a run without a chain.
    broken: list[str] = field(default_factory=list)
    head: str | None = None

    @property
    def headline(self) -> str:
        """How many faults there are, and what follows."""
        return f"{self.run}: {plural(self.count, 'integrity fault')}: not to be trusted"

    def lines(self) -> list[str]:
        """The headline and the faults; nothing without faults."""
        return [self.headline, *self.faults] if self.count else []


def check_run(
    run: Path, header: RunHeader, samples: Samples, records: Provenance, counts: pl.DataFrame
) -> Integrity:
    """Check what `run` holds.

    As read by `load_header`, `read_run`, `read_provenance` and `read_counts`.
    """
    faults, notes = Faults(), []
    head = judge_chain(run, header, samples.frame, faults)
    if head is None:
        notes.append(UNPROVEN)
    if run.resolve().name != header.run:
        notes.append(f"the folder {run.resolve().name} holds the run {header.run}")
    if header.seed is None:
        notes.append("run.json has no seed: the order of the runs is not compared with it")
    elif header.seed != header.drawn_seed:
        of = "those of 'reproduces'" if header.reproduces else "'digest' and 'run'"
        faults.add(f"{run / 'run.json'}: seed: does not follow from {of}")
    if header.reproduces:
        notes.append(f"the order of the runs is that of {header.reproduces.run}, which is repeated")
    of_case = treatments(samples.frame, header)
    frame = known(samples.frame, of_case)
    rows = Rows(frame, samples.files, faults)
    of_samples = [*_of_names(), *_of_figures(frame), *_of_times(header), *_of_writers(header)]
    rows.judge([*of_samples, *rules_of_order(header)])
    judge_drawn(rows, header, of_case)
    overlapping_blocks(rows)
    judge_cases(run, rows, header, of_case)
    judge_provenance(run, rows, records)
    judge_contradictions(run, header, rows, samples, records, counts)
    workloads = frame.group_by(pl.col("case", "workload").cast(pl.String)).len()
    judge_asked(run, header, workloads.drop("len").rows(), faults)
    return Integrity(run, faults.count, faults.listed(), notes, faults.broken, head)


def require_sound(run: Path) -> None:
    """Raises InputError with a line for each fault of a stored run, if there are any."""
    records, counts = read_provenance(run), read_counts(run)
    refuse_faults(check_run(run, load_header(run), read_run(run), records, counts))


def refuse_faults(found: Integrity) -> None:
    """Raises InputError with a line for each fault, if there are any."""
    if found.count:
        raise InputError(*found.lines())
