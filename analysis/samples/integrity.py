"""Checks of a stored run: what would make its results wrong is refused, what is odd is noted.

Records are chained, so that a change shows. The rules for accepted runs are those of the node,
judged again from what is stored of the writers. No effort goes into outwitting somebody who forges
a whole folder: only a head kept elsewhere, or a signature, shows that.
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
from records.errors import InputError
from records.groups import grouped
from records.run import RunHeader, load_header
from records.units import plural

#: Most lines that are listed; the rest are counted.
_LISTED = 20
#: Figures computed twice from the same numbers, maybe in another order, differ by rounding only.
ROUNDING = 1e-9
#: Smallest figure other than 0; smaller ones are not measured, and their inverse overflows.
_LEAST = 1 / MAX_FIGURE
_ACCEPTED = pl.col("outcome") == "accepted"
_ROLE = pl.col("role").cast(pl.String)
#: Nothing runs beside the application; beside that of a control, what writes nothing.
_SILENT = _ROLE.is_in(["baseline", "floor"])
_RUN = ("case", "block", "pair", "arm")
#: Columns that are the same in all runs of a treatment; and in all accepted ones.
_OF_TREATMENT = ("role", "baseline", "factors", "workload")
_WRITES = ("fom_unit", "fom_better", "writers", "injector", "direction", "transport", "message_b")
#: How far the clocks of two nodes may be apart, seconds; and by how much a run may seem to overlap
#: the one before it, as its start is read from a clock that may be adjusted.
_CLOCKS_S, _OVERLAP_S = 60.0, 1.0


@dataclass(frozen=True, kw_only=True)
class Integrity:
    """The faults of one run, and what is odd."""

    run: Path
    #: Number of faults, and the first ones, one line each.
    count: int
    faults: list[str]
    #: Checks that could not be made, and what is odd without making a result wrong.
    notes: list[str] = field(default_factory=list)
    #: Those of `faults` by which a file is not what was written; and the value of the chain after
    #: all samples.
    broken: list[str] = field(default_factory=list)
    head: str = ""

    @property
    def headline(self) -> str:
        """Return how many faults there are, and what follows."""
        return f"{self.run}: {plural(self.count, 'integrity fault')}: not to be trusted"

    def lines(self) -> list[str]:
        """The headline and the faults; nothing without faults."""
        return [self.headline, *self.faults] if self.count else []


def check_run(run: Path, header: RunHeader, samples: Samples, records: Provenance) -> Integrity:
    """Check a run, as `load_header`, `read_run` and `read_provenance` read it."""
    head, broken = _chain_faults(run, header)
    for path, digest in records.misnamed.items():
        broken.append(f"{path}: SHA-256 of its content: {digest} found; allowed: the file's name")
    frame, files = samples.frame, samples.files
    wrong = _lines(frame, files, [*_run_rules(), *_figure_rules(frame), *_writer_rules(header)])
    count, faults = _listed(chain(broken, wrong))
    odd = _lines(frame, files, [*_time_rules(header), _pair_rule(), _provenance_rule(records)])
    _, notes = _listed(chain(_header_notes(run, header), odd, _missing(run, header, frame)))
    return Integrity(run=run, count=count, faults=faults, notes=notes, broken=broken, head=head)


def require_sound(run: Path) -> None:
    """Raises InputError with a line for each fault of a stored run, if there are any."""
    refuse_faults(check_run(run, load_header(run), read_run(run), read_provenance(run)))


def refuse_faults(checked: Integrity) -> None:
    """Raises InputError with a line for each fault, if there are any."""
    if checked.count:
        raise InputError(*checked.lines())


def _listed(lines: Iterable[str]) -> tuple[int, list[str]]:
    """Return how many lines there are, and the first of them, with the number of the others."""
    left = iter(lines)
    first = list(islice(left, _LISTED))
    more = sum(1 for _ in left)
    return len(first) + more, [*first, f"and {more:,} more"] if more else first


def _chain_faults(run: Path, header: RunHeader) -> tuple[str, list[str]]:
    """The chain's value after all samples, and its faults."""
    try:
        walked = walk_run(run)
    except ValueError as error:  # a number of more digits than Python reads
        raise InputError(f"{run / 'run.json'}: {error}") from error
    faults = []
    for path, case_chain in walked.cases.items():
        if case_chain.broken:
            first, *others = case_chain.broken
            before = "the line before it" if first > 1 else "run.json"
            more = f", and so on in {plural(len(others), 'later line')}" if others else ""
            faults.append(f"{path}:{first}: chain: this line was changed, or {before} was{more}")
    ended = header.finished_s is not None or header.head is not None
    if ended and header.head != walked.head:
        line = f"head: {header.head} found; allowed: {walked.head}, the chain's"
        faults.append(f"{run / 'run.json'}: {line}")
    return walked.head, faults


class _Rule(NamedTuple):
    """A rule that no sample may break: an expression that is true of a faulty row, and its text."""

    field: str
    broken: pl.Expr
    required: str


def _lines(frame: pl.DataFrame, files: Mapping[Path, int], rules: Sequence[_Rule]) -> Iterator[str]:
    """A line for every row that breaks a rule, with its place; unknown (null) breaks none.

    `files`: each file with the number of its rows, in their order.
    """
    paths, starts = list(files), list(accumulate(files.values(), initial=0))
    broken = frame.lazy().select(
        rule.broken.fill_null(value=False).arg_true().implode().alias(str(number))
        for number, rule in enumerate(rules)
    )
    for rule, rows in zip(rules, broken.collect().row(0), strict=True):
        for row in rows:
            file = bisect_right(starts, row, hi=len(paths)) - 1
            position = f"{paths[file]}:{row - starts[file] + 1}: {rule.field}"
            yield f"{position}: {frame[rule.field][row]!r} found; allowed: {rule.required}"


# Faults that would make a result wrong.


def _run_rules() -> Iterator[_Rule]:
    """A run is what its key says, accepted once, and made as others of its treatment."""

    def differs(name: str, *over: str) -> pl.Expr:
        return pl.col(name) != pl.col(name).drop_nulls().mode().first().over(over)

    key = pl.concat_str(pl.col(*_RUN, "attempt").cast(pl.String), separator="/")
    twice = _ACCEPTED & pl.struct(*_RUN, accepted=_ACCEPTED).is_duplicated()
    has_none = pl.col("baseline").is_null() != (_ROLE == "baseline")
    alike = "as in other runs of the treatment"
    yield _Rule("key", pl.col("key") != key, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields")
    yield _Rule("attempt", twice, "one accepted attempt of a run")
    yield _Rule("baseline", has_none, "absent of a baseline, and given of others")
    yield _Rule("nodes", differs("nodes", "case", "block"), "the same in all runs of a block")
    for name in _OF_TREATMENT:
        yield _Rule(name, differs(name, "case", "arm"), alike)
    for name in _WRITES:
        differs_if_accepted = _ACCEPTED & differs(name, "case", "arm", "outcome")
        yield _Rule(name, differs_if_accepted, f"{alike}, if accepted")


def _figure_rules(frame: pl.DataFrame) -> Iterator[_Rule]:
    """Every figure is finite and not negative; `is_between` is false for NaN."""
    required = f"0, or a number from {_LEAST:.0e} to {MAX_FIGURE:.0e}"
    for name in (name for name, type_ in frame.schema.items() if type_ == pl.Float64):
        figure = pl.col(name).is_between(_LEAST, MAX_FIGURE) | (pl.col(name) == 0)
        yield _Rule(name, ~figure, required)
    yield _Rule("writer_figures", ~pl.col("writer_figures"), "finite, and not negative")


def _writer_rules(header: RunHeader) -> Iterator[_Rule]:
    """An accepted run has the writers of its arm, at their share or by their timetable."""
    at_once, share = pl.col("timetable"), header.asked.min_share
    few = _ACCEPTED & ~_SILENT & (pl.col("writers") < at_once.fill_null(1))
    slow = pl.col("writer_share") < share * (1 - ROUNDING)
    continuous = _ACCEPTED & (_ROLE == "effect") & at_once.is_null()
    wrote = _ACCEPTED & (_ROLE == "control") & (pl.col("writer_rate_b_s") > 0)
    yield _Rule("writers", _SILENT & (pl.col("writers") > 0), "0: the arm is silent")
    yield _Rule("writers", few, "all that the arm needs, in an accepted run")
    yield _Rule("writer_rate_b_s", wrote, "0 of a control")
    required = f"at least {share:g}: 'min_share' of the campaign"
    yield _Rule("writer_share", continuous & slow, required)
    for name in ("missing_share", "excess_share"):
        beyond = _ACCEPTED & (pl.col(name) > pl.col("allowed_share") + ROUNDING)
        yield _Rule(name, beyond, "at most 'allowed_share' of the timetable")


# Oddities: a note.


def _header_notes(run: Path, header: RunHeader) -> Iterator[str]:
    if run.resolve().name != header.run:
        yield f"the folder {run.resolve().name} holds the run {header.run}"
    if header.finished_s is not None and header.finished_s < header.started_s:
        back_s = header.started_s - header.finished_s
        yield f"{run}: ends {back_s:.0f} s before it began: the clock was set back in between"
    if header.reproduces:
        yield f"the order of the runs is that of {header.reproduces.run}, which is repeated"


def _time_rules(header: RunHeader) -> list[_Rule]:
    """Runs lie within the run, and follow one another in their block."""
    start_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("elapsed_s")
    before_s = end_s.shift(1).over("case", "block") - _OVERLAP_S
    finished_s = MAX_FIGURE if header.finished_s is None else header.finished_s
    return [
        _Rule("start_s", start_s < header.started_s - _CLOCKS_S, "after the run's start"),
        _Rule("start_s", end_s > finished_s + _CLOCKS_S, "before the run's end"),
        _Rule("start_s", start_s < before_s, "after the end of the run before"),
    ]


def _pair_rule() -> _Rule:
    """A pair has a run of every treatment of its case, unless it is the last of its block."""
    block = ("case", "block")
    arms = pl.col("arm").n_unique()
    short = arms.over(*block, "pair") < arms.over("case")
    inner = (pl.col("pair") >= 0) & (pl.col("pair") < pl.col("pair").max().over(block))
    first = pl.struct(*block, "pair").is_first_distinct()
    return _Rule("pair", first & inner & short, "one with a run of every treatment")


def _provenance_rule(records: Provenance) -> _Rule:
    name = pl.col("provenance").cast(pl.String)
    missing = ~name.is_in(list(records.records)) & name.is_first_distinct()
    return _Rule("provenance", missing, "a file in provenance/: how it was made is unproven")


def _missing(run: Path, header: RunHeader, frame: pl.DataFrame) -> Iterator[str]:
    """Yield the requested parts that a finished run lacks, and those not requested."""
    accepted = frame.lazy().filter(_ACCEPTED, ~pl.col("warmup")).select("case", "arm")
    once = accepted.unique(maintain_order=True).collect()
    measured: dict[str, list[str]] = grouped(once.cast(pl.String).iter_rows())
    requested = header.asked.cases
    for case, arms in measured.items():
        others = [f"'{arm}'" for arm in sorted(arms) if arm not in requested.get(case, ())]
        if others:
            yield f"{run}: case '{case}': {others[0]} was not asked; see 'asked' of run.json"
    for case, names in requested.items() if header.finished_s is not None else ():
        missing = [name for name in names if name not in measured.get(case, ())]
        if missing:
            yield f"{run}: case '{case}' has no accepted run of {', '.join(missing)}"
