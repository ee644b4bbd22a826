"""Where one record of a run's folder contradicts another: names, times, hosts, devices, counts.

`figures` has the rules of a sample's figures. What is missing, unknown (null) or of
an older version contradicts nothing.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel

from analysis.samples.asked import unjudged
from analysis.samples.columns import Samples
from analysis.samples.faults import CHAINED, ROUNDING, Faults, Rows, Rule, differing, mapped
from analysis.samples.figures import judge_figures
from analysis.samples.pairs import levels
from analysis.samples.provenance import Provenance, hosts_of, mapping
from nimc.base.errors import InputError
from nimc.base.json_limits import read_json, validated
from nimc.records.arms import ARMS, arm_of, named_level, parts_of
from nimc.records.plan import Demand
from nimc.records.run import RunHeader, facts_of
from nimc.records.sample import (
    AGENTS,
    LIMITED_MESSAGES,
    LIMITED_SHARE,
    MANY,
    NODE,
    PROVEN_SHARE,
)

#: By how much times of one clock may differ, seconds, and as a share of a run's length: those of
#: earlier versions are of a clock that may have been adjusted meanwhile.
_CLOCK_S, _CLOCK_SHARE = 0.1, 1e-3
#: How far a block's runs may seem to lie outside it, seconds, as for two blocks.
_BLOCK_S = 1.0
#: Longest time from the last run of a block to its end, seconds: a tool gathers its files, writers
#: and agents end.
_CLOSING_S = 120.0
#: In the name of a run.
_STAMP = re.compile(r"\d{8}-\d{6}")
#: Transports that need a device.
_OF_DEVICES = ("InfiniBand", "RoCE", "soft-RoCE", "Omni-Path", "EFA", "Slingshot")
#: First part of the names of their byte counters.
_COUNTERS = ("rdma", "opa", "efa", "cxi")
#: Facts of a host that do not change while it runs.
_OF_HOST = ("processor", "cpu_model", "sockets", "cores", "threads", "llc_total_b")
#: Fields of a machine's file that a block may set: timetables take as many origins as they need.
_OF_BLOCK = ("machine.origins.nodes",)
#: The source of counters in `absent_counters` of a host that is read wherever there is one.
_ALWAYS = "interrupts"
#: Counts from which on their last digits are anything, and how many of them are judged together.
_LARGE, _MANY = 1000, 40


class AloneRecord(BaseModel):
    """What a block measured of one kind of writes alone: rates, and target -> count and time."""

    rates_b_s: list[float]
    counted: dict[str, tuple[str, float, float]]


def judge_contradictions(
    run: Path,
    header: RunHeader,
    rows: Rows,
    samples: Samples,
    records: Provenance,
    counts: pl.DataFrame,
) -> None:
    """Add a fault for every contradiction; `counts` are those of `counts.read_counts`."""
    _judge_name(run, header, rows)
    rows.judge([*_of_lead_ins(), _WARM_UPS, *_of_caveats(header)])
    judge_figures(rows)
    judge_writers(rows, samples.writers, header)
    _judge_conditions(rows, samples)
    _judge_alone(run, rows, samples.writers)
    _judge_levels(rows)
    _judge_hosts(rows, header, records)
    _judge_transports(rows, samples.writers, records)
    for sha in rows.frame["provenance"].cast(pl.String).unique(maintain_order=True):
        _judge_record(run / "provenance" / f"{sha}.json", records.records.get(sha), header, rows)
    _judge_blocks(run, rows)
    _judge_counts(run, rows, counts)
    _require_counts(rows, records, counts)


def _judge_name(run: Path, header: RunHeader, rows: Rows) -> None:
    """A run is named after its campaign, its machine and its start."""
    started = time.strftime("%Y%m%d-%H%M%S", time.gmtime(header.started_s))
    of = f"{header.campaign}-{header.machine}-{started}"
    if _STAMP.search(header.run) and not re.fullmatch(rf"{re.escape(of)}(-\d{{1,3}})?", header.run):
        line = f"run: {header.run!r} found; allowed: {of}"
        rows.faults.add(f"{run / 'run.json'}: {line}")


def _of_lead_ins() -> list[Rule]:
    """The lead-in ends at the start of the run, and begins at the end of the one before."""
    block = ("case", "block")
    first = pl.int_range(pl.len()).over(block) == 0
    lead_in_s = pl.col("lead_in_s")
    before_s, length_s = (pl.col(name).shift(1).over(block) for name in ("start_s", "elapsed_s"))
    tolerance_s = _CLOCK_S + _CLOCK_SHARE * length_s
    away_s = lead_in_s - (pl.col("start_s") - before_s - length_s)
    # Of a run whose application never started, its end is not stored.
    ran = length_s > 0
    given = (lead_in_s.is_not_null() & ~first).any().over(block)
    return [
        Rule("lead_in_s", first & lead_in_s.is_not_null(), "null in the first run of a block"),
        Rule("lead_in_s", ran & (away_s.abs() > tolerance_s), "from the end of the run before"),
        Rule("lead_in_s", ~ran & (away_s > tolerance_s), "after the start of the run before"),
        Rule(
            "lead_in_s",
            ~first & (pl.col("outcome") == "kept") & lead_in_s.is_null() & given,
            "given as in other runs of the block",
        ),
    ]


_WARM_UPS = Rule(
    "warmup",
    (pl.int_range(pl.len()).over("case", "block") == 0)
    & ~pl.col("warmup")
    & pl.col("warmup").any().over("case"),
    "true in the first run of a block, as in other blocks of the case",
)


def _of_caveats(header: RunHeader) -> list[Rule]:
    """Caveats of the machine, and of limits that are not judged, are those of every sample."""
    notes = pl.col("notes").cast(pl.List(pl.String))
    found = [
        Rule("notes", ~notes.list.contains(caveat), f"with the machine's caveat: {caveat}")
        for caveat in facts_of(header).site.caveats
    ]
    if limits := unjudged(header):
        named = [pl.element().str.contains(name, literal=True) for name in limits]
        absent = ~notes.list.eval(pl.all_horizontal(named)).list.any()
        required = f"with one on the limits that are not judged: {', '.join(limits)}"
        found.append(Rule("notes", (pl.col("schema") > 2) & absent, required))
    return found


def _judge_levels(rows: Rows) -> None:
    """The levels in a treatment's name are those of its factors."""
    for row, arm, text in rows.kinds("arm", "factors"):
        made, named = levels(text), parts_of(arm)[1]
        if "rate" in made and arm_of(arm).role == "effect":
            named = {"rate": "full", **named}
        for factor, name in named.items() if made else ():
            if (found := named_level(made.get(factor))) != name:
                rows.add(row, f"factors.{factor}", repr(found), f"{name!r}, as in '{arm}'")


def _judge_hosts(rows: Rows, header: RunHeader, records: Provenance) -> None:
    """Hosts are those of the block's provenance, and apart unless the machine's origins share."""
    policy = facts_of(header).site.origins.policy
    for row, targets, origins, sha in rows.kinds("nodes", "origin_nodes", "provenance"):
        there, here = (set(filter(None, each.split(","))) for each in (targets, origins))
        if policy == "same_host" and there != here:
            rows.add(row, "origin_nodes", origins, f"{targets}: origins share the host")
        if policy not in (None, "same_host") and there & here:
            rows.add(row, "origin_nodes", origins, "other hosts than 'nodes'")
        known = hosts_of(records.records.get(sha))
        for strange in sorted((there | here) - known.keys()) if known else ():
            allowed = f"nodes of its provenance: {', '.join(known)}"
            rows.add(row, "nodes", strange, allowed)


def _judge_transports(rows: Rows, writers: pl.DataFrame, records: Provenance) -> None:
    """A transport of RDMA devices needs one on some node of the block."""
    shas = rows.frame.select("row", pl.col("provenance").cast(pl.String))
    kinds = writers.select("row", "transport", "counter").join(shas, on="row")
    each_kind = kinds.group_by("provenance", "transport", "counter", maintain_order=True)
    for sha, transport, counter, row in each_kind.agg(pl.col("row").first()).iter_rows():
        nodes = hosts_of(records.records.get(sha)).values()
        listed = [each["rdma"] for each in nodes if isinstance(each.get("rdma"), list)]
        if not nodes or len(listed) < len(nodes):
            continue
        devices = [mapping(device) for each in listed for device in each]
        kinds_there = sorted({str(device.get("transport")) for device in devices})
        if transport in _OF_DEVICES and transport not in kinds_there:
            allowed = f"that of a device of its provenance: {', '.join(kinds_there) or 'none'}"
            rows.add(row, "writers.transport", repr(transport), allowed)
        names = {str(device.get("name")) for device in devices}
        for part in (counter or "").split("+"):
            kind, _, name = part.partition(":")
            if kind in _COUNTERS and name.partition("/")[0] not in names:
                allowed = f"one of a device of its provenance: {', '.join(sorted(names)) or 'none'}"
                rows.add(row, "writers.counter", repr(part), allowed)


def _judge_record(path: Path, record: Any, header: RunHeader, rows: Rows) -> None:
    """A record of provenance is of the run's seed, machine and host."""
    found = mapping(record)
    expected: dict[str, Any] = {}
    if header.seed is not None:
        expected["seed"] = header.seed
    if "machine" in found:
        expected["machine"] = {"name": header.machine}
    host = mapping(header.facts.get("host"))
    if (name := host.get("hostname")) in hosts_of(found):
        expected["nodes"] = {name: {each: host[each] for each in _OF_HOST if each in host}}
    differences = list(differing(found, expected))
    if found.get("commit") == header.commit:
        # Another version of this project may know other fields of a machine's file.
        machine, site = mapping(found.get("machine")), mapping(header.facts.get("site"))
        differences += differing(machine, site, "machine.", whole=True) if machine and site else []
    for field, value, allowed in differences:
        if field not in _OF_BLOCK:
            line = f"{field}: {value!r} found; allowed: {allowed!r}, as in run.json"
            rows.faults.add(f"{path}: {line}")


def _judge_conditions(rows: Rows, samples: Samples) -> None:
    """Devices passed at the targets what writers counted: the conductor reads both at once."""
    current = rows.frame.select("row", "schema").filter(pl.col("schema") >= CHAINED)
    seen = samples.conditions.select("row", "received_b_s", "sent_b_s", "counter", target="node")
    reads = pl.col("direction") == "read"
    away = (
        samples.writers.join(current, on="row")
        .join(seen, on=["row", "target", "counter"])
        .select(
            "row",
            passed_b_s=pl.when(reads).then("sent_b_s").otherwise("received_b_s"),
            rate_b_s=pl.col("counted_b") / pl.col("counted_s"),
        )
        .filter((pl.col("rate_b_s") - pl.col("passed_b_s")).abs() > pl.col("rate_b_s") * ROUNDING)
    )
    for row, passed, rate in away.iter_rows():
        allowed = f"{rate!r}, its 'counted_b' in 'counted_s'"
        rows.add(row, "conditions: bytes passed per second", repr(passed), allowed)


def _judge_blocks(run: Path, rows: Rows) -> None:
    """The runs of a block lie within it; one that is done ended after a whole pair."""
    cases = {path.stem for path, _ in rows.parts()}  # others name no folder of the run
    ends = pl.col("start_s") + pl.col("elapsed_s")
    last = pl.col("pair") == pl.col("pair").max()
    blocks = rows.frame.group_by(pl.col("case").cast(pl.String), "block", maintain_order=True).agg(
        pl.col("row").last(),
        pl.col("start_s").min(),
        pl.col("runs").first(),
        end_s=ends.max(),
        arms=pl.col("arm").filter(last, pl.col("pair") >= 0).n_unique(),
    )
    for case, block, row, start_s, runs, end_s, arms in blocks.iter_rows():
        recorded: dict[str, Any] = {}
        with suppress(OSError, InputError):
            path = run / "logs" / case / str(block) / "block.json"
            recorded = mapping(read_json(path)) if case in cases else {}
        began_s, finished_s = recorded.get("started_s"), recorded.get("finished_s")
        if not isinstance(began_s, float) or not isinstance(finished_s, float):
            continue
        name = f"block {block} of case '{case}': start_s"
        if start_s < began_s - _BLOCK_S:
            rows.add(row, name, repr(start_s), f"from its 'started_s' on, {began_s!r}")
        if end_s > finished_s + _BLOCK_S:
            rows.add(row, name, repr(start_s), f"until its 'finished_s', {finished_s!r}")
        if recorded.get("state") != "done":
            continue
        if finished_s - end_s > _CLOSING_S:
            allowed = f"at most {_CLOSING_S:.0f} s before its 'finished_s', {finished_s!r}"
            rows.add(row, f"block {block} of case '{case}': end", repr(end_s), allowed)
        if 0 < arms < (runs or 0):
            allowed = f"{runs}, since the block is done"
            rows.add(row, "runs of the last pair", str(arms), allowed)


def _judge_alone(run: Path, rows: Rows, writers: pl.DataFrame) -> None:
    """Rates alone are those that the block, or one before it, measured and recorded."""
    of = rows.frame.select("row", "scheduled", "block", pl.col("case").cast(pl.String))
    found = writers.join(of, on="row").filter(~pl.col("scheduled"), pl.col("message_b") > 0)
    measured = {path.stem: _measured_alone(run / "logs" / path.stem) for path, _ in rows.parts()}
    for name in ("rate_alone_b_s", "counted_alone_b_s"):
        kinds = found.drop_nulls(name).group_by("case", "block", name, maintain_order=True)
        for case, block, rate_b_s, row in kinds.agg(pl.col("row").first()).iter_rows():
            before = [each for at, each in measured.get(case, {}).items() if at <= block]
            known = [value for each in before for value in each[name]]
            if known and not any(isclose(rate_b_s, value, rel_tol=ROUNDING) for value in known):
                allowed = f"{' or '.join(map(repr, known))}, by alone.json"
                rows.add(row, f"writers.{name}", repr(rate_b_s), allowed)


def _measured_alone(logs: Path) -> dict[int, dict[str, list[float]]]:
    """Block of a case -> rates alone that it measured, by its writers and by devices."""
    found = {}
    for path in sorted(logs.glob("*/alone.json")):
        with suppress(OSError, InputError, ValueError):  # not what a block wrote
            kinds = validated(list[AloneRecord], read_json(path), path)
            counts = [count for each in kinds for count in each.counted.values()]
            found[int(path.parent.name)] = {
                "rate_alone_b_s": [rate for each in kinds for rate in each.rates_b_s],
                "counted_alone_b_s": [bytes_b / over_s for _, bytes_b, over_s in counts if over_s],
            }
    return found


def _judge_counts(run: Path, rows: Rows, counts: pl.DataFrame) -> None:
    """Every count is of a sample, and every accepted run has those of its agents and its tool."""
    path, faults = run / "counters", rows.faults
    whole = counts.filter(pl.col("tool").is_in(AGENTS), unit="count", state="counted")
    parts = whole.filter(pl.col("value") != pl.col("value").floor())
    negative = counts.filter(pl.col("value") < 0)
    for broken, allowed in ((negative, "0 or more"), (parts, "a whole number")):
        for key, event, value in broken.select("key", "event", "value").iter_rows():
            faults.add(f"{path}: {key}: {event}: {value!r} found; allowed: {allowed}")
    _judge_common(path, whole, faults)
    units = counts.group_by("tool", "event", maintain_order=True).agg(
        pl.col("unit").unique(maintain_order=True)
    )
    for tool, event, found in units.filter(pl.col("unit").list.len() > 1).iter_rows():
        faults.add(f"{path}: {tool}: {event}: {' and '.join(found)} found; allowed: one unit")
    counted = counts.select("key", "tool").unique(maintain_order=True)
    texts = pl.col("case", "arm").cast(pl.String)
    frame = rows.frame.select("row", "key", "outcome", "warmup", texts)
    # A conductor that is killed between the two leaves the counts of one run of its block.
    orphans = counted.join(frame, on="key", how="anti").unique("key", maintain_order=True)
    block = pl.col("key").str.extract(r"^([^/]*/[^/]*)/")
    for key in orphans.filter(pl.len().over(block) > 1)["key"]:
        faults.add(f"{path}: key: {key!r} found; allowed: that of a sample")
    kept = frame.filter(outcome="kept", warmup=False)
    of_kept = counted.join(kept, on="key")
    agents = pl.col("tool").is_in(AGENTS)
    for own, tools in (("case", of_kept.filter(agents)), ("arm", of_kept.filter(~agents))):
        by = list(dict.fromkeys(("case", own)))
        expected = kept.join(tools.select(*by, "tool").unique(maintain_order=True), on=by)
        absent = expected.join(tools, on=["key", "tool"], how="anti")
        for row, tool in absent.select("row", "tool").iter_rows():
            rows.add(row, "key", f"no count of {tool}", "some, as of other runs")


def _judge_common(path: Path, whole: pl.DataFrame, faults: Faults) -> None:
    """Whole numbers that nodes counted have no factor in common in all runs of a case."""
    large = whole.filter(pl.col("value").is_between(_LARGE, 2**53)).with_columns(
        case=pl.col("key").str.extract(r"^([^/]*)/")
    )
    for (case,), rows_of_case in large.partition_by("case", as_dict=True).items():
        values = rows_of_case["value"].unique().cast(pl.Int64).to_numpy()
        if len(values) >= _MANY and (common := int(np.gcd.reduce(values))) > 1:
            faults.add(
                f"{path}/{case}.jsonl: value: multiples of {common} found in all runs; allowed:"
                " measured ones"
            )


def _require_counts(rows: Rows, records: Provenance, counts: pl.DataFrame) -> None:
    """Nodes were counted in each accepted run whose provenance does not say that none can be."""
    readable = [
        sha
        for sha, record in records.records.items()
        for facts in hosts_of(record).values()
        if _ALWAYS not in mapping(facts.get("absent_counters", {_ALWAYS: ""}))
    ]
    counted = counts.filter(tool=NODE)["key"].unique()
    without = rows.frame.filter(
        pl.col("schema") >= CHAINED,
        pl.col("outcome") == "kept",
        pl.col("provenance").cast(pl.String).is_in(readable),
        ~pl.col("key").is_in(counted.implode()),
    )
    for row in without["row"]:
        rows.add(row, "key", "no count of node", "some: its provenance lacks no counters")


# Rules for each writer of a run: its rates, bytes, times, counts and proof must fit each other.
# `nimc.node.evidence` makes these records; here is what follows from how it makes them.

#: `ROUNDING` of times of day, which have seven digits after the point; seconds.
_ROUNDING_S = 1e-6
#: By how much the rows of a writer that cover its whole window may overlap, as a share of it: the
#: times of rows are those of their arrival.
_OVERLAP = 0.25
#: Least share of the window that a writer's rows cover. One row may be late by `late_rows` (2)
#: intervals, and a row covers three quarters of its own (perftest pauses in the rest).
_LEAST_OBSERVED = 0.25
#: How far the readings of a counter, on the target's clock, may seem to lie within the run, seconds
#: and as a share of it.
_READING_S, _READING_SHARE = 0.1, 1e-3

_KEPT = pl.col("outcome") == "kept"
_CURRENT = pl.col("schema") > 2
_WRITES = pl.col("message_b") > 0
_CONTINUOUS = _WRITES & (pl.col("role") == "effect") & ~pl.col("scheduled")
_CONTROL = pl.col("role") == "control"


def judge_writers(rows: Rows, writers: pl.DataFrame, header: RunHeader) -> None:
    """Add the faults of the writers (`columns.Samples.writers`) of the samples in `rows`."""
    if not writers.height:
        return
    frame = writers.join(_of_samples(rows.frame), on="row", how="left", maintain_order="left")
    frame = frame.with_columns(number=pl.int_range(pl.len()).over("row"))
    rules = [*_of_kind(), *_of_rates(header), *_of_times(), *_of_proof()]
    for of, judged in ((frame, rules), (_targets(frame), _of_counts(header))):
        for rule in judged:
            broken = of.filter(rule.broken).select("row", "number", rule.field)
            for row, number, value in broken.iter_rows():
                rows.add(row, f"writers[{number}].{rule.field}", repr(value), rule.required)


def _of_samples(frame: pl.DataFrame) -> pl.DataFrame:
    """What the rules need of the sample: levels of factors, `control` of the arm.

    Also `around_s`, from the end of the run before to the start of the next one.
    """
    begun_s = pl.col("start_s") - pl.col("lead_in_s")
    return frame.select(
        *("row", "outcome", "role", "scheduled", "schema", "elapsed_s", "allowed_share"),
        level=mapped(frame, "factors", lambda text: _level(text, "rate")),
        burst_level=mapped(frame, "factors", lambda text: _level(text, "burst")),
        control=mapped(frame, "arm", lambda arm: arm_of(arm).control),
        around_s=pl.col("start_s").shift(-1).over("case", "block") - begun_s,
        targets=pl.col("nodes").cast(pl.String).str.count_matches(",", literal=True) + 1,
    )


def _level(factors: str, name: str) -> str | None:
    level = levels(factors).get(name)
    return level if isinstance(level, str) else None


def _of_kind() -> list[Rule]:
    """Injector, transport and direction are those of an arm and of two hosts."""
    controls = [arm.control for arm in ARMS.values() if arm.control]
    injector, transport = pl.col("injector"), pl.col("transport")
    apart = (pl.col("origin") != pl.col("target")) & (pl.col("target") != MANY)
    effect = pl.col("role") == "effect"
    reads, both = injector.str.ends_with("_read"), injector.str.ends_with("_both")
    kind = pl.when(reads).then(pl.lit("read")).when(both).then(pl.lit("both"))
    ucx = _CURRENT & _WRITES & injector.str.starts_with("ucx") & (pl.col("target") != MANY)
    shared = transport == "shared memory"
    return [
        Rule("injector", effect & injector.is_in(controls), "one that writes"),
        Rule("injector", injector != pl.col("control"), "the control that the arm is named after"),
        Rule("transport", (transport == "none") == _WRITES, "'none' of a control, and only of it"),
        Rule("transport", shared & apart, "one between two hosts"),
        Rule("transport", ucx & ~apart & ~shared, "'shared memory' of ucx on one host"),
        Rule("direction", pl.col("direction") != kind.otherwise(pl.lit("write")), "the injector's"),
    ]


def _of_rates(header: RunHeader) -> list[Rule]:
    asked, rate = pl.col("asked_b_s"), pl.col("rate_b_s")
    alone, least = pl.col("rate_alone_b_s"), pl.col("rate_min_b_s")
    message_b, elapsed_s = pl.col("message_b"), pl.col("elapsed_s")
    part = pl.col("level").str.ends_with("%")
    burst = pl.col("burst").struct
    # A window may have one burst more than its length asks for.
    period_s = burst.field("asked_length_s") + burst.field("asked_pause_s")
    more_b = LIMITED_MESSAGES * message_b + asked * period_s.fill_null(0.0)
    beyond = rate > LIMITED_SHARE * asked + more_b / elapsed_s
    limited = pl.col("limited_by").is_not_null() != asked.is_not_null()
    in_bursts = burst.field("asked_length_s").is_not_null()
    full, other = _WRITES & (pl.col("level") == "full"), pl.col("burst_level") != "none"
    found = [
        Rule("rate_min_b_s", least > rate * (1 + ROUNDING), "at most 'rate_b_s'"),
        Rule("limited_by", _CURRENT & _CONTINUOUS & limited, "given if 'asked_b_s' is, else null"),
        Rule("asked_b_s", full & asked.is_not_null() & ~in_bursts, "null at full rate"),
        Rule("asked_b_s", in_bursts & asked.is_null(), "the mean of bursts and pauses"),
        Rule("burst", _WRITES & (in_bursts != other), "that of the level of 'burst'"),
        Rule("asked_b_s", _WRITES & part & asked.is_null(), "that of the level of 'rate'"),
        Rule("rate_b_s", _KEPT & _CONTINUOUS & beyond, "about 'asked_b_s'"),
    ]
    if most := facts_of(header).site.proof.max_share:
        beyond = _KEPT & _CONTINUOUS & (least > most * alone * (1 + ROUNDING))
        required = f"at most {most:g} of 'rate_alone_b_s': 'max_share' of the machine"
        found.append(Rule("rate_min_b_s", beyond, required))
    return found


def _of_times() -> list[Rule]:
    """Bytes are those of the rate in the time that was observed of the run."""
    elapsed_s, observed = pl.col("elapsed_s"), pl.col("observed_share")
    rate, bytes_b = pl.col("rate_b_s"), pl.col("bytes_b")
    tolerance_s = _ROUNDING_S * (1 + elapsed_s)
    covered_s, hidden_s = observed * elapsed_s, (1 - observed) * elapsed_s
    most_s = covered_s + pl.when(observed < 1).then(0.0).otherwise(_OVERLAP * elapsed_s)
    longest_s = (1 + pl.col("allowed_share").fill_null(0.0)) * elapsed_s
    beyond = observed.is_null() & (bytes_b > rate * (longest_s + tolerance_s))
    unseen = _CURRENT & _CONTINUOUS & _KEPT & observed.fill_null(0.0).lt(_LEAST_OBSERVED)
    gap_s = pl.when(~pl.col("scheduled")).then("unobserved_s")
    in_window = "'rate_b_s' in the observed share of 'elapsed_s'"
    rest = "at most the rest of 'observed_share'"
    seen = f"at least {_LEAST_OBSERVED:g} of an accepted run"
    above_0 = "above 0, since the whole window was not observed"
    return [
        Rule("bytes_b", _WRITES & (bytes_b < rate * (covered_s - tolerance_s)), in_window),
        Rule("bytes_b", _WRITES & (bytes_b > rate * (most_s + tolerance_s)), in_window),
        Rule("bytes_b", _WRITES & beyond, "at most 'rate_b_s' in 'elapsed_s'"),
        Rule("observed_share", unseen, seen),
        Rule("unobserved_s", gap_s > hidden_s + tolerance_s, rest),
        Rule("unobserved_s", (gap_s == 0) & (hidden_s > tolerance_s), above_0),
        Rule("cpu_share", _KEPT & _CONTROL & (pl.col("cpu_share") <= 0), "above 0 of a control"),
        Rule("cpu_share", _WRITES & pl.col("cpu_share").is_not_null(), "null of a writer"),
    ]


def _of_proof() -> list[Rule]:
    """A proof has its evidence, and evidence its proof."""
    proof, share = pl.col("proof"), pl.col("overwritten_share")
    counted = pl.col("counted_b").is_not_null()
    current = _CURRENT & _WRITES
    seen = share.fill_null(0.0) >= PROVEN_SHARE
    counted_s = pl.col("counted_s")
    least_s = pl.col("elapsed_s") * (1 - _READING_SHARE) - _READING_S
    most_s = pl.col("around_s") + _READING_S
    if_counted = "'device' if a device counted ('counted_b'), and only then"
    from_share = f"'memory' from an 'overwritten_share' of {PROVEN_SHARE:g} on"
    return [
        Rule("proof", current & proof.is_null(), "device, memory or unproven"),
        Rule("proof", ~_WRITES & proof.is_not_null(), "null of a control"),
        Rule("proof", current & (counted != (proof == "device")), if_counted),
        Rule("proof", current & (proof == "memory") & ~seen, from_share),
        Rule("proof", current & (proof == "unproven") & seen, "'memory', by 'overwritten_share'"),
        *(
            Rule(name, pl.col(name).is_not_null() != counted, "given if 'counted_b' is, else null")
            for name in ("counted_s", "counter")
        ),
        Rule("counted_s", _KEPT & (counted_s < least_s), "from before the run until after it"),
        Rule("counted_s", counted_s > most_s, "from the run before until the next run at most"),
    ]


def _targets(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per run and target whose device counted: `claimed_b` and `most_b` of all writers."""
    observed = pl.col("observed_share").fill_null(1.0)
    whole = pl.when(observed > 0).then(observed).otherwise(1.0)
    return (
        frame.filter(pl.col("counted_b").is_not_null(), pl.col("outcome") == "kept")
        .group_by("row", "target", maintain_order=True)
        .agg(
            pl.col("number", "counted_b", "targets").first(),
            values=pl.col("counted_b").n_unique(),
            claimed_b=pl.col("bytes_b").sum(),
            most_b=(pl.col("bytes_b") / whole).sum(),
        )
    )


def _of_counts(header: RunHeader) -> list[Rule]:
    """Devices counted what their writers claim, as the conductor required."""
    share = facts_of(header).site.proof.counter_share or Demand.counter_share
    counted_b, claimed_b = pl.col("counted_b"), pl.col("claimed_b")
    least_b = (1 - share) * claimed_b * (1 - ROUNDING)
    most_b = (1 + share) * pl.col("most_b") * (1 + ROUNDING)
    alone = (pl.col("targets") == 1) & (claimed_b > 0)
    allowed = f"'bytes_b' of the target's writers, within {share:.0%}"
    return [
        Rule("counted_b", counted_b < least_b, allowed),
        Rule("counted_b", alone & (counted_b > most_b), allowed),
        Rule("counted_b", pl.col("values") > 1, "the same of all writers of a target"),
    ]
