"""Each rule by hand: a record that breaks it, and its neighbour that does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.samples.columns import read_run
from analysis.samples.counts import read_counts
from analysis.samples.faults import Faults, Rows
from analysis.samples.integrity import Integrity, check_run
from analysis.samples.provenance import read_provenance
from nimc.records.run import load_header
from tests.analysis.integrity.between import TEXT, made_between
from tests.analysis.integrity.files import Json, Run
from tests.captures import RUN_QUICK

Edit = Callable[[Run], Any]
#: As asked, and measured.
IN_BURSTS = {
    "asked_length_s": 0.01,
    "asked_pause_s": 0.03,
    "length_s": 0.0101,
    "pause_s": 0.0299,
    "peak_b_s": 12e9,
}
#: What the first block of STREAM measured of its writers alone.
ALONE = "logs/stream/0/alone.json"


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_between(tmp_path_factory.mktemp("between"))


def checked(run: Path) -> Integrity:
    return check_run(run, load_header(run), read_run(run), read_provenance(run), read_counts(run))


def faults_of(base: Path, edit: Edit, folder: Path) -> list[str]:
    edited = Run.read(base)
    edit(edited)
    return checked(edited.write(folder / base.name)).faults


def of(arm: str, case: str = "stream", pair: int = 1) -> Callable[[Run], Json]:
    """The accepted run of a treatment in a pair of the first block."""
    return lambda run: next(
        each for each in run.samples[case] if (each["arm"], each["pair"]) == (arm, pair)
    )


def changed(arm: str, case: str = "stream", **values: Any) -> Edit:
    """Other values of a run's fields; what is callable takes the sample."""

    def edit(run: Run) -> None:
        sample = of(arm, case)(run)
        sample.update({k: v(sample) if callable(v) else v for k, v in values.items()})

    return edit


def writer(arm: str = "on", **values: Any) -> Edit:
    """Other values of its writer's; what is callable takes the writer and the run's length."""

    def edit(run: Run) -> None:
        sample = of(arm)(run)
        (record,) = sample["writers"]
        length_s = sample["elapsed_s"]
        record.update({k: v(record, length_s) if callable(v) else v for k, v in values.items()})

    return edit


def extra(arm: str, case: str = "stream", **values: Any) -> Edit:
    return lambda run: of(arm, case)(run)["fom_extra"].update(
        {k: v(of(arm, case)(run)) if callable(v) else v for k, v in values.items()}
    )


def all_of(case: str, change: Callable[[Json], Any]) -> Edit:
    return lambda run: [change(each) for each in run.samples[case]]


def record(change: Callable[[Json], Any]) -> Edit:
    def edit(run: Run) -> None:
        for each in run.provenance.values():
            change(each)
        run.rehash()

    return edit


def recorded(**values: Any) -> Edit:
    """Other values of what the conductor recorded of the first block of LAMMPS."""
    return lambda run: run.logs["logs/lammps/0/block.json"].update(
        {
            k: v(run.logs["logs/lammps/0/block.json"]) if callable(v) else v
            for k, v in values.items()
        }
    )


def header(**values: Any) -> Edit:
    return lambda run: run.header.update(values)


def campaign(rate: str, arms: str) -> Edit:
    """The campaign asked for this rate and these arms."""
    return header(
        campaign_text="name: between\nworkloads: [{check: stream}, {check: lammps}]\n"
        f"factors: {{rate: [{rate}, full]}}\narms: [{arms}]\npairs: {{floor: 6, cap: 12}}\n"
        "verify: {min_share: 0.5}\n"
    )


def figures(source: str, target: str, pairs: int) -> Edit:
    """So many figures of an arm are those of another one, of the other pairs."""

    def edit(run: Run) -> None:
        sources = run.kept(source, "lammps")[::-1]
        targets = run.kept(target, "lammps")
        for one, other in list(zip(sources, targets, strict=True))[:pairs]:
            other["fom"] = one["fom"]

    return edit


def counts(change: Callable[[list[Json]], Any]) -> Edit:
    def edit(run: Run) -> None:
        rows = run.counts["stream"]
        run.counts["stream"] = change(rows) or rows

    return edit


def node(arm: str, **values: Callable[[float], float]) -> Edit:
    """Other conditions of the target in a run."""

    def edit(run: Run) -> None:
        (seen,) = of(arm)(run)["conditions"]
        seen.update({name: change(seen[name]) for name, change in values.items()})

    return edit


def rejected(reason: Callable[[Json], str]) -> Edit:
    """A run was rejected, for a reason that is made of its sample."""
    return lambda run: of("on")(run).update(outcome="rejected", reason=reason(of("on")(run)))


def multiplied(by: float) -> Edit:
    """All counts of nodes, by one factor."""
    return lambda run: [
        row.update(value=row["value"] * by)
        for rows in run.counts.values()
        for row in rows
        if row["unit"] == "count"
    ]


def facts(record: Json) -> list[Json]:
    """Of all nodes."""
    return list(record["nodes"].values())


def last_end_s(run: Run) -> float:
    last = [each for each in run.samples["lammps"] if each["block"] == 0][-1]
    return float(last["start_s"] + last["elapsed_s"])


def without_lammps(run: Run) -> None:
    for table in (run.header["asked"]["cases"], run.samples, run.counts):
        table.pop("lammps")


#: Rule -> what breaks it, words of the fault, and what nearly does if that is not the run as it is.
RULES: dict[str, tuple[Edit, str] | tuple[Edit, str, Edit]] = {
    "a time within its run": (
        changed("on", "lammps", fom=lambda s: 1.002 * s["elapsed_s"]),
        "fom: ",
        changed("on", "lammps", fom=lambda s: 1.0 * s["elapsed_s"]),
    ),
    "STREAM's figure is that of its average": (
        changed("on", fom=lambda s: s["fom"] * (1 + 1e-6)),
        "three arrays ('array_b') in 'average_s'",
        changed("on", fom=lambda s: s["fom"] * (1 + 1e-12)),
    ),
    # 2e-6 of 0.1 s, and one in the last digit that STREAM prints of the rate.
    "STREAM's best rate is that of its least time": (
        extra("on", best_b_s=lambda s: s["fom_extra"]["best_b_s"] * 1.001),
        "with a 'best_b_s' of three arrays",
        extra("on", best_b_s=lambda s: s["fom_extra"]["best_b_s"] + 1e5),
    ),
    "STREAM's average lies between": (
        extra("on", maximum_s=lambda s: s["fom_extra"]["average_s"] * 0.999),
        "from 'minimum_s' to 'maximum_s'",
        extra("on", maximum_s=lambda s: s["fom_extra"]["average_s"]),
    ),
    "a workload reports its other figures": (
        changed("on", fom_extra={"array_b": 1e9}),
        "average_s, which the workload reports",
        changed("on", "lammps", fom_extra={}),
    ),
    "a size is that of other runs": (
        extra("on", "lammps", atoms=16000.0),
        "atoms as in other runs",
    ),
    "STREAM is in B/s": (
        all_of("stream", lambda s: s.update(fom_unit="1/s")),
        "fom_unit: '1/s' found; allowed: B/s",
    ),
    "less time is better": (
        all_of("lammps", lambda s: s.update(fom_better="higher")),
        "fom_better: 'higher' found",
    ),
    "more than half of the figures are another arm's": (
        figures("off", "aa", 7),
        "figures of 'aa' equal those of 'off'",
        figures("off", "aa", 6),
    ),
    "figures vary": (
        all_of("lammps", lambda s: s.update(fom=4.0) if s["arm"] == "off" else None),
        "fom: the same in all runs of 'off'",
        all_of(
            "lammps",
            lambda s: s.update(fom=4.0 + s["pair"] / 1e5) if s["arm"] == "off" else None,
        ),
    ),
    "bytes are those of the rate and the time": (
        writer(bytes_b=lambda w, _: w["bytes_b"] * 0.9999),
        "writers[0].bytes_b",
        writer(bytes_b=lambda w, _: w["bytes_b"] * (1 + 1e-8)),
    ),
    # Rows that overlap, if they cover the whole window.
    "bytes beyond the window": (
        writer(observed_share=1.0, unobserved_s=0.0, bytes_b=lambda w, s: w["rate_b_s"] * s * 1.3),
        "writers[0].bytes_b",
        writer(observed_share=1.0, unobserved_s=0.0, bytes_b=lambda w, s: w["rate_b_s"] * s * 1.1),
    ),
    "the least rate is not above the mean": (
        writer(rate_min_b_s=lambda w, _: w["rate_b_s"] * 1.001),
        "at most 'rate_b_s'",
        writer(rate_min_b_s=lambda w, _: w["rate_b_s"]),
    ),
    # The machine's `max_share` is 1.25.
    "no rate far beyond that alone": (
        writer(**dict.fromkeys(("rate_b_s", "rate_min_b_s"), 12e9 * 1.26)),
        "'max_share' of the machine",
        writer(rate_min_b_s=lambda w, _: w["rate_b_s"] * 0.999),
    ),
    "the rate alone is learnt once": (writer(rate_alone_b_s=12.1e9), "writers[0].rate_alone_b_s"),
    # 1.5 x 3 GB/s and two messages of 64 KiB in about 5 s.
    "a limited writer is limited": (
        writer("on@rate=25%", rate_b_s=4.6e9),
        "about 'asked_b_s'",
        writer("on@rate=25%", limited_by="hardware"),
    ),
    "a level of the rate is requested": (
        writer("on@rate=25%", asked_b_s=None, limited_by=None),
        "that of the level of 'rate'",
    ),
    "nothing is requested at full rate": (
        writer(asked_b_s=12e9, limited_by="software"),
        "null at full rate",
    ),
    "bursts have a mean that was requested": (
        writer(burst=IN_BURSTS),
        "the mean of bursts and pauses",
        writer("on@rate=25%", burst=IN_BURSTS),
    ),
    "what limits is recorded": (writer("on@rate=25%", limited_by=None), "limited_by"),
    "a control does not write": (writer(injector="spin"), "one that writes"),
    "an injector that reads reads": (writer(direction="read"), "writers[0].direction"),
    "an injector that does both does both": (
        writer(injector="mpi_put_both"),
        "writers[0].direction",
        writer(injector="mpi_put_both", direction="both"),
    ),
    "writes have a transport": (writer(transport="none"), "'none' of a control"),
    "memory is not shared between hosts": (
        writer(transport="shared memory"),
        "one between two hosts",
    ),
    "a device counted for the proof": (
        writer(counted_b=None, counted_s=None, counter=None),
        "'device' if a device counted",
        writer(
            counted_b=None, counted_s=None, counter=None, proof="memory", overwritten_share=0.95
        ),
    ),
    "marks were overwritten for the proof": (
        writer(
            counted_b=None, counted_s=None, counter=None, proof="memory", overwritten_share=0.89
        ),
        "'memory' from an 'overwritten_share' of 0.9 on",
        writer(
            counted_b=None, counted_s=None, counter=None, proof="unproven", overwritten_share=0.89
        ),
    ),
    "a writer has a proof": (writer(proof=None), "device, memory or unproven"),
    "a count has a time": (writer(counted_s=None), "given if 'counted_b' is"),
    "a count is of the whole run": (
        writer(counted_s=lambda _, s: s - 0.2),
        "from before the run until after it",
        writer(counted_s=lambda _, s: s),
    ),
    "a count ends before the next run": (
        writer(counted_s=lambda _, s: s + 8.4),
        "from the run before until the next run",
        writer(counted_s=lambda _, s: s + 7.9),
    ),
    # A fifth beyond what the writer claims, were it so all the time.
    "a device counted what was written": (
        writer(counted_b=lambda w, _: w["bytes_b"] * 0.79),
        "'bytes_b' of the target's writers, within 20%",
        writer(counted_b=lambda w, _: w["bytes_b"] * 0.81),
    ),
    "a device counted no more": (
        writer(counted_b=lambda w, _: w["bytes_b"] / 0.9 * 1.21),
        "'bytes_b' of the target's writers, within 20%",
        writer(counted_b=lambda w, _: w["bytes_b"] / 0.9 * 1.19),
    ),
    "the window was observed": (
        writer(observed_share=0.2, bytes_b=lambda w, s: w["rate_b_s"] * s * 0.2, proof="unproven"),
        "at least 0.25 of an accepted run",
        writer(observed_share=0.85, bytes_b=lambda w, s: w["rate_b_s"] * s * 0.85),
    ),
    "a gap is part of what was not observed": (
        writer(unobserved_s=lambda _, s: s * 0.11),
        "at most the rest of 'observed_share'",
        writer(unobserved_s=lambda _, s: s * 0.099),
    ),
    "what was not observed has a gap": (writer(unobserved_s=0.0), "above 0, since"),
    "a lead-in is the time between two runs": (
        changed("on", lead_in_s=lambda s: s["lead_in_s"] + 0.2),
        "from the end of the run before",
        changed("on", lead_in_s=lambda s: s["lead_in_s"] + 0.05),
    ),
    "the first run has no lead-in": (
        lambda run: run.samples["stream"][0].update(lead_in_s=1.0),
        "null in the first run of a block",
    ),
    "the others have one": (changed("on", lead_in_s=None), "given as in other runs"),
    "blocks begin with a warm-up": (
        lambda run: run.samples["stream"].pop(0),
        "true in the first run of a block",
    ),
    "a sample has the machine's caveats": (
        changed("on", notes=["a made note"]),
        "with the machine's caveat",
        changed("on", notes=["made for a test"]),
    ),
    "levels in a name": (
        all_of(
            "stream", lambda s: s.update(factors={"rate": "50%"}) if "25%" in s["arm"] else None
        ),
        "factors.rate: '50%' found",
    ),
    "origins are other hosts": (
        all_of("stream", lambda s: s.update(origin_nodes=["n1"])),
        "other hosts than 'nodes'",
    ),
    "hosts are those of provenance": (
        record(lambda r: r["nodes"].pop("n2")),
        "nodes of its provenance: n1",
        record(lambda r: r["nodes"].update(n3=r["nodes"]["n2"])),
    ),
    "a transport has a device": (
        record(lambda r: [facts.update(rdma=[]) for facts in r["nodes"].values()]),
        "that of a device of its provenance: none",
        record(lambda r: [facts.pop("rdma") for facts in r["nodes"].values()]),
    ),
    "a counter is one of a device": (
        writer(counter="rdma:mlx5_7/1"),
        "one of a device of its provenance: mlx5_0",
        writer(counter="net:eth0"),
    ),
    "provenance has the run's seed": (record(lambda r: r.update(seed=3)), "seed: 3"),
    "provenance has the run's machine": (
        record(lambda r: r["machine"]["proof"].update(counter_share=0.5)),
        "machine.proof.counter_share: 0.5",
        # Another version may know other fields.
        record(lambda r: (r["machine"].pop("programs"), r.update(commit="0"))),
    ),
    "a timetable takes more origins": (
        record(lambda r: r["machine"]["origins"].update(cores=3)),
        "machine.origins.cores: 3",
        record(lambda r: r["machine"]["origins"].update(nodes=3)),
    ),
    "a run is named after its start": (
        lambda run: run.header.update(started_s=run.header["started_s"] - 1.0),
        "run: ",
        lambda run: run.header.update(started_s=run.header["started_s"] + 0.9),
    ),
    "runs lie within their block": (
        lambda run: recorded(finished_s=last_end_s(run) - 2.0)(run),
        "until its 'finished_s'",
        lambda run: recorded(finished_s=last_end_s(run) - 0.5)(run),
    ),
    "runs begin after their block": (
        recorded(started_s=lambda t: t["started_s"] + 10.0),
        "from its 'started_s' on",
        recorded(started_s=lambda t: t["started_s"] + 8.0),
    ),
    "a block ends after its last run": (
        lambda run: recorded(finished_s=last_end_s(run) + 130.0)(run),
        "before its 'finished_s'",
        lambda run: recorded(finished_s=last_end_s(run) + 110.0)(run),
    ),
    "counts are not negative": (
        counts(lambda rows: rows[0].update(value=-1.0)),
        "-1.0 found; allowed: 0 or more",
        counts(lambda rows: rows[0].update(value=0.0)),
    ),
    "an event has one unit": (counts(lambda rows: rows[0].update(unit="B")), "one unit"),
    "accepted runs have counts": (
        counts(lambda rows: [row for row in rows if row["key"] != rows[-1]["key"]]),
        "no count of node found",
        counts(lambda rows: rows[:-1]),
    ),
    # A conductor that is killed leaves the counts of one run of a block without its sample.
    "counts have a sample": (
        counts(
            lambda rows: [
                *rows,
                *({**rows[0], "key": f"stream/1/9/{arm}/0"} for arm in ("off", "on")),
            ]
        ),
        "that of a sample",
        counts(lambda rows: [*rows, {**rows[0], "key": "stream/1/9/off/0"}]),
    ),
    "nodes passed what was counted": (
        node("on", received_b_s=lambda rate: rate * 1.001),
        "its 'counted_b' in 'counted_s'",
        node("on", received_b_s=lambda rate: rate * (1 + 1e-12)),
    ),
    "a reason quotes the conditions": (
        rejected(lambda _: "n1: foreign processes used 0.90 hardware threads (most: x)"),
        "allowed: with 0.0",
        rejected(
            lambda s: (
                f"n1: foreign processes used {s['conditions'][0]['foreign_cpus']:.2f}"
                " hardware threads (most: x)"
            )
        ),
    ),
    # The made rate alone is 12 GB/s.
    "a reason quotes the writer": (
        rejected(lambda _: "writer 0 wrote at 3% of its rate alone from second 0.0 of the window"),
        "allowed: with 9",
        rejected(
            lambda s: (
                f"writer 0 wrote at {s['writers'][0]['rate_min_b_s'] / 12e9:.0%} of its rate"
                " alone from second 0.0 of the window"
            )
        ),
    ),
    "rates alone are those that a block measured": (
        lambda run: [each.update(rates_b_s=[1e9]) for each in run.logs[ALONE]],
        "by alone.json",
        lambda run: run.logs[ALONE].append({"rates_b_s": [1e9], "counted": {}}),
    ),
    "devices alone counted what a block measured": (
        lambda run: [each.update(counted={"n1": ["x", 1e9, 2.0]}) for each in run.logs[ALONE]],
        "allowed: 500000000.0 or 500000000.0, by alone.json",
        lambda run: [each.update(counted={}) for each in run.logs[ALONE]],
    ),
    "a damaged record of rates alone says nothing": (
        lambda run: [each.update(rates_b_s=[1e9]) for each in run.logs[ALONE]],
        "by alone.json",
        lambda run: [each.update(rates_b_s="1e9") for each in run.logs[ALONE]],
    ),
    "ucx on one host has shared memory": (
        writer(injector="ucx", origin="n1"),
        "'shared memory' of ucx",
        writer(injector="perftest", origin="n1"),
    ),
    "counts are whole numbers": (
        counts(lambda rows: rows[0].update(value=4999.5)),
        "a whole number",
        counts(lambda rows: rows[0].update(value=4999.0)),
    ),
    "counts have nothing in common": (
        multiplied(3.0),
        "stream.jsonl: value: multiples of 3 found",
        lambda run: (multiplied(3.0)(run), run.counts["stream"][0].update(value=5000.0)),
    ),
    "nodes are counted": (
        lambda run: run.counts.clear(),
        "its provenance lacks no counters",
        lambda run: (
            run.counts.clear(),
            record(lambda r: [each["absent_counters"].update(interrupts="x") for each in facts(r)])(
                run
            ),
        ),
    ),
    "what is not judged is noted": (
        header(campaign_text=TEXT.replace("0.5}", "0.5, foreign_cpus: null}")),
        "limits that are not judged: foreign_cpus",
        lambda run: (
            header(campaign_text=TEXT.replace("0.5}", "0.5, foreign_cpus: null}"))(run),
            [each["notes"].append("not judged: foreign_cpus") for each in run.all()],
        ),
    ),
    "margin": (header(margin=0.5), "margin: 0.5 found; allowed: 0.02"),
    "precision": (header(precision=0.5), "precision: 0.5 found; allowed: None"),
    "cap": (header(pairs_cap=7), "pairs_cap: 7 found; allowed: 12"),
    "least share": (
        lambda run: run.header["asked"].update(min_share=0.1),
        "asked.min_share: 0.1 found; allowed: 0.5",
    ),
    "retries": (
        lambda run: run.header["asked"].update(retries=3),
        "asked.retries: 3 found; allowed: 2",
    ),
    "no campaign": (header(campaign_text="# none"), "campaign_text: "),
    "an arm of the campaign": (
        campaign("25%", "off, on"),
        "asked.cases.stream: ",
        campaign("25%", "off, on, aa"),
    ),
    "a level of the campaign": (
        campaign("50%", "off, on, aa"),
        "asked.cases.stream: rate: '25%' found; allowed: 50%, full",
    ),
    "a case of the campaign": (
        without_lammps,
        "asked.cases: 'stream' found; allowed: stream, lammps, by 'resolved'",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_broken_and_its_neighbour_is_not(
    between: Path, tmp_path: Path, rule: str
) -> None:
    breaks, words, *nearly = RULES[rule]
    assert any(words in line for line in faults_of(between, breaks, tmp_path / "broken"))
    for edit in nearly:
        found = faults_of(between, edit, tmp_path / "sound")
        assert not [line for line in found if words in line]


def test_both_runs_are_sound(between: Path) -> None:
    assert [checked(run).faults for run in (between, RUN_QUICK)] == [[], []]


def test_a_fault_among_chosen_samples_names_its_own_line() -> None:
    frame = pl.DataFrame({"arm": ["off", "on", "on"], "outcome": ["rejected", "kept", "kept"]})
    rows = Rows(frame, {Path("stream.jsonl"): 3}, Faults())
    ((row, arm),) = rows.kinds("arm", where=pl.col("outcome") == "kept")
    assert (rows.at(row), arm) == ("stream.jsonl:2", "on")
