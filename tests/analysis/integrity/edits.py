"""Edits of a finished run that an editor might make, of several records or files alike.

Each kind has an edit by a random generator, and says whether the checks can see it. An editor knows
the files: keys, hashes of provenance and the seed are made to fit where the kind says so. Edits of
single records are in `test_contradictions`.
"""

import random
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal, NamedTuple

from nimc.records.order import pair_order, run_seed
from tests.analysis.integrity.files import Json, Run


class Kind(NamedTuple):
    """One kind of edit.

    `passes`: whether no record of the folder contradicts it, since all that repeats it was `made`
    or deleted too, or if there is no head in ReFrame's reports.
    """

    name: str
    edit: Callable[[Run, random.Random], Any]
    passes: Literal["", "made", "without heads"] = ""


# What makes edits, by the records that they change.


def scale(sample: Json, by: float) -> None:
    """The figure of merit takes `by` times as long, with all that the workload reports of it."""
    lower = sample["fom_better"] == "lower"
    sample["fom"] *= by if lower else 1 / by
    for name in sample["fom_extra"]:
        if name.endswith("_b_s"):
            sample["fom_extra"][name] /= by
        elif name.endswith("_s"):
            sample["fom_extra"][name] *= by


def _scale_one(run: Run, rng: random.Random) -> None:
    scale(rng.choice(run.kept()), rng.uniform(0.7, 0.95))


def _scale_arm(run: Run, rng: random.Random) -> None:
    by = rng.uniform(0.6, 0.9)
    for sample in run.kept("on"):
        scale(sample, by)


def _exchange_arms(run: Run, _: random.Random) -> None:
    """`off` has the figures of `on`, and the reverse, in all pairs of LAMMPS."""
    on = {(each["block"], each["pair"]): each for each in run.kept("on", "lammps")}
    for sample in run.kept("off", "lammps"):
        if other := on.get((sample["block"], sample["pair"])):
            sample["fom"], other["fom"] = other["fom"], sample["fom"]


_RATES = ("rate_alone_b_s", "rate_b_s", "rate_min_b_s", "rate_before_b_s", "bytes_b", "asked_b_s")


def _full_speed(run: Run, _: random.Random) -> None:
    """A quarter of the rate was requested, and all of it written."""
    full = [w for w in run.writers() if w["asked_b_s"] is None]
    limited = [w for w in run.writers() if w["asked_b_s"] is not None]
    for writer in limited or full:
        part = writer["rate_alone_b_s"]
        writer["asked_b_s"] = part if limited else part / 4
        writer["limited_by"] = "software"
        if limited:
            for name in ("rate_b_s", "rate_min_b_s", "bytes_b", "counted_b"):
                writer[name] *= 4


def _shift_all(seconds: float) -> Callable[[Run, random.Random], None]:
    """All times of samples, header and blocks; the name stays."""

    def edit(run: Run, _: random.Random) -> None:
        for sample in run.all():
            sample["start_s"] += seconds
        for name in ("started_s", "finished_s"):
            run.header[name] += seconds
            for record in run.recorded("block.json"):
                record[name] += seconds

    return edit


def _later_end(run: Run, _: random.Random) -> None:
    run.header["finished_s"] += 3600.0


def _without(run: Run, arm: str) -> None:
    """An arm goes from everything but the campaign's text; positions follow one another."""
    for case, names in run.header["asked"]["cases"].items():
        run.header["asked"]["cases"][case] = [name for name in names if name != arm]
        seen: dict[Any, list[str]] = {}
        run.samples[case] = [each for each in run.samples[case] if each["arm"] != arm]
        for each in run.samples[case]:
            names_before = seen.setdefault((each["block"], each["pair"]), [])
            if each["arm"] not in names_before:
                names_before.append(each["arm"])
            each["position"] = names_before.index(each["arm"])


def _give_up(run: Run, rng: random.Random) -> None:
    """An accepted run was 'rejected', and is followed by one that is not."""
    case = rng.choice(list(run.samples))
    rows = run.samples[case]
    at = rows.index(rng.choice([each for each in run.kept("on", case) if not each["attempt"]]))
    again = deepcopy(rows[at])
    rows[at].update(outcome="rejected", reason="n1: foreign processes used 0.90 hardware threads")
    scale(again, 0.9)
    again.update(attempt=1, key=again["key"][:-1] + "1")
    again["elapsed_s"] *= 0.93
    for writer in again["writers"]:
        writer["bytes_b"] *= 0.93
        for name in ("counted_b", "counted_s"):
            if writer[name] is not None:
                writer[name] *= 0.93
    gap_s = again["lead_in_s"]
    again["start_s"] = rows[at]["start_s"] + rows[at]["elapsed_s"] + gap_s
    later_s = again["elapsed_s"] + gap_s
    ended_s = again["start_s"]
    rows.insert(at + 1, again)
    old = rows[at]["key"]
    more = [{**row, "key": again["key"]} for row in run.counts[case] if row["key"] == old]
    run.counts[case] = [row for row in run.counts[case] if row["key"] != old] + more
    for sample in run.all():
        if sample is not again and sample["start_s"] >= ended_s - gap_s:
            sample["start_s"] += later_s
    for record in run.recorded("block.json"):
        record["finished_s"] += later_s * (record["finished_s"] > ended_s)
        record["started_s"] += later_s * (record["started_s"] > ended_s)
    run.header["finished_s"] += later_s


def _earlier_version(run: Run, _: random.Random) -> None:
    """Without a chain, as those of schema 3."""
    run.header.update(schema=3, head=None)
    for sample in run.all():
        sample["schema"] = 3


def _processor(run: Run, _: random.Random) -> None:
    """The processor of every host, wherever it stands."""
    run.header["facts"]["host"].update(processor="better", cpu_model="better")
    for record in run.provenance.values():
        for facts in record["nodes"].values():
            facts.update(processor="better", cpu_model="better")
    run.rehash()


# Edits of all records that repeat a figure.


def _printed(edit: Callable[[Run, random.Random], Any]) -> Callable[[Run, random.Random], None]:
    """The same, and the outputs as they would have been."""

    def both(run: Run, rng: random.Random) -> None:
        edit(run, rng)
        run.reprint(run.all())

    return both


def _unreported(edit: Callable[[Run, random.Random], Any]) -> Callable[[Run, random.Random], None]:
    """The same, and the reports of ReFrame are deleted."""

    def both(run: Run, rng: random.Random) -> None:
        edit(run, rng)
        run.logs = {name: each for name, each in run.logs.items() if "reframe" not in name}

    return both


def _permuted(run: Run, rng: random.Random) -> None:
    """The figures of `on` are those of its next pairs."""
    rows = [each for each in run.kept("on", rng.choice(list(run.samples))) if each["arm"] == "on"]
    figures = [deepcopy((each["fom"], each["fom_extra"])) for each in rows]
    for sample, (fom, extra) in zip(rows, figures[1:] + figures[:1], strict=True):
        sample.update(fom=fom, fom_extra=extra)


def _all_rates(run: Run, rng: random.Random) -> None:
    """Rates, bytes and counts of all writers, alone and at the nodes, by one factor."""
    by = rng.uniform(1.05, 1.5)
    for sample in run.all():
        if sample["role"] == "effect":
            for node in sample["conditions"]:
                node["received_b_s"] = node["received_b_s"] and node["received_b_s"] * by
            for writer in sample["writers"]:
                for name in (*_RATES, "counted_b", "counted_alone_b_s"):
                    writer[name] = writer[name] and writer[name] * by
    for kinds in run.recorded("alone.json"):
        for kind in kinds:
            kind["rates_b_s"] = [rate * by for rate in kind["rates_b_s"]]
            kind["counted"] = {
                target: [name, counted_b * by, over_s]
                for target, (name, counted_b, over_s) in kind["counted"].items()
            }


def _elsewhere(run: Run, _: random.Random) -> None:
    """The origin is a host that provenance lacks, and so there is no control."""
    for sample in run.all():
        sample["origin_nodes"] = ["elsewhere"]
    for writer in run.writers():
        writer["origin"] = "elsewhere"
    _without(run, "spin")


def _replay(run: Run, _: random.Random) -> None:
    """The run under the name of the next day; the order of its pairs is that of the new seed."""
    _shift_all(86400.0)(run, _)
    header = run.header
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(header["started_s"]))
    header["run"] = f"{header['campaign']}-{header['machine']}-{stamp}"
    header["seed"] = seed = run_seed(header["digest"], header["run"])
    for case, rows in run.samples.items():
        baselines = {each["arm"]: each["baseline"] for each in rows}
        named = {arm: baselines[arm] for arm in header["asked"]["cases"][case]}
        pairs = list(dict.fromkeys((s["block"], s["pair"]) for s in rows if not s["warmup"]))
        orders = {at: pair_order(named, seed, case, number) for number, at in enumerate(pairs)}
        for sample in rows:
            sample["seed"] = seed
            if order := orders.get((sample["block"], sample["pair"])):
                sample["position"] = order.index(sample["arm"])
        starts = {each["block"]: each["start_s"] for each in reversed(rows)}
        rows.sort(key=lambda s: (s["block"], s["pair"], s["position"], s["attempt"]))
        for sample in rows:
            sample["start_s"] = starts[sample["block"]] + (sample["lead_in_s"] or 0.0)
            starts[sample["block"]] = sample["start_s"] + sample["elapsed_s"]
    for record in run.provenance.values():
        record["seed"] = seed
    run.rehash()


def _scaled_counts(run: Run, rng: random.Random) -> None:
    """The nodes' counts of all runs of `on` by one factor, as whole numbers."""
    by = rng.uniform(1.5, 3)
    keys = {each["key"] for each in run.kept("on")}
    for rows in run.counts.values():
        for row in rows:
            if row["key"] in keys and row["value"]:
                row["value"] *= by
                if row["unit"] == "count":
                    row["value"] = float(round(row["value"]))


def _notes(run: Run, _: random.Random) -> None:
    """The last note of every sample."""
    for sample in run.all():
        sample["notes"] = sample["notes"][:-1]


def _quiet(run: Run, _: random.Random) -> None:
    """Less disturbance than there was."""
    for sample in run.all():
        for node in sample["conditions"]:
            node.update(foreign_cpus=0.0, steal_share=0.0)


KINDS = [
    # Figures of merit.
    Kind("all figures of 'on', with all others", _scale_arm),
    Kind("one figure, with all others of its run, and its output", _printed(_scale_one)),
    Kind("all figures of 'on', and their outputs", _printed(_scale_arm)),
    Kind("figures of 'on' in another order, and their outputs", _printed(_permuted)),
    Kind(
        "all figures of 'on', their outputs, and no report of ReFrame",
        _unreported(_printed(_scale_arm)),
        "made",
    ),
    Kind("'off' and 'on' exchanged", _exchange_arms),
    Kind("outputs deleted", lambda run, _: run.outputs.clear()),
    # Writers.
    Kind("rates and counts of writers, alone, and at nodes", _all_rates),
    Kind("all origins elsewhere, and no control", _elsewhere),
    Kind("a quarter at full rate", _full_speed),
    # Times and order.
    Kind("a year before", _shift_all(-365 * 86400.0)),
    Kind("the end in the header", _later_end),
    Kind("a replay under another name", _replay),
    Kind("a run given up, and repeated, and its outputs", _printed(_give_up)),
    # The header.
    Kind("as of an earlier version", _earlier_version, "without heads"),
    # Machine, provenance, counts and words.
    Kind("the processor everywhere", _processor, "without heads"),
    Kind("versions", lambda run, _: run.header.update(versions={"nimc": "9"}, commit=None)),
    Kind("counts of 'on' by one factor, in whole numbers", _scaled_counts, "without heads"),
    Kind("a note of all runs", _notes),
    Kind("conditions", _quiet, "without heads"),
]
