"""From samples to pairs: what counts, what does not and why, and the ratios within pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from analysis.errors import InputError

#: Arms that do not write; any other arm's sample counts only if its writers were seen to write.
SILENT_ARMS = ("off", "aa", "spin")
#: Arms as tables and figures show them; any other comes last.
_ORDER = ("off", "on", "constant", "daly", "full", "spin", "aa")
_PAIR = ["case", "block", "pair"]
_RATES = ["writer_rate_alone_b_s", "writer_rate_b_s"]


def judged(samples: pl.DataFrame) -> pl.DataFrame:
    """`samples` with the column `status`: `counts`, `warm-up` or `rejected`.

    Whatever the record says, a sample of a writing arm does not count where no writer wrote: its
    `reason` then says so. A timetable with no writer at work at a time asks for none.
    """
    kept = pl.col("outcome").cast(pl.String) == "kept"
    silent = pl.col("arm").cast(pl.String).is_in(SILENT_ARMS)
    asked = (pl.col("timetable") != 0).fill_null(True)
    idle = kept & ~silent & asked & ~(pl.col("writer_rate_b_s") > 0).fill_null(False)
    return samples.with_columns(
        reason=pl.when(idle).then(pl.lit("no writer wrote meanwhile")).otherwise("reason"),
        status=pl.when(~kept | idle)
        .then(pl.lit("rejected"))
        .when("warmup")
        .then(pl.lit("warm-up"))
        .otherwise(pl.lit("counts")),
    )


def in_order(arms: Iterable[str]) -> list[str]:
    """`arms` in the order of tables and figures."""
    return sorted(arms, key=lambda arm: (_ORDER.index(arm) if arm in _ORDER else len(_ORDER), arm))


def pair_table(samples: pl.DataFrame) -> pl.DataFrame:
    """One row for each pair and arm of which both that arm's run and the `off` run count.

    Columns: case, block, pair, arm, start_s, `off` and `on` (the two figures of merit), `ratio`
    (slowdown: times on/off, rates off/on), writer_rate_alone_b_s, writer_rate_b_s; in the order of
    `samples`, which may be those of `judged` already. Files hold samples in order of time.
    Of a run that was repeated, the last attempt stands. Raises InputError for a case whose samples
    disagree on unit or direction.
    """
    _refuse_mixtures(samples)
    marked = samples if "status" in samples.columns else judged(samples)
    cases = marked["case"].unique(maintain_order=True)
    # One case at a time: the largest part of a report's memory is made here.
    each = (_pairs(marked.lazy().filter(pl.col("case") == case)) for case in cases)
    return pl.concat([_pairs(marked.head(0).lazy()), *each])


def _pairs(marked: pl.LazyFrame) -> pl.DataFrame:
    last = (
        marked.filter(pl.col("status") == "counts")
        .select(*_PAIR, "arm", "start_s", "fom", "fom_better", *_RATES)
        .collect()
        .unique([*_PAIR, "arm"], keep="last", maintain_order=True)
    )
    off = last.filter(pl.col("arm") == "off").select(*_PAIR, off="fom")
    on = pl.col("on")
    higher = pl.col("fom_better") == "higher"
    return (
        last.filter(pl.col("arm") != "off")
        .rename({"fom": "on"})
        .join(off, on=_PAIR, maintain_order="left")
        .with_columns(ratio=pl.when(higher).then(pl.col("off") / on).otherwise(on / pl.col("off")))
        .select(*_PAIR, "arm", "start_s", "off", "on", "ratio", *_RATES)
    )


def pairless(samples: pl.DataFrame, arms: Sequence[str]) -> dict[str, str]:
    """Arms without a pair that counts -> why their last run, or the last of `off`, does not."""
    marked = judged(samples)
    paired = set(pair_table(marked)["arm"])
    reasons = dict(marked.filter(status="rejected").select("arm", "reason").iter_rows())
    return {
        arm: str(reasons.get(arm) or reasons.get("off") or "no run was made")
        for arm in arms
        if arm not in {*paired, "off"}
    }


def ratio_blocks(pairs: pl.DataFrame, case: str, arm: str) -> list[list[float]]:
    """The ratios of one case and arm, a list for each block, for `blocked_median` and `enough`."""
    chosen = pairs.filter(pl.col("case") == case, pl.col("arm") == arm)
    blocks = chosen.group_by("block", maintain_order=True).agg("ratio")
    return blocks["ratio"].to_list()


def _refuse_mixtures(samples: pl.DataFrame) -> None:
    mixed = (
        samples.group_by("case")
        .agg(pl.col("fom_unit", "fom_better").unique())
        .filter((pl.col("fom_unit").list.len() > 1) | (pl.col("fom_better").list.len() > 1))
    )
    if mixed.height:
        case, units, _ = mixed.row(0)
        raise InputError(f"case '{case}': samples must share one fom_unit and fom_better: {units}")
