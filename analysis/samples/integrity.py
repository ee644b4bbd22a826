"""Checks of a stored run. Faults would make its results wrong and are refused; oddities are noted.

Each sample's record contains a hash of the record before it (a chain), so a later change is
detected. Accepted runs are judged again by the conductor's rules, from the stored figures of their
writers. These checks cannot detect that a whole folder was forged. To detect this, a signature is
needed, or a copy of the chain's last hash (the head) that was kept elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.samples.columns import MAX_FIGURE, Samples, read_run
from analysis.samples.provenance import Provenance, read_provenance
from records.chain import walk_run
from records.clock import MAX_OFFSET_S
from records.errors import InputError
from records.groups import grouped
from records.run import RunHeader, load_header
from records.units import plural

#: Maximum number of lines that are listed; further ones are counted.
_MAX_LISTED = 20
#: Largest relative error that rounding may cause. If a figure is computed again, its terms may be
#: summed in another order.
MAX_ROUNDING_ERROR = 1e-9
#: Smallest valid figure other than 0. No measurement gives smaller figures, and their inverses
#: would exceed `MAX_FIGURE`.
_MIN_FIGURE = 1 / MAX_FIGURE
_IS_ACCEPTED = pl.col("outcome") == "accepted"
_ROLE = pl.col("role").cast(pl.String)
#: True for runs in which nothing runs beside the application: baselines and repeated baselines
#: (role `floor`).
_RUNS_ALONE = _ROLE.is_in(["baseline", "floor"])
_RUN_COLUMNS = ("case", "block", "pair", "arm")
#: Columns that must be the same in all runs of a treatment.
_SAME_IN_TREATMENT = ("role", "baseline", "factors", "workload")
#: Columns that must be the same in all accepted runs of a treatment.
_SAME_IF_ACCEPTED = (
    "fom_unit",
    "fom_better",
    "writers",
    "injector",
    "direction",
    "transport",
    "message_b",
)
#: Longest allowed overlap of a run with the run before it. Runs seem to overlap if the clock is
#: adjusted between them.
_MAX_OVERLAP_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Integrity:
    """The faults and oddities of one run."""

    run: Path
    fault_count: int
    #: The first faults, one line each. If there are more, the last line counts them.
    faults: list[str]
    #: Checks that could not be made, and oddities that make no result wrong.
    notes: list[str] = field(default_factory=list)
    #: All faults which show that a file changed after it was written.
    broken_file_faults: list[str] = field(default_factory=list)
    #: Hash of the chain after all samples.
    head: str = ""

    @property
    def headline(self) -> str:
        """Return how many faults there are, and that the run is not to be trusted."""
        return f"{self.run}: {plural(self.fault_count, 'integrity fault')}: not to be trusted"

    def lines(self) -> list[str]:
        """The headline and the faults; an empty list if there are no faults."""
        return [self.headline, *self.faults] if self.fault_count else []


def check_run(run: Path, header: RunHeader, samples: Samples, provenance: Provenance) -> Integrity:
    """Check a run, from what `load_header`, `read_run` and `read_provenance` return."""
    head, file_faults = _chain_faults(run, header)
    for path, digest in provenance.misnamed_files.items():
        file_faults.append(
            f"{path}: SHA-256 of its content: {digest} found; allowed: the file's name"
        )
    frame, files = samples.frame, samples.files
    rule_faults = _broken_rule_lines(
        frame, files, [*_run_rules(), *_figure_rules(frame), *_writer_rules(header)]
    )
    fault_count, faults = _listed(chain(file_faults, rule_faults))
    oddities = _broken_rule_lines(
        frame, files, [*_time_rules(header), _pair_rule(), _provenance_rule(provenance)]
    )
    _, notes = _listed(
        chain(_header_notes(run, header), oddities, _treatment_notes(run, header, frame))
    )
    return Integrity(
        run=run,
        fault_count=fault_count,
        faults=faults,
        notes=notes,
        broken_file_faults=file_faults,
        head=head,
    )


def require_sound(run: Path) -> None:
    """Raise InputError with a line for each fault of a stored run, if there are any."""
    refuse_faults(check_run(run, load_header(run), read_run(run), read_provenance(run)))


def refuse_faults(integrity: Integrity) -> None:
    """Raise InputError with a line for each fault, if there are any."""
    if integrity.fault_count:
        raise InputError(*integrity.lines())


def _listed(lines: Iterable[str]) -> tuple[int, list[str]]:
    """Return the number of `lines`, and the first of them.

    If there are too many, a last line says how many are left out.
    """
    remaining = iter(lines)
    listed = list(islice(remaining, _MAX_LISTED))
    more = sum(1 for _ in remaining)
    count = len(listed) + more
    if more:
        listed.append(f"and {more:,} more")
    return count, listed


def _chain_faults(run: Path, header: RunHeader) -> tuple[str, list[str]]:
    """Return the hash of the chain after all samples, and the chain's faults."""
    try:
        walked = walk_run(run)
    except ValueError as error:  # an integer of run.json has more digits than Python converts
        raise InputError(f"{run / 'run.json'}: {error}") from error
    faults = []
    for path, case_chain in walked.file_chains.items():
        if case_chain.broken_lines:
            first_line, *others = case_chain.broken_lines
            before = "the line before it" if first_line > 1 else "run.json"
            more = f"; it also breaks at {plural(len(others), 'later line')}" if others else ""
            faults.append(
                f"{path}:{first_line}: chain: this line was changed, or {before} was{more}"
            )
    ended = header.finished_s is not None or header.head is not None
    if ended and header.head != walked.head:
        line = f"head: {header.head} found; allowed: {walked.head}, the chain's"
        faults.append(f"{run / 'run.json'}: {line}")
    return walked.head, faults


class _Rule(NamedTuple):
    """A rule for samples."""

    #: Column whose value is reported if the rule is broken.
    field: str
    #: True for a row that breaks the rule.
    is_broken: pl.Expr
    #: What the rule requires of the field, in words.
    required: str


def _broken_rule_lines(
    frame: pl.DataFrame, files: Mapping[Path, int], rules: Sequence[_Rule]
) -> Iterator[str]:
    """Yield a line for every row that breaks a rule, with file and line number.

    A null breaks no rule. `files`: each file and the number of its rows, in the order of the rows.
    """
    paths, ends = list(files), list(accumulate(files.values()))

    def location(row: int) -> str:
        """Return file and line number of a row."""
        file_index = bisect_right(ends, row)  # of the first file that ends after the row
        first_row = ends[file_index] - files[paths[file_index]]
        return f"{paths[file_index]}:{row - first_row + 1}"

    # A frame of one row: for each rule, the list of the rows that break it.
    broken_rows = frame.lazy().select(
        rule.is_broken.fill_null(value=False).arg_true().implode().alias(str(index))
        for index, rule in enumerate(rules)
    )
    for rule, rows in zip(rules, broken_rows.collect().row(0), strict=True):
        for row in rows:
            value = frame[rule.field][row]
            yield f"{location(row)}: {rule.field}: {value!r} found; allowed: {rule.required}"


# Faults that would make a result wrong.


def _run_rules() -> Iterator[_Rule]:
    """Rules of runs.

    A key matches the fields of its sample, at most one attempt of a run is accepted, and runs of a
    treatment are alike.
    """

    def differs(name: str, *group: str) -> pl.Expr:
        """Return whether a value differs from the most frequent value of its group."""
        return pl.col(name) != pl.col(name).drop_nulls().mode().first().over(group)

    key = pl.concat_str(pl.col(*_RUN_COLUMNS, "attempt").cast(pl.String), separator="/")
    # A run may have several rejected attempts.
    accepted_twice = _IS_ACCEPTED & pl.struct(*_RUN_COLUMNS, accepted=_IS_ACCEPTED).is_duplicated()
    baseline_is_wrong = pl.col("baseline").is_null() != (_ROLE == "baseline")
    required = "as in other runs of the treatment"
    yield _Rule("key", pl.col("key") != key, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields")
    yield _Rule("attempt", accepted_twice, "at most one accepted attempt per run")
    yield _Rule("baseline", baseline_is_wrong, "none in runs of a baseline, one in all others")
    yield _Rule("nodes", differs("nodes", "case", "block"), "the same in all runs of a block")
    for name in _SAME_IN_TREATMENT:
        yield _Rule(name, differs(name, "case", "arm"), required)
    for name in _SAME_IF_ACCEPTED:
        differs_if_accepted = _IS_ACCEPTED & differs(name, "case", "arm", "outcome")
        yield _Rule(name, differs_if_accepted, f"{required}, if accepted")


def _figure_rules(frame: pl.DataFrame) -> Iterator[_Rule]:
    """Rules of figures: each is finite and not negative."""
    # `is_between` is false for NaN, so NaN breaks the rules.
    required = f"0, or a number from {_MIN_FIGURE:.0e} to {MAX_FIGURE:.0e}"
    for name, type_ in frame.schema.items():
        if type_ == pl.Float64:
            is_valid = pl.col(name).is_between(_MIN_FIGURE, MAX_FIGURE) | (pl.col(name) == 0)
            yield _Rule(name, ~is_valid, required)
    required = "True: the writers' figures are finite and not negative"
    yield _Rule("writer_figures", ~pl.col("writer_figures"), required)


def _writer_rules(header: RunHeader) -> Iterator[_Rule]:
    """Rules of writers: an arm has as many as it needs, and in accepted runs they are fast enough.

    Continuous writers must reach the campaign's `min_share`. Scheduled writers must keep to their
    timetable.
    """
    # The column holds the number of writers in the timetable, or null if the arm has no timetable.
    scheduled_writers = pl.col("timetable")
    min_share = header.asked.min_share
    too_few = _IS_ACCEPTED & ~_RUNS_ALONE & (pl.col("writers") < scheduled_writers.fill_null(1))
    too_slow = pl.col("writer_share") < min_share * (1 - MAX_ROUNDING_ERROR)
    is_continuous = _IS_ACCEPTED & (_ROLE == "effect") & scheduled_writers.is_null()
    control_wrote = _IS_ACCEPTED & (_ROLE == "control") & (pl.col("writer_rate_b_s") > 0)
    yield _Rule("writers", _RUNS_ALONE & (pl.col("writers") > 0), "0: nothing writes in this arm")
    yield _Rule("writers", too_few, "all that the arm needs, in an accepted run")
    yield _Rule("writer_rate_b_s", control_wrote, "0 in runs of a control")
    required = f"at least {min_share:g}: 'min_share' of the campaign"
    yield _Rule("writer_share", is_continuous & too_slow, required)
    for name in ("missing_share", "excess_share"):
        too_large = _IS_ACCEPTED & (pl.col(name) > pl.col("allowed_share") + MAX_ROUNDING_ERROR)
        yield _Rule(name, too_large, "at most 'allowed_share' of the timetable")


# Oddities, which are only noted.


def _header_notes(run: Path, header: RunHeader) -> Iterator[str]:
    if run.resolve().name != header.run:
        yield f"the folder {run.resolve().name} holds the run {header.run}"
    if header.finished_s is not None and header.finished_s < header.started_s:
        early_s = header.started_s - header.finished_s
        yield f"{run}: ends {early_s:.0f} s before it began: the clock was set back in between"
    if header.reproduces:
        yield f"this run reproduces {header.reproduces.run}: its treatments have the same order"


def _time_rules(header: RunHeader) -> list[_Rule]:
    """Rules of times: samples lie within the run, and follow one another in their block."""
    start_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("elapsed_s")
    previous_end_s = end_s.shift(1).over("case", "block") - _MAX_OVERLAP_S
    finished_s = MAX_FIGURE if header.finished_s is None else header.finished_s
    return [
        _Rule("start_s", start_s < header.started_s - MAX_OFFSET_S, "after the run's start"),
        _Rule("start_s", end_s > finished_s + MAX_OFFSET_S, "before the run's end"),
        _Rule(
            "start_s", start_s < previous_end_s, "after the end of the previous sample of its block"
        ),
    ]


def _pair_rule() -> _Rule:
    """The rule that a pair has a run of every treatment, unless it is the last of its block."""
    block = ("case", "block")
    arm_count = pl.col("arm").n_unique()
    is_incomplete = arm_count.over(*block, "pair") < arm_count.over("case")
    is_not_last = (pl.col("pair") >= 0) & (pl.col("pair") < pl.col("pair").max().over(block))
    # A pair is reported once, at its first run.
    is_first = pl.struct(*block, "pair").is_first_distinct()
    is_broken = is_first & is_not_last & is_incomplete
    return _Rule("pair", is_broken, "one with a run of every treatment")


def _provenance_rule(provenance: Provenance) -> _Rule:
    name = pl.col("provenance").cast(pl.String)
    missing = ~name.is_in(list(provenance.records)) & name.is_first_distinct()
    required = "a file in provenance/; without it, nothing shows how the run was made"
    return _Rule("provenance", missing, required)


def _treatment_notes(run: Path, header: RunHeader, frame: pl.DataFrame) -> Iterator[str]:
    """Yield which requested treatments a finished run lacks, and which were not requested."""
    accepted = frame.lazy().filter(_IS_ACCEPTED, ~pl.col("warmup")).select("case", "arm")
    treatments = accepted.unique(maintain_order=True).collect()
    accepted_arms: dict[str, list[str]] = grouped(treatments.cast(pl.String).iter_rows())
    requested_arms = header.asked.cases
    for case, arms in accepted_arms.items():
        unrequested = [arm for arm in sorted(arms) if arm not in requested_arms.get(case, ())]
        if unrequested:
            arm = unrequested[0]
            yield f"{run}: case '{case}': '{arm}' was not requested; see 'asked' of run.json"
    if header.finished_s is None:
        return
    for case, arms in requested_arms.items():
        missing = [arm for arm in arms if arm not in accepted_arms.get(case, ())]
        if missing:
            yield f"{run}: case '{case}' has no accepted run of {', '.join(missing)}"
