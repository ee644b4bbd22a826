"""Each rule by hand: a record that breaks it, and its neighbour that does not."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from analysis.samples.faults import Faults, Rows
from tests.analysis.integrity.between import TEXT, made_between
from tests.analysis.integrity.files import Json, Run
from tests.analysis.integrity.sound import checked
from tests.captures import RUN_QUICK

Edit = Callable[[Run], Any]
#: As asked, and measured.
IN_BURSTS = {
    **{"asked_length_s": 0.01, "asked_pause_s": 0.03},
    **{"length_s": 0.0101, "pause_s": 0.0299, "peak_b_s": 12e9},
}
UNCOUNTED = dict.fromkeys(("counted_b", "counted_s", "counter"))
#: What the first block of STREAM measured of its writers alone.
ALONE = "logs/stream/0/alone.json"


class By(NamedTuple):
    """So many times the value that there is."""

    factor: float


def put(record: Json, values: Json, *of: Any) -> None:
    """Other values of fields; what is callable takes `of`."""
    for name, value in values.items():
        if isinstance(value, By):
            record[name] *= value.factor
        else:
            record[name] = value(*of) if callable(value) else value


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run]:
    """Name of the run, and its files."""
    path = made_between(tmp_path_factory.mktemp("between"))
    return path.name, Run.read(path)


def on(run: Run, arm: str, case: str = "stream") -> Json:
    """The accepted run of a treatment in the second pair of the first block."""
    return next(each for each in run.samples[case] if (each["arm"], each["pair"]) == (arm, 1))


def changed(arm: str, case: str = "stream", **values: Any) -> Edit:
    """Other values of a run's fields; what is callable takes the sample."""
    return lambda run: put(on(run, arm, case), values, on(run, arm, case))


def writer(arm: str = "on", **values: Any) -> Edit:
    """Other values of its writer's; what is callable takes the writer and the run's length."""
    return lambda run: put(
        on(run, arm)["writers"][0], values, on(run, arm)["writers"][0], on(run, arm)["elapsed_s"]
    )


def extra(arm: str, case: str = "stream", **values: Any) -> Edit:
    """Other figures of a run; what is callable takes those that there are."""
    return lambda run: put(
        on(run, arm, case)["fom_extra"], values, dict(on(run, arm, case)["fom_extra"])
    )


def all_of(case: str, part: str = "", /, **values: Any) -> Edit:
    """Other values of all runs of a case, or of arms with this in their names."""
    return lambda run: [put(s, values, s) for s in run.samples[case] if part in s["arm"]]


def record(change: Callable[[Json], Any]) -> Edit:
    return lambda run: ([change(each) for each in run.provenance.values()], run.rehash())


def nodes(change: Callable[[Json], Any]) -> Edit:
    """A change of the facts of each host."""
    return record(lambda record: [change(facts) for facts in record["nodes"].values()])


def recorded(**values: Any) -> Edit:
    """Other values of what the conductor recorded of the first block of LAMMPS.

    What is callable takes the time at which it began, and at which its last run ended.
    """

    def edit(run: Run) -> None:
        block = run.logs["logs/lammps/0/block.json"]
        last = [each for each in run.samples["lammps"] if each["block"] == 0][-1]
        put(block, values, block["started_s"], last["start_s"] + last["elapsed_s"])

    return edit


def alone(**values: Any) -> Edit:
    return lambda run: [put(each, values) for each in run.logs[ALONE]]


def header(**values: Any) -> Edit:
    return lambda run: put(run.header, values)


def asked(**values: Any) -> Edit:
    return lambda run: put(run.header["asked"], values)


def campaign(rate: str, arms: str) -> Edit:
    """The campaign asked for this rate and these arms."""
    return header(
        campaign_text="name: between\nworkloads: [{check: stream}, {check: lammps}]\n"
        f"factors: {{rate: [{rate}, full]}}\narms: [{arms}]\npairs: {{floor: 6, cap: 12}}\n"
        "verify: {min_share: 0.5}\n"
    )


def text(more: str) -> Edit:
    """More keys of the campaign."""
    return lambda run: put(run.header, {"campaign_text": run.header["campaign_text"] + more})


def copied(pairs: int) -> Edit:
    """So many figures of 'aa' are those of 'off', of the other pairs."""

    def edit(run: Run) -> None:
        both = zip(run.kept("off", "lammps")[::-1], run.kept("aa", "lammps"), strict=True)
        for one, other in list(both)[:pairs]:
            other["fom"] = one["fom"]

    return edit


def counts(change: Callable[[list[Json]], Any]) -> Edit:
    def edit(run: Run) -> None:
        rows = run.counts["stream"]
        run.counts["stream"] = change(rows) or rows

    return edit


def first(**values: Any) -> Edit:
    """Other values of the first count."""
    return counts(lambda rows: rows[0].update(values))


def tripled(run: Run) -> None:
    """All counts of nodes."""
    for rows in run.counts.values():
        for row in rows:
            row["value"] *= 3.0 if row["unit"] == "count" else 1.0


def received(by: float) -> Edit:
    """Another rate that the device of the target passed in a run."""
    return lambda run: put(on(run, "on")["conditions"][0], {"received_b_s": By(by)})


def second_writer(by: float) -> Edit:
    """A writer like the first, whose count differs by that factor."""

    def edit(run: Run) -> None:
        (one,) = writers = on(run, "on")["writers"]
        writers.append({**one, "counted_b": one["counted_b"] * by})

    return edit


def after_none(early_s: float) -> Edit:
    """The application of the run before never started, so long after which the lead-in began."""

    def edit(run: Run) -> None:
        runs = run.samples["stream"]
        at = runs.index(on(run, "on"))
        runs[at - 1]["elapsed_s"] = 0.0
        runs[at]["lead_in_s"] = runs[at]["start_s"] - runs[at - 1]["start_s"] + early_s

    return edit


def without_lammps(run: Run) -> None:
    for table in (run.header["asked"]["cases"], run.samples, run.counts):
        table.pop("lammps")


def both(*edits: Edit) -> Edit:
    return lambda run: [edit(run) for edit in edits]


UNJUDGED = header(campaign_text=TEXT.replace("0.5}", "0.5, foreign_cpus: null}"))
#: Rule -> what breaks it, words of the fault, and what nearly does if that is not the run as it is.
RULES: dict[str, tuple[Edit, str] | tuple[Edit, str, Edit]] = {
    "a time within its run": (
        changed("on", "lammps", fom=lambda s: 1.002 * s["elapsed_s"]),
        "fom: ",
        changed("on", "lammps", fom=lambda s: s["elapsed_s"]),
    ),
    "STREAM's figure is that of its average": (
        changed("on", fom=By(1 + 1e-6)),
        "three arrays ('array_b') in 'average_s'",
        changed("on", fom=By(1 + 1e-12)),
    ),
    # 2e-6 of 0.1 s, and one in the last digit that STREAM prints of the rate.
    "STREAM's best rate is that of its least time": (
        extra("on", best_b_s=By(1.001)),
        "with a 'best_b_s' of three arrays",
        extra("on", best_b_s=lambda of: of["best_b_s"] + 1e5),
    ),
    "STREAM's average lies between": (
        extra("on", maximum_s=lambda of: of["average_s"] * 0.999),
        "from 'minimum_s' to 'maximum_s'",
        extra("on", maximum_s=lambda of: of["average_s"]),
    ),
    "a workload reports its other figures": (
        changed("on", fom_extra={"array_b": 1e9}),
        "average_s, which the workload reports",
        changed("on", "lammps", fom_extra={}),
    ),
    "a size is that of other runs": (extra("on", "lammps", atoms=16e3), "atoms as in other runs"),
    "STREAM is in B/s": (all_of("stream", fom_unit="1/s"), "fom_unit: '1/s' found; allowed: B/s"),
    "less time is better": (all_of("lammps", fom_better="higher"), "fom_better: 'higher' found"),
    "more than half of the figures are another arm's": (
        copied(7),
        "figures of 'aa' equal those of 'off'",
        copied(6),
    ),
    "figures vary": (
        all_of("lammps", "off", fom=4.0),
        "fom: the same in all runs of 'off'",
        all_of("lammps", "off", fom=lambda s: 4.0 + s["pair"] / 1e5),
        # A check of others may show a constant.
        both(all_of("lammps", workload="theirs"), all_of("lammps", "off", fom=4.0)),
    ),
    "bytes are those of the rate and the time": (
        writer(bytes_b=By(0.9999)),
        "writers[0].bytes_b",
        writer(bytes_b=By(1 + 1e-8)),
    ),
    # Rows that overlap, if they cover the whole window.
    "bytes beyond the window": (
        writer(observed_share=1.0, unobserved_s=0.0, bytes_b=lambda w, s: w["rate_b_s"] * s * 1.3),
        "writers[0].bytes_b",
        writer(observed_share=1.0, unobserved_s=0.0, bytes_b=lambda w, s: w["rate_b_s"] * s * 1.1),
    ),
    "bytes of a writer that was not observed": (
        writer(observed_share=None, bytes_b=lambda w, s: w["rate_b_s"] * s * 1.001),
        "at most 'rate_b_s' in 'elapsed_s'",
        writer(observed_share=None, bytes_b=lambda w, s: w["rate_b_s"] * s * 0.999),
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
        writer(**dict.fromkeys(("rate_b_s", "rate_min_b_s"), 12e9 * 1.24)),
    ),
    # 1.5 x 3 GB/s and two messages of 64 KiB in about 5 s.
    "a limited writer is limited": (
        writer("on@rate=25%", rate_b_s=4.6e9),
        "about 'asked_b_s'",
        writer("on@rate=25%", rate_b_s=4.5e9),
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
    "bursts are those of the level": (
        changed("on", factors={"rate": "full", "burst": "10ms/30ms"}),
        "that of the level of 'burst'",
        changed("on", factors={"rate": "full", "burst": "none"}),
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
        writer(**UNCOUNTED),
        "'device' if a device counted",
        writer(**UNCOUNTED, proof="memory", overwritten_share=0.95),
    ),
    "marks were overwritten for the proof": (
        writer(**UNCOUNTED, proof="memory", overwritten_share=0.89),
        "'memory' from an 'overwritten_share' of 0.9 on",
        writer(**UNCOUNTED, proof="unproven", overwritten_share=0.89),
    ),
    "marks that were overwritten are a proof": (
        writer(**UNCOUNTED, proof="unproven", overwritten_share=0.9),
        "'memory', by 'overwritten_share'",
        writer(**UNCOUNTED, proof="unproven", overwritten_share=0.89),
    ),
    "writers of a target have one count": (
        second_writer(1.001),
        "the same of all writers of a target",
        second_writer(1.0),
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
        writer(observed_share=0.26, bytes_b=lambda w, s: w["rate_b_s"] * s * 0.26),
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
    "a lead-in after a run that never started": (
        after_none(0.2),
        "after the start of the run before",
        after_none(0.05),
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
        all_of("stream", "25%", factors={"rate": "50%"}),
        "factors.rate: '50%' found",
    ),
    "origins are other hosts": (
        all_of("stream", origin_nodes=["n1"]),
        "other hosts than 'nodes'",
    ),
    "origins share the host": (
        lambda run: run.header["facts"]["site"]["origins"].update(policy="same_host"),
        "origin_nodes: n2 found; allowed: n1: origins share the host",
        both(
            lambda run: run.header["facts"]["site"]["origins"].update(policy="same_host"),
            *(all_of(case, origin_nodes=["n1"]) for case in ("stream", "lammps")),
        ),
    ),
    "facts of a host are those of run.json": (
        lambda run: run.header["facts"].update(host={"hostname": "n1", "processor": "other"}),
        "nodes.n1.processor: 'none' found; allowed: 'other', as in run.json",
        lambda run: run.header["facts"].update(host={"hostname": "n1", "kernel": "other"}),
    ),
    "hosts are those of provenance": (
        record(lambda r: r["nodes"].pop("n2")),
        "nodes of its provenance: n1",
        record(lambda r: r["nodes"].update(n3=r["nodes"]["n2"])),
    ),
    "a transport has a device": (
        nodes(lambda facts: facts.update(rdma=[])),
        "that of a device of its provenance: none",
        nodes(lambda facts: facts.pop("rdma")),
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
        recorded(finished_s=lambda _, end_s: end_s - 2.0),
        "until its 'finished_s'",
        recorded(finished_s=lambda _, end_s: end_s - 0.5),
    ),
    "runs begin after their block": (
        recorded(started_s=lambda began_s, _: began_s + 10.0),
        "from its 'started_s' on",
        recorded(started_s=lambda began_s, _: began_s + 8.0),
    ),
    # The last run of STREAM ends 30 s before the first one of LAMMPS.
    "blocks of a node follow one another": (
        all_of("lammps", start_s=lambda s: s["start_s"] - 31.5),
        "after the end of the block before it on n1",
        all_of("lammps", start_s=lambda s: s["start_s"] - 30.5),
    ),
    "a block ends after its last run": (
        recorded(finished_s=lambda _, end_s: end_s + 130.0),
        "before its 'finished_s'",
        recorded(finished_s=lambda _, end_s: end_s + 110.0),
    ),
    "a block that is done ends with a whole pair": (
        lambda run: run.samples["lammps"].pop(),
        "runs of the last pair: 3 found; allowed: 4, since the block is done",
        both(
            lambda run: run.samples["lammps"].pop(),
            lambda run: run.logs["logs/lammps/1/block.json"].update(state="stopped"),
        ),
    ),
    "counts are not negative": (
        first(value=-1.0),
        "-1.0 found; allowed: 0 or more",
        first(value=0.0),
    ),
    "an event has one unit": (first(unit="B"), "one unit"),
    "accepted runs have counts": (
        counts(lambda rows: [row for row in rows if row["key"] != rows[-1]["key"]]),
        "no count of node found",
        counts(lambda rows: rows[:-1]),
    ),
    # A conductor that is killed leaves the counts of one run of a block without its sample.
    "counts have a sample": (
        counts(
            lambda rows: rows + [rows[0] | {"key": f"stream/1/9/{arm}/0"} for arm in ("off", "on")]
        ),
        "that of a sample",
        counts(lambda rows: [*rows, {**rows[0], "key": "stream/1/9/off/0"}]),
    ),
    "nodes passed what was counted": (
        received(1.001),
        "its 'counted_b' in 'counted_s'",
        received(1 + 1e-12),
    ),
    "nodes sent what was read": (
        writer(injector="perftest_read", direction="read"),
        "its 'counted_b' in 'counted_s'",
        both(
            writer(injector="perftest_read", direction="read"),
            lambda run: put(
                on(run, "on")["conditions"][0],
                {"sent_b_s": on(run, "on")["conditions"][0]["received_b_s"]},
            ),
        ),
    ),
    "rates alone are those that a block measured": (
        alone(rates_b_s=[1e9]),
        "by alone.json",
        lambda run: run.logs[ALONE].append({"rates_b_s": [1e9], "counted": {}}),
    ),
    "devices alone counted what a block measured": (
        alone(counted={"n1": ["x", 1e9, 2.0]}),
        "allowed: 500000000.0 or 500000000.0, by alone.json",
        alone(counted={}),
    ),
    "a damaged record of rates alone says nothing": (
        alone(rates_b_s=[1e9]),
        "by alone.json",
        alone(rates_b_s="1e9"),
    ),
    "ucx on one host has shared memory": (
        writer(injector="ucx", origin="n1"),
        "'shared memory' of ucx",
        writer(injector="perftest", origin="n1"),
    ),
    "counts are whole numbers": (first(value=4999.5), "a whole number", first(value=4999.0)),
    "counts have nothing in common": (
        tripled,
        "stream.jsonl: value: multiples of 3 found",
        both(tripled, first(value=5000.0)),
    ),
    "nodes are counted": (
        lambda run: run.counts.clear(),
        "its provenance lacks no counters",
        both(
            lambda run: run.counts.clear(),
            nodes(lambda facts: facts["absent_counters"].update(interrupts="x")),
        ),
    ),
    "what is not judged is noted": (
        UNJUDGED,
        "limits that are not judged: foreign_cpus",
        both(
            UNJUDGED,
            lambda run: [each["notes"].append("not judged: foreign_cpus") for each in run.all()],
        ),
    ),
    "margin": (header(margin=0.5), "margin: 0.5 found; allowed: 0.02"),
    "precision": (header(precision=0.5), "precision: 0.5 found; allowed: None"),
    "cap": (header(pairs_cap=7), "pairs_cap: 7 found; allowed: 12"),
    "least share": (asked(min_share=0.1), "asked.min_share: 0.1 found; allowed: 0.5"),
    "retries": (asked(retries=3), "asked.retries: 3 found; allowed: 2"),
    "workload": (
        header(campaign_text=TEXT.replace("stream}", "lammps, case: stream}", 1)),
        "workload of stream: ",
    ),
    "digest": (header(digest="0" * 64), "of 'resolved'"),
    "seed of the text": (text("seed: 7\n"), "campaign_text: seed: 7 found"),
    "site": (
        lambda run: run.header["facts"]["site"].update(device="mlx5_1"),
        "facts.site.device: ",
    ),
    "no campaign": (header(campaign_text="# none"), "campaign_text: "),
    "an arm of the campaign": (
        campaign("25%", "off, on"),
        "asked.cases.stream: ",
        campaign("25%", "off, on, aa"),
    ),
    "no arm of the campaign is missing": (
        campaign("25%", "off, on, aa, spin"),
        "asked.cases.stream: 'off, on, aa' found",
        both(campaign("25%", "off, on, aa, spin"), text("exclude: [{}]\n")),
    ),
    "a variable of the campaign": (
        header(campaign_text=TEXT.replace("stream}", "stream, set: {iterations: 3}}")),
        "asked.cases.stream: iterations: 3 found; allowed: None, by 'resolved'",
    ),
    "a check of the campaign": (
        header(campaign_text=TEXT.replace("stream}", "lulesh, case: stream}")),
        "asked.cases.stream: check: 'lulesh' found; allowed: stream, by 'resolved'",
    ),
    "injector of the text": (text("injector: {rate: 50%}\n"), "campaign_text: injector: "),
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
    between: tuple[str, Run], tmp_path: Path, rule: str
) -> None:
    breaks, words, *nearly = RULES[rule]
    name, files = between
    for number, edit in enumerate([breaks, *nearly]):
        edited = deepcopy(files)
        edit(edited)
        found = checked(edited.write(tmp_path / str(number) / name)).faults
        assert any(words in line for line in found) == (edit is breaks)


def test_both_runs_are_sound(between: tuple[str, Run], tmp_path: Path) -> None:
    name, files = between
    runs = (files.write(tmp_path / name), RUN_QUICK)
    assert [checked(run).faults for run in runs] == [[], []]


def test_a_fault_among_chosen_samples_names_its_own_line() -> None:
    frame = pl.DataFrame({"arm": ["off", "on", "on"], "outcome": ["rejected", "kept", "kept"]})
    rows = Rows(frame, {Path("stream.jsonl"): 3}, Faults())
    ((row, arm),) = rows.kinds("arm", where=pl.col("outcome") == "kept")
    assert (rows.at(row), arm) == ("stream.jsonl:2", "on")
