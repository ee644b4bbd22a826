"""Checks of a stored run: what would make its results wrong is refused, what is odd is noted.

Records are chained, so that a change shows. The rules for accepted runs are those of the node,
judged again from what is stored of the writers. No effort goes into outwitting somebody who forges
a whole folder: only a head kept elsewhere, or a signature, shows that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from analysis.samples.columns import MOST, Samples, read_run
from analysis.samples.faults import CHAINED, ROUNDING, UNPROVEN, Faults, Rows, Rule
from analysis.samples.provenance import Provenance, read_provenance
from records.arms import arm_of
from records.chain import walk_run
from records.errors import InputError
from records.run import RunHeader, load_header
from records.units import plural

#: Smallest figure other than 0; smaller ones are not measured, and their inverse overflows.
_LEAST = 1 / MOST
_KEPT = pl.col("outcome") == "kept"
_RUN = ("case", "block", "pair", "arm")
#: What is the same in all runs of a treatment; and in all of them that were accepted.
_MADE = ("role", "baseline", "factors", "workload")
_DOSE = ("fom_unit", "fom_better", "writers", "injector", "direction", "transport", "message_b")
#: How far the clocks of two nodes may be apart, seconds; and by how much a run may seem to overlap
#: the one before it, as its start is read from a clock that may be adjusted.
_CLOCKS_S, _OVERLAP_S = 60.0, 1.0


@dataclass(frozen=True)
class Integrity:
    """What the checks of one run found."""

    run: Path
    #: Number of faults, and the first ones, one line each.
    count: int
    faults: list[str]
    #: What could not be checked, and what is odd without making a result wrong.
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


def check_run(run: Path, header: RunHeader, samples: Samples, records: Provenance) -> Integrity:
    """Check a run, as `load_header`, `read_run` and `read_provenance` read it."""
    faults, notes = Faults(), Faults()
    head = _judge_chain(run, header, samples.frame, faults)
    for path, digest in records.misnamed.items():
        line = f"{path}: SHA-256 of its content: {digest} found; allowed: the file's name"
        faults.add(line, broken=True)
    rows = Rows(_with_kinds(samples.frame), samples.files)
    rows.judge([*_of_names(), *_of_figures(rows.frame)], faults)
    rows.judge([*_of_writers(header), *_of_treatments()], faults)
    if head is None:
        notes.add(UNPROVEN)
    if run.resolve().name != header.run:
        notes.add(f"the folder {run.resolve().name} holds the run {header.run}")
    if header.reproduces:
        notes.add(f"the order of the runs is that of {header.reproduces.run}, which is repeated")
    rows.judge([*_of_times(header), *_of_pairs(), _of_provenance(records)], notes)
    _note_missing(run, header, rows.frame, notes)
    return Integrity(run, faults.count, faults.listed(), notes.listed(), faults.broken, head)


def require_sound(run: Path) -> None:
    """Raises InputError with a line for each fault of a stored run, if there are any."""
    refuse_faults(check_run(run, load_header(run), read_run(run), read_provenance(run)))


def refuse_faults(checked: Integrity) -> None:
    """Raises InputError with a line for each fault, if there are any."""
    if checked.count:
        raise InputError(*checked.lines())


def _judge_chain(run: Path, header: RunHeader, samples: pl.DataFrame, faults: Faults) -> str | None:
    """Add the faults of the chain; its value after all samples, None of a run that has none."""
    if header.schema < CHAINED and (samples["schema"] < CHAINED).all():
        return None
    try:
        walked = walk_run(run)
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"{run / 'run.json'}: {error}") from error
    for path, of_case in walked.cases.items():
        if of_case.broken:
            first, *others = of_case.broken
            before = "the line before it" if first > 1 else "run.json"
            more = f", and so on in {plural(len(others), 'later line')}" if others else ""
            line = f"{path}:{first}: chain: this line was changed, or {before} was{more}"
            faults.add(line, broken=True)
    ended = header.finished_s is not None or header.head is not None
    if ended and header.head != walked.head:
        line = f"head: {header.head} found; allowed: {walked.head}, the chain's"
        faults.add(f"{run / 'run.json'}: {line}", broken=True)
    return walked.head


# What would make a result wrong.


def _with_kinds(frame: pl.DataFrame) -> pl.DataFrame:
    """With what an arm's name says: `scheduled` (its writers follow a timetable), `arm_role`."""
    arms = frame["arm"].cast(pl.String).unique().to_list()
    roles = {arm: arm_of(arm).role for arm in arms}
    scheduled = [arm for arm in arms if arm_of(arm).writing == "scheduled"]
    name = pl.col("arm").cast(pl.String)
    return frame.with_columns(
        scheduled=name.is_in(scheduled),
        arm_role=name.replace_strict(roles, default=None, return_dtype=pl.String),
    )


def _of_names() -> list[Rule]:
    """A key is of its own fields; nothing is accepted twice."""
    own = pl.col(*_RUN, "attempt").cast(pl.String)
    key = pl.concat_str(own, separator="/")
    twice = _KEPT & (_KEPT.sum().over(_RUN) > 1)
    return [
        Rule("key", pl.col("key") != key, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields"),
        Rule("warmup", pl.col("warmup") != (pl.col("pair") < 0), "true if 'pair' is below 0"),
        Rule("attempt", twice, "one accepted attempt of a run"),
    ]


def _of_figures(frame: pl.DataFrame) -> list[Rule]:
    """Every figure is finite and not negative; `is_between` is false for NaN."""
    required = f"0, or a number from {_LEAST:.0e} to {MOST:.0e}"
    figures = [name for name, type_ in frame.schema.items() if type_ == pl.Float64]
    rules = [
        Rule(name, ~(pl.col(name).is_between(_LEAST, MOST) | (pl.col(name) == 0)), required)
        for name in figures
    ]
    return [*rules, Rule("writer_figures", ~pl.col("writer_figures"), "finite, and not negative")]


def _of_treatments() -> list[Rule]:
    """The runs of a treatment are made alike, on the same nodes in a block."""

    def differs(name: str, *over: str) -> pl.Expr:
        return pl.col(name) != pl.col(name).drop_nulls().mode().first().over(over)

    baseline, role = pl.col("baseline").cast(pl.String), pl.col("role").cast(pl.String)
    plain = role == "baseline"
    alike = "as in other runs of the treatment"
    return [
        Rule("role", role != pl.col("arm_role"), "that of the arm"),
        Rule("baseline", baseline.is_null() != plain, "absent of a baseline, and given of others"),
        *(Rule(name, differs(name, "case", "arm"), alike) for name in _MADE),
        *(
            Rule(name, _KEPT & differs(name, "case", "arm", "outcome"), f"{alike}, if accepted")
            for name in _DOSE
        ),
        Rule("nodes", differs("nodes", "case", "block"), "the same in all runs of a block"),
    ]


def _of_writers(header: RunHeader) -> list[Rule]:
    """What each arm requires of its writers, judged again from what is stored of them."""
    role, scheduled = pl.col("role").cast(pl.String), pl.col("scheduled")
    writers, at_once = pl.col("writers"), pl.col("timetable")
    control, effect = _KEPT & (role == "control"), _KEPT & (role == "effect")
    continuous, short = effect & ~scheduled, effect & scheduled
    share, most = header.asked.min_share, pl.col("allowed_share") + ROUNDING
    slow = pl.col("writer_share") < share * (1 - ROUNDING)
    silent = role.is_in(["baseline", "floor"])
    return [
        Rule("writers", silent & (writers > 0), "0: the arm is silent"),
        Rule("writers", control & (writers == 0), "at least the control"),
        Rule("writer_rate_b_s", control & (pl.col("writer_rate_b_s") > 0), "0 of a control"),
        Rule("writers", continuous & (writers == 0), "at least 1 in an accepted run of the arm"),
        Rule("writer_share", continuous & slow, f"at least {share:g}: 'min_share' of the campaign"),
        Rule("writer_bytes_b", continuous & (pl.col("writer_bytes_b") == 0), "above 0"),
        Rule("timetable", short & at_once.is_null(), "present: the arm follows one"),
        Rule("writers", short & (writers != at_once), "as many as the timetable has at a time"),
        *(
            Rule(name, short & (pl.col(name) > most), "at most 'allowed_share' of the timetable")
            for name in ("missing_share", "excess_share")
        ),
    ]


# What is odd: a note.


def _of_times(header: RunHeader) -> list[Rule]:
    """Runs lie within the run, and follow one another in their block."""
    start_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("elapsed_s")
    before_s = end_s.shift(1).over("case", "block") - _OVERLAP_S
    finished_s = MOST if header.finished_s is None else header.finished_s
    return [
        Rule("start_s", start_s < header.started_s - _CLOCKS_S, "after the run's start"),
        Rule("start_s", end_s > finished_s + _CLOCKS_S, "before the run's end"),
        Rule("start_s", start_s < before_s, "after the end of the run before"),
    ]


def _of_pairs() -> list[Rule]:
    """A pair has a run of every treatment of its case, unless it is the last of its block."""
    block = ("case", "block")
    arms = pl.col("arm").n_unique()
    short = arms.over(*block, "pair") < arms.over("case")
    inner = (pl.col("pair") >= 0) & (pl.col("pair") < pl.col("pair").max().over(block))
    first = pl.int_range(pl.len()).over(*block, "pair") == 0
    return [Rule("pair", first & inner & short, "one with a run of every treatment")]


def _of_provenance(records: Provenance) -> Rule:
    name = pl.col("provenance").cast(pl.String)
    missing = ~name.is_in(list(records.records)) & name.is_first_distinct()
    return Rule("provenance", missing, "a file in provenance/: how it was made is unproven")


def _note_missing(run: Path, header: RunHeader, frame: pl.DataFrame, notes: Faults) -> None:
    """Note what a finished run lacks of what was asked, and what was not asked."""
    accepted = frame.filter(_KEPT, ~pl.col("warmup")).select(pl.col("case", "arm").cast(pl.String))
    made = dict(accepted.group_by("case").agg(pl.col("arm").unique()).iter_rows())
    for case, arms in made.items():
        if case not in header.asked.cases:
            notes.add(f"{run}: case '{case}' was not asked; see 'asked' of run.json")
        elif others := sorted(set(arms) - set(header.asked.cases[case])):
            notes.add(f"{run}: case '{case}': '{others[0]}' was not asked; see 'asked' of run.json")
    if header.finished_s is None:
        return
    for case, names in header.asked.cases.items():
        lacking = [name for name in names if name not in made.get(case, ())]
        if lacking and case not in header.asked.optional:
            notes.add(f"{run}: case '{case}' has no accepted run of {', '.join(lacking)}")
