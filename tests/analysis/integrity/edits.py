"""Edits of a finished run that an editor might make: single records, and several files alike.

Each kind has an edit by a random generator, and says whether the checks can see it. An editor knows
the files: keys, hashes of provenance and the seed are made to fit where the kind says so.
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


def _of(arm: str | None, change: Callable[[Json, random.Random], Any], **only: str) -> Any:
    """Change one accepted run of an arm, chosen at random."""
    return lambda run, rng: change(rng.choice(run.kept(arm, **only)), rng)


def _writer(change: Callable[[Json, random.Random], Any]) -> Any:
    """Change the writer of one accepted run."""
    return _of("on", lambda sample, rng: change(rng.choice(sample["writers"]), rng))


def _set(**values: Any) -> Any:
    return lambda record, _: record.update(values)


def _times(field: str, *factors: float) -> Any:
    def change(record: Json, rng: random.Random) -> None:
        record[field] = record[field] * rng.choice(factors)

    return change


def _header(**values: Any) -> Any:
    return lambda run, _: run.header.update(values)


def _asked(**values: Any) -> Any:
    return lambda run, _: run.header["asked"].update(values)


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


def _figures_of(source: Json, target: Json) -> None:
    for name in ("fom", "fom_extra"):
        target[name] = deepcopy(source[name])


def _aa_is_off(run: Run, rng: random.Random) -> None:
    off = {(each["case"], each["block"], each["pair"]): each for each in run.kept("off")}
    case = rng.choice(list(run.samples))
    for sample in run.kept("aa", case):
        if source := off.get((sample["case"], sample["block"], sample["pair"])):
            _figures_of(source, sample)


def _shifted_copy(run: Run, rng: random.Random) -> None:
    """The figures of `aa` are those of `off`, of another pair each."""
    case = rng.choice(list(run.samples))
    sources = run.kept("off", case)
    for number, sample in enumerate(run.kept("aa", case), rng.randrange(1, 4)):
        _figures_of(sources[number % len(sources)], sample)


def _all_equal(run: Run, rng: random.Random) -> None:
    case = rng.choice(list(run.samples))
    first = run.kept("on", case)[0]
    for sample in run.kept("on", case):
        _figures_of(first, sample)


def _above_run(sample: Json, rng: random.Random) -> None:
    sample["fom"] = sample["elapsed_s"] * rng.uniform(1.1, 4)


def _average(sample: Json, rng: random.Random) -> None:
    sample["fom_extra"]["average_s"] *= rng.choice([0.9, 1.1])


def _exchange_arms(run: Run, _: random.Random) -> None:
    """`off` has the figures of `on`, and the reverse, in all pairs of LAMMPS."""
    on = {(each["block"], each["pair"]): each for each in run.kept("on", "lammps")}
    for sample in run.kept("off", "lammps"):
        if other := on.get((sample["block"], sample["pair"])):
            sample["fom"], other["fom"] = other["fom"], sample["fom"]


def _flip(run: Run, rng: random.Random) -> None:
    case = rng.choice(list(run.samples))
    for sample in run.samples[case]:
        sample["fom_better"] = "lower" if sample["fom_better"] == "higher" else "higher"


def _unit(run: Run, rng: random.Random) -> None:
    case = rng.choice(list(run.samples))
    for sample in run.samples[case]:
        sample["fom_unit"] = "s" if sample["fom_unit"] == "B/s" else "B/s"


def _rates(*names: str) -> Callable[[Run, random.Random], None]:
    """These figures of all writers change alike."""

    def edit(run: Run, rng: random.Random) -> None:
        by = rng.uniform(2, 5)
        for writer in run.writers():
            for name in names:
                if writer.get(name) is not None:
                    writer[name] *= by

    return edit


_RATES = ("rate_alone_b_s", "rate_b_s", "rate_min_b_s", "rate_before_b_s", "bytes_b", "asked_b_s")


def _without_rate(run: Run, rng: random.Random) -> None:
    """One run's rate level is not the one that its writer was throttled to."""
    limited = [w for w in run.writers() if w["asked_b_s"] is not None]
    if not limited:
        writer = rng.choice(list(run.writers()))
        writer["asked_b_s"] = writer["rate_alone_b_s"] / 4
        return
    rng.choice(limited).update(asked_b_s=None, limited_by=None)


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


def _transport(of: str) -> Callable[[Run, random.Random], None]:
    def edit(run: Run, _: random.Random) -> None:
        for writer in run.writers():
            writer["transport"] = of

    return edit


def _device_too(run: Run, _: random.Random) -> None:
    """The transport, and the devices of the nodes' provenance."""
    for writer in run.writers():
        writer["transport"] = "RoCE"
    for record in run.provenance.values():
        for facts in record["nodes"].values():
            facts["rdma"] = [{"name": "mlx5_0", "transport": "RoCE", "firmware": "1", "ports": []}]
    run.rehash()


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


def _shift_case(run: Run, rng: random.Random) -> None:
    """The times of one case, within those of the run."""
    case = list(run.samples)[-1]
    for sample in run.samples[case]:
        sample["start_s"] -= rng.choice([20.0, 30.0])


def _drop(matches: Callable[[Json], bool], *, all_cases: bool = True) -> Any:
    def edit(run: Run, rng: random.Random) -> None:
        chosen = list(run.samples) if all_cases else [rng.choice(list(run.samples))]
        for case in chosen:
            run.samples[case] = [each for each in run.samples[case] if not matches(each)]
            left = {each["key"] for each in run.samples[case]}
            run.counts[case] = [row for row in run.counts[case] if row["key"] in left]

    return edit


def _last_pair(run: Run, rng: random.Random) -> None:
    case = rng.choice(list(run.samples))
    last = max((each["block"], each["pair"]) for each in run.samples[case])
    _drop(lambda each: (each["block"], each["pair"]) == last)(run, rng)


def _lower_floor(run: Run, rng: random.Random) -> None:
    """The last pairs go, and the header asks for fewer."""
    _last_pair(run, rng)
    run.header.update(pairs_floor=5, pairs_cap=5)


def _drop_arm(run: Run, rng: random.Random) -> None:
    _without(run, rng.choice(["aa", "spin" if run.kept("spin") else "aa"]))


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


def _drop_case(run: Run, rng: random.Random) -> None:
    case = rng.choice(list(run.samples))
    for table in (run.samples, run.counts, run.header["asked"]["cases"]):
        table.pop(case)


def _split_block(*cuts: int) -> Callable[[Run, random.Random], None]:
    """The pairs of a case's last block from each cut on become another block, with their counts."""

    def edit(run: Run, rng: random.Random) -> None:
        case = rng.choice(list(run.samples))
        last = max(each["block"] for each in run.samples[case])
        names = {}
        for number, cut in sorted(enumerate(cuts, 1), reverse=True):
            begun = [
                each for each in run.samples[case] if each["block"] == last and each["pair"] >= cut
            ]
            for each in begun:
                before = each["key"]
                each.update(block=last + number, pair=each["pair"] - cut)
                parts = [str(each[name]) for name in ("case", "block", "pair", "arm", "attempt")]
                each["key"] = names[before] = "/".join(parts)
            begun[0]["lead_in_s"] = None
        for row in run.counts[case]:
            row["key"] = names.get(row["key"], row["key"])
        run.reprint(run.samples[case])

    return edit


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


def _text_too(run: Run, _: random.Random) -> None:
    """The margin, in the header and in the campaign's text."""
    run.header["margin"] = 0.3
    run.header["campaign_text"] += "margin: 0.3\n"


def _digest(run: Run, rng: random.Random) -> None:
    """An invented digest, and the seed that follows from it, everywhere."""
    run.header["digest"] = f"{rng.getrandbits(256):064x}"
    seed = run_seed(run.header["digest"], run.header["run"])
    run.header["seed"] = seed
    for sample in run.all():
        sample["seed"] = seed
    for record in run.provenance.values():
        record["seed"] = seed
    run.rehash()


def _other_machine(run: Run, _: random.Random) -> None:
    """The machine's name wherever it stands but in the run's, from which the seed follows."""
    run.header["machine"] = "other"
    run.header["facts"]["site"]["name"] = "other"
    for record in run.provenance.values():
        record["machine"]["name"] = "other"
    run.rehash()


def _record(change: Callable[[Json], Any]) -> Callable[[Run, random.Random], None]:
    """Change a record of provenance, and name it by its content."""

    def edit(run: Run, rng: random.Random) -> None:
        change(run.provenance[rng.choice(list(run.provenance))])
        run.rehash()

    return edit


def _nodes_renamed(record: Json) -> None:
    record["nodes"] = {f"x{name}": facts for name, facts in record["nodes"].items()}


def _better_processor(record: Json) -> None:
    for facts in record["nodes"].values():
        facts.update(processor="better", cpu_model="better")


def _processor(run: Run, _: random.Random) -> None:
    """The processor of every host, wherever it stands."""
    run.header["facts"]["host"].update(processor="better", cpu_model="better")
    for record in run.provenance.values():
        _better_processor(record)
    run.rehash()


def _counts(change: Callable[[list[Json], random.Random], Any]) -> Any:
    def edit(run: Run, rng: random.Random) -> None:
        case = rng.choice(list(run.counts))
        found = change(run.counts[case], rng)
        run.counts[case] = found if isinstance(found, list) else run.counts[case]

    return edit


def _one_count(change: Callable[[Json, random.Random], Any]) -> Any:
    return _counts(lambda rows, rng: change(rng.choice(rows), rng))


def _counts_of_one_run(rows: list[Json], rng: random.Random) -> list[Json]:
    key = rng.choice(rows)["key"]
    return [row for row in rows if row["key"] != key]


def _strange_counts(rows: list[Json], _: random.Random) -> list[Json]:
    """The counts of several runs again, of runs that there are not."""
    keys = sorted({row["key"] for row in rows})[:3]
    more = [{**row, "key": row["key"] + "9"} for row in rows if row["key"] in keys]
    return [*rows, *more]


def _doubled_counts(rows: list[Json], _: random.Random) -> None:
    for row in rows:
        row["value"] *= 2


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
    Kind("figure above the run's length", _of(None, _above_run, case="lammps")),
    Kind("figure of STREAM alone", _of(None, _times("fom", 0.8, 1.3), case="stream")),
    Kind("other figures of STREAM", _of(None, _average, case="stream")),
    Kind("no other figures", _of(None, _set(fom_extra={}), case="stream")),
    Kind("one figure, with all others of its run", _scale_one),
    Kind("all figures of 'on', with all others", _scale_arm),
    Kind("one figure, with all others of its run, and its output", _printed(_scale_one)),
    Kind("all figures of 'on', and their outputs", _printed(_scale_arm)),
    Kind("figures of 'on' in another order", _permuted),
    Kind("figures of 'on' in another order, and their outputs", _printed(_permuted)),
    Kind(
        "all figures of 'on', their outputs, and no report of ReFrame",
        _unreported(_printed(_scale_arm)),
        "made",
    ),
    Kind("'aa' is 'off'", _aa_is_off),
    Kind("'aa' is 'off' of other pairs", _shifted_copy),
    Kind("all figures equal", _all_equal),
    Kind("'off' and 'on' exchanged", _exchange_arms),
    Kind("better is worse", _flip),
    Kind("another unit", _unit),
    Kind("a better of one run", _of(None, _set(fom_better="higher", fom_unit="1/s"))),
    Kind("a time of which more is better", _of(None, _set(fom_better="higher", fom_unit="s"))),
    Kind("outputs deleted", lambda run, _: run.outputs.clear()),
    # Writers.
    Kind("bytes beyond all", _writer(_set(bytes_b=1e29))),
    Kind("bytes halved", _writer(_times("bytes_b", 0.5, 0.8))),
    Kind("a rate of 1", _writer(_set(rate_b_s=1.0))),
    Kind("a rate times ten", _writer(_times("rate_b_s", 10))),
    Kind("all rates without the bytes", _rates("rate_alone_b_s", "rate_b_s", "rate_min_b_s")),
    Kind("rates and counts of writers", _rates(*_RATES, "counted_b", "counted_alone_b_s")),
    Kind("rates and counts of writers, alone, and at nodes", _all_rates),
    Kind("a count, within what is allowed", _writer(_times("counted_b", 0.95, 1.05))),
    Kind("least rate above the mean", _writer(_times("rate_min_b_s", 1.5, 3))),
    Kind("rate alone of one run", _writer(_times("rate_alone_b_s", 0.6, 0.9))),
    Kind("a count of 1 %", _writer(_set(counted_b=1e6, counted_s=9.0, counter="rdma:mlx5_0/1"))),
    Kind("count without a time", _writer(_set(counted_b=None, counted_s=1.0))),
    Kind("time of the count", _writer(_set(counted_s=0.5))),
    Kind("proof 'device' without a count", _writer(_set(proof="device", counted_b=None))),
    Kind("proof 'memory' without a look", _writer(_set(proof="memory", overwritten_share=None))),
    Kind("proof 'memory', nothing seen", _writer(_set(proof="memory", overwritten_share=0.0))),
    Kind("no proof", _writer(_set(proof=None))),
    Kind("hardly observed", _writer(_set(observed_share=0.03))),
    Kind("a gap longer than the rest", _writer(_set(unobserved_s=4.0))),
    Kind("no transport", _transport("none")),
    Kind("soft-RoCE", _transport("soft-RoCE")),
    Kind("InfiniBand", _transport("InfiniBand")),
    Kind("an origin from elsewhere", _writer(_set(origin="elsewhere"))),
    Kind("all origins elsewhere, and no control", _elsewhere),
    Kind("another origin in the sample", _of("on", _set(origin_nodes=["x"]))),
    Kind("'spin' in 'on'", _writer(_set(injector="spin"))),
    Kind("rates below full without a level", _without_rate),
    Kind("a quarter at full rate", _full_speed),
    # Times and order.
    Kind("lead-in", _of(None, _times("lead_in_s", 0.5, 2))),
    Kind("start of a run", _of(None, lambda s, _: s.update(start_s=s["start_s"] + 0.5))),
    Kind("length of a run", _of(None, _times("elapsed_s", 0.8, 0.9))),
    Kind("a year before", _shift_all(-365 * 86400.0)),
    Kind("a case at another time", _shift_case),
    Kind("the start in the header", lambda run, _: run.header.update(started_s=1.7e9)),
    Kind("the end in the header", _later_end),
    Kind("a replay under another name", _replay),
    Kind("no warm-ups", _drop(lambda each: each["warmup"])),
    Kind("no rejected runs", _drop(lambda each: each["outcome"] != "kept" or each["attempt"] > 0)),
    Kind("the last pair", _last_pair),
    Kind("the last pair, and the floor", _lower_floor),
    Kind("an arm", _drop_arm),
    Kind("a case", _drop_case),
    Kind("a block split", _split_block(2)),
    Kind("a block split in three", _split_block(2, 4)),
    Kind("a run given up, and repeated", _give_up),
    Kind("a run given up, and repeated, and its outputs", _printed(_give_up)),
    # The header.
    Kind("margin", _header(margin=0.5)),
    Kind("precision", _header(precision=0.5)),
    Kind("floor and cap", _header(pairs_floor=6, pairs_cap=7)),
    Kind("least share", _asked(min_share=0.01)),
    Kind("another text", _header(campaign_text="name: other\nworkloads: [{check: snap}]\n")),
    Kind("margin, and the text", _text_too),
    Kind("an invented digest", _digest),
    Kind("as of an earlier version", _earlier_version, "without heads"),
    # Machine, provenance, counts and words.
    Kind("the machine's name", _other_machine),
    Kind("seed in provenance", _record(lambda record: record.update(seed=1))),
    Kind("nodes in provenance", _record(_nodes_renamed)),
    Kind("the processor in provenance", _record(_better_processor), "without heads"),
    Kind(
        "the machine in provenance", _record(lambda r: r["machine"]["origins"].update(policy="x"))
    ),
    Kind("limits in the header", lambda run, _: run.header["facts"]["site"].update(proof={})),
    Kind("the processor everywhere", _processor, "without heads"),
    Kind("transport and devices", _device_too),
    Kind("versions", _header(versions={"nimc": "9"}, commit=None)),
    Kind("a negative count", _one_count(_times("value", -1.0))),
    Kind("unit of a count", _one_count(_set(unit="B"))),
    Kind("counts of one run deleted", _counts(_counts_of_one_run)),
    Kind("counts of no run", _counts(_strange_counts)),
    Kind("counts doubled", _counts(_doubled_counts)),
    Kind("counts of 'on' by one factor, in whole numbers", _scaled_counts, "without heads"),
    Kind("all counts deleted", lambda run, _: run.counts.clear()),
    Kind("a note of all runs", _notes),
    Kind("conditions", _quiet, "without heads"),
]
