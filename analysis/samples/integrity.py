"""All checks of a stored run: samples one by one, their order, cases, and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from analysis.samples.asked import judge_asked
from analysis.samples.columns import MOST, Samples, read_run
from analysis.samples.contradictions import judge_contradictions
from analysis.samples.counts import read_counts
from analysis.samples.faults import CHAINED, ROUNDING, UNPROVEN, Faults, Rows, Rule, mapped
from analysis.samples.provenance import Provenance, judge_provenance, read_provenance
from nimc.base.errors import InputError
from nimc.base.groups import grouped
from nimc.base.units import plural
from nimc.records.arms import arm_of
from nimc.records.chain import walk_run
from nimc.records.order import pair_order
from nimc.records.run import RunHeader, load_header

#: Case -> names of its treatments.
Treatments = Mapping[str, Sequence[str]]

_TREATMENT = ("case", "arm")
#: What is the same in all runs of a treatment; and in all of them that were accepted.
_MADE = ("role", "baseline", "factors", "workload")
_DOSE = ("writers", "injector", "direction", "transport", "message_b", "timetable")
_HOSTS = ("nodes", "origin_nodes", "writer_origins", "writer_targets")


def _judge_cases(run: Path, rows: Rows, header: RunHeader, of_case: Treatments) -> None:
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
        .agg(made=pl.len(), runs=pl.col("runs").first())
        .filter(pl.col("made") >= pl.col("runs"))
        .group_by(pl.col("case").cast(pl.String))
        .len()
        .filter(pl.col("len") > header.pairs_cap)
    )
    for case, count in complete.collect().iter_rows():
        most = f"at most {header.pairs_cap}, the campaign's cap"
        faults.add(f"{path}/{case}.jsonl: has {count} complete pairs, must have {most}")
    requested = header.asked
    for case in [case for case in of_case if case not in requested.cases]:
        faults.add(f"{path}/{case}.jsonl: case '{case}' was not asked; see 'asked' of run.json")
    if header.finished_s is None:
        return
    for case in requested.cases:
        if case not in of_case and case not in requested.optional:
            faults.add(f"{path}/{case}.jsonl: is missing, must hold the samples of an asked case")
    outcomes = measured.select(pl.col("case", "arm").cast(pl.String), pl.col("outcome") == "kept")
    made = Counter(outcomes.collect().iter_rows())
    for case, names in requested.cases.items():
        # At the cap of the others, no pairs are added for a control that lacks some.
        others = [arm for arm in names if arm_of(arm).role != "control"]
        fewest = min((made[case, arm, True] for arm in others), default=0)
        for arm in names if case in of_case else ():
            kept, rejected = made[case, arm, True], made[case, arm, False]
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
    own = pl.col("case", "block", "pair", "arm", "attempt").cast(pl.String)
    key = pl.concat_str(own, separator="/")
    return [
        Rule("key", pl.col("key") != key, "CASE/BLOCK/PAIR/ARM/ATTEMPT of its own fields"),
        *(
            Rule(name, ~pl.col(name).is_between(0, _MOST_RUNS), "a whole number from 0")
            for name in ("block", "position", "attempt")
        ),
        Rule("pair", pl.col("pair").abs() > _MOST_RUNS, "a number of a pair"),
        Rule("warmup", pl.col("warmup") != (pl.col("pair") < 0), "true if 'pair' is below 0"),
        Rule("role", pl.col("warmup") & ~baseline, "'baseline' in a warm-up"),
        Rule("reason", pl.col("reason").is_null() != kept, "a text if the run was not accepted"),
        Rule("nodes", pl.col("nodes").cast(pl.String) == "", "at least one node"),
    ]


def _of_figures(frame: pl.DataFrame) -> list[Rule]:
    """Every figure is finite and not negative; `is_between` is false for NaN."""
    figures = {name: pl.col(name) for name, type_ in frame.schema.items() if type_ == pl.Float64}
    required = f"0, or a number from {_LEAST:.0e} to {MOST:.0e}"
    return [
        *(
            Rule(name, ~(value.is_between(_LEAST, MOST) | (value == 0)), required)
            for name, value in figures.items()
        ),
        Rule("fom", pl.col("fom") == 0, "above 0"),
        Rule("writer_figures", ~pl.col("writer_figures"), "finite, and not negative"),
    ]


def _of_times(header: RunHeader) -> list[Rule]:
    start_s, length_s, began_s = pl.col("start_s"), pl.col("elapsed_s"), header.started_s
    empty, early = (length_s == 0) & (pl.col("outcome") == "kept"), start_s < began_s - _CLOCKS_S
    found = [
        Rule("elapsed_s", empty, "above 0 if the run was accepted"),
        Rule("start_s", early, f"after the run's start, {began_s!r}"),
    ]
    if header.finished_s is not None:
        late = start_s + length_s > header.finished_s + _CLOCKS_S
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
    slow = continuous & (pl.col("writer_share") < share * (1 - ROUNDING))
    above_0 = dict.fromkeys(("writer_message_b", *_RATES), effect & (writers > 0))
    above_0 |= dict.fromkeys(("writer_bytes_b", "writer_share"), continuous)
    most = pl.col("allowed_share") + ROUNDING
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
        *(Rule(name, on & (pl.col(name) == 0), "above 0") for name, on in above_0.items()),
        Rule("writer_share", slow, f"at least {share:g}: 'min_share' of the campaign"),
        *(
            Rule(name, short & (pl.col(name) > most), "at most 'allowed_share' of the timetable")
            for name in ("missing_share", "excess_share")
        ),
    ]


# The order of samples. A block makes its warm-ups (pairs -1, -2, ...), then its pairs. The runs of
# a pair have positions 0, 1, ..., and a run that is not accepted is repeated. So a sample that was
# deleted, doubled or moved shows as a step that no conductor makes.

#: By how much a run may seem to overlap the one before it in its block, seconds, and as a share of
#: that one: its start is read from a clock that may be adjusted, its length is not.
_OVERLAP_S, _OVERLAP_SHARE = 0.1, 1e-3
#: The same for two blocks, whose times may be read on two nodes, seconds.
_BLOCKS_S = 1.0
#: What is the same in all runs of a block.
_OF_BLOCK = ("nodes", "origin_nodes", "provenance", "seed")


def _of_order(header: RunHeader) -> list[Rule]:
    """The rules for each row and the one before it; `runs`: the treatments of its case."""

    def before(name: str) -> pl.Expr:
        return pl.col(name).shift(1)

    def same(name: str) -> pl.Expr:
        return pl.col(name) == before(name)

    block, pair, position, attempt = map(pl.col, ("block", "pair", "position", "attempt"))
    first = ~same("case").fill_null(value=False)
    begins = first | ~same("block")
    within = ~begins
    again = within & same("pair") & same("arm")
    next_ = within & ~again
    next_pair = next_ & ~same("pair")
    kept = before("outcome") == "kept"
    tries = header.asked.retries
    # What a check of others reads after the block is not repeated.
    left = ~kept & (before("outcome") != "no_fom")
    follows = pair == pl.when(before("pair") >= 0).then(before("pair") + 1).when(pair < 0).then(
        before("pair") - 1
    ).otherwise(0)
    end_s = before("start_s") + before("elapsed_s") * (1 - _OVERLAP_SHARE) - _OVERLAP_S
    in_block = "the same in all runs of a block"
    found = [
        Rule("block", ~first & (block < before("block")), "in the order of the file"),
        Rule("pair", begins & ~pair.is_in([0, -1]), "0, or -1 for a warm-up, in the first run"),
        Rule("pair", next_pair & ~follows, "that of the run before it, or the next one"),
        Rule(
            "position",
            pl.when(begins | next_pair)
            .then(position != 0)
            .otherwise(position != before("position") + next_.cast(pl.Int32)),
            "the next one of the pair's 0, 1, ... (the same in a repetition)",
        ),
        Rule(
            "position",
            next_pair & (before("pair") >= 0) & (before("position") + 1 < pl.col("runs")),
            "preceded by a run of every treatment of the pair before",
        ),
        Rule(
            "attempt",
            pl.when(again).then(attempt != before("attempt") + 1).otherwise(attempt != 0),
            "the next one of the run's 0, 1, ...",
        ),
        Rule("attempt", again & kept, "absent: the run was accepted before"),
        Rule("attempt", attempt > tries, f"at most {tries}, the campaign's 'retries'"),
        Rule(
            "attempt",
            next_ & left & (before("attempt") < tries),
            "preceded by a repetition of the run before, which was not accepted",
        ),
        Rule("start_s", within & (pl.col("start_s") < end_s), "after the end of the run before"),
        *(Rule(name, within & ~same(name), in_block) for name in _OF_BLOCK),
    ]
    if header.seed is not None:
        seed = str(header.seed)
        found.append(Rule("seed", pl.col("seed").cast(pl.String) != seed, f"the run's, {seed}"))
    return found


def _judge_drawn(rows: Rows, header: RunHeader, of_case: Treatments) -> None:
    """Add a fault for every first attempt that is not at the position which the seed gives it.

    Until a case has had all its treatments, their baselines, and so their order, are not stored.
    """
    if header.seed is None:
        return
    columns = ("row", "case", "block", "pair", "arm", "position", "baseline")
    found = rows.frame.lazy().filter(pl.col("pair") >= 0, attempt=0).select(columns).collect()
    kinds = found.select("case", "arm", "baseline").unique().iter_rows()
    baselines = {(case, arm): baseline for case, arm, baseline in kinds}
    planned = {
        case: {arm: baselines[case, arm] for arm in names}
        for case, names in of_case.items()
        if all((case, arm) in baselines for arm in names)
    }
    # Of schema 2, every block began an order of its own (`nimc.records.order`).
    continued = header.schema > 2
    last, order, made = None, list[str](), Counter[str]()
    for row, case, block, pair, arm, position, _ in found.iter_rows():
        if case not in planned:
            continue
        if (case, block, pair) != last:
            last = case, block, pair
            number, begun = (made[case], 0) if continued else (pair, block)
            made[case] += 1
            order = pair_order(planned[case], header.seed, case, number, begun)
        if arm not in order[position : position + 1]:
            at = order.index(arm) if arm in order else "none"
            allowed = f"{at}: the order that follows from the run's seed"
            rows.add(row, "position", str(position), allowed)


def _judge_overlaps(rows: Rows) -> None:
    """A fault for every block that begins before another one on its first node has ended."""
    spans = (
        rows.frame.lazy()
        .group_by("case", "block")
        .agg(
            pl.col("row").min(),
            pl.col("start_s").min(),
            pl.col("nodes").first(),
            end_s=(pl.col("start_s") + pl.col("elapsed_s")).max(),
        )
        .with_columns(node=pl.col("nodes").cast(pl.String).str.split(",").list.first())
        .sort("node", "start_s", "row")
        .with_columns(before_s=pl.col("end_s").shift(1).over("node"))
        .filter(pl.col("start_s") < pl.col("before_s") - _BLOCKS_S)
        .select("row", "case", "block", "start_s", "node")
        .collect()
    )
    for row, case, block, start_s, node in spans.iter_rows():
        name = f"block {block} of case '{case}': start_s"
        rows.add(row, name, repr(start_s), f"after the end of the block before it on {node}")


def _judge_chain(run: Path, header: RunHeader, samples: pl.DataFrame, faults: Faults) -> str | None:
    """Add the faults of the chain; its value after all samples, None of a run that has none."""
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
        line = f"head: {header.head} found; allowed: {found.head}, the chain's"
        faults.add(f"{run / 'run.json'}: {line}", broken=True)
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
    """Check a run, as `load_header`, `read_run`, `read_provenance` and `read_counts` read it."""
    faults, notes = Faults(), []
    head = _judge_chain(run, header, samples.frame, faults)
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
    made = samples.frame.select(pl.col(_TREATMENT).cast(pl.String)).unique()
    of_case = grouped((str(case), str(arm)) for case, arm in made.iter_rows())
    of_case |= {case: names for case, names in header.asked.cases.items() if case in of_case}
    scheduled = [arm for _, arm in made.iter_rows() if arm_of(arm).writing == "scheduled"]
    frame = samples.frame.with_columns(
        # Whether the writers follow a timetable; the number of treatments of the case.
        scheduled=pl.col("arm").cast(pl.String).is_in(scheduled),
        runs=mapped(samples.frame, "case", lambda case: len(of_case[case]), pl.Int32),
    )
    rows = Rows(frame, samples.files, faults)
    of_samples = [*_of_names(), *_of_figures(frame), *_of_times(header), *_of_writers(header)]
    rows.judge([*of_samples, *_of_order(header)])
    _judge_drawn(rows, header, of_case)
    _judge_overlaps(rows)
    _judge_cases(run, rows, header, of_case)
    judge_provenance(run, rows, records)
    judge_contradictions(run, header, rows, samples, records, counts)
    workloads = frame.select(pl.col("case", "workload").cast(pl.String)).unique(maintain_order=True)
    judge_asked(run, header, workloads.rows(), faults)
    return Integrity(run, faults.count, faults.listed(), notes, faults.broken, head)


def require_sound(run: Path) -> None:
    """Raises InputError with a line for each fault of a stored run, if there are any."""
    records, counts = read_provenance(run), read_counts(run)
    refuse_faults(check_run(run, load_header(run), read_run(run), records, counts))


def refuse_faults(found: Integrity) -> None:
    """Raises InputError with a line for each fault, if there are any."""
    if found.count:
        raise InputError(*found.lines())
