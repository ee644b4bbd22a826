"""The planner: cases, blocks, durations and commands."""

import re
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.counters import slowest_period_s
from nimc.campaign.cases import counter_period_s, shortest_run
from nimc.campaign.plan import (
    Lengths,
    Request,
    block_length_s,
    block_plan,
    block_sizes,
    logs_of,
    next_block_pairs,
    reframe_command,
)
from nimc.campaign.request import load_request
from nimc.readiness.diagnosis import fewest_nodes
from nimc.readiness.matrix import JobNodes
from nimc.run.folder import lengths_of
from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from records.campaign import Campaign, Entry, Pairs
from records.checkout import ROOT
from records.errors import InputError
from records.sample import Level
from records.treatment import Treatment, Writes
from reframe_tests.planning import resolved_scale, treatments
from reframe_tests.scaling import ScaleRequest
from tests.conductor.sysfs import set_driver, write
from tests.nimc.campaign.made_request import FACTS, made_machine, made_request

MACHINE = made_machine(origins=2, device="mlx5_0")


def campaign(**pairs: float) -> Campaign:
    entry = {"check": "stream", "set": {"iterations": 20, "quiet": True}, "expect": "10s"}
    return Campaign.model_validate(
        {
            "name": "c",
            "workloads": [entry],
            "arms": ["off", "on", "aa"],
            "pairs": pairs,
            "verify": {"steal_share": None},
            "run_timeout": "2min",
            "seed": 7,
        }
    )


@pytest.mark.parametrize(
    ("pairs", "sizes"),
    [
        # The first block has the minimum of pairs. Each further block reaches the next interim
        # analysis: 6, 8, 12, 16, 24, ... pairs.
        ({}, [8, 4, 4, 8]),
        ({"floor": 10}, [10, 2, 4, 8]),
        ({"floor": 48}, [48]),
        ({"floor": 10, "cap": 14, "block": 4}, [4, 4, 2, 2, 2]),
    ],
)
def test_numbers_of_pairs_in_the_blocks_of_a_case(pairs, sizes):
    assert list(block_sizes(Pairs.model_validate(pairs))) == sizes


@given(st.integers(6, 40), st.integers(0, 40), st.integers(1, 50), st.integers(0, 100))
@settings(deadline=None)
def test_a_case_continues_up_to_its_minimum_of_pairs_and_never_exceeds_its_maximum(
    floor, more, block, complete_pairs
):
    pairs = Pairs(floor=floor, cap=floor + more, block=block, precision=0.01)
    sizes = block_sizes(pairs)
    assert sum(sizes) == floor + more
    assert max(sizes) <= block
    next_pairs = next_block_pairs(complete_pairs, pairs, is_done=True)
    assert (next_pairs == 0) == (complete_pairs >= floor)
    assert complete_pairs + next_pairs <= max(complete_pairs, floor)


def made_treatments(
    request: Request, arms: list[str], entry: Entry, levels: dict[str, Level] | None = None
) -> list[Treatment]:
    """Return the treatments of an entry with other arms or levels than those of the campaign."""
    case = request.case_request(entry)
    case = replace(case, arms=arms, levels={**case.levels, **(levels or {})})
    return treatments(case, request.machine, resolved_scale(case, request.machine))


def test_expected_length_is_worked_out_from_its_parts():
    planned = campaign(floor=6)
    # A block takes 8 s; to measure the rate without an application with two queue pairs, 4 s; the
    # warm-up, and the runs off, on and aa of each pair, 10 s each with 0.7 s before each.
    entry = planned.workloads[0]
    request = made_request(planned, MACHINE)
    crossed = made_treatments(request, planned.arms, entry)
    assert block_length_s(request, entry, crossed, 6) == pytest.approx(8 + 4 + 10.7 + 6 * 3 * 10.7)
    # Without writers, only 0.2 s pass before each run.
    silent = made_treatments(request, ["off", "aa"], entry)
    assert block_length_s(request, entry, silent, 6) == pytest.approx(8 + 13 * 10.2)
    # Three warm-ups are two more.
    more = entry.with_changes({"set": {"warmups": 3}})
    longer_s = block_length_s(request, more, crossed, 6) - block_length_s(
        request, entry, crossed, 6
    )
    assert longer_s == pytest.approx(2 * 10.7)
    # A pair now has off, two rates and the control. It takes 4 s more to measure what writers reach
    # without an application at the second rate.
    entry = entry.with_changes({"factors": {"rate": [0, "25%", "full"]}})
    crossed = made_treatments(request, ["off", "on", "spin"], entry)
    assert block_length_s(request, entry, crossed, 6) == pytest.approx(
        8 + 4 + 4 + 10.7 + 6 * 4 * 10.7
    )


SHARED = made_machine("same_host", injector="ucx")


@pytest.mark.parametrize(
    ("machine", "nodes", "arm", "levels", "lead_in_s"),
    [
        # ucx and perftest report a row each second. If only rows show the rate, two are awaited:
        # the row that spans the pause, and a whole one. A twentieth is added.
        (SHARED, 1, "on", {"message": ["64KiB"]}, 2.1),
        (SHARED, 1, "on", {"message": ["dram"]}, 2.1),
        (SHARED, 1, "on", {"injector": ["mpi_put"]}, 0.7),  # the target of mpi_put counts
        (SHARED, 1, "spin", {}, 0.7),
        (SHARED, 1, "daly", {}, 0.7),  # writers of a timetable are not held between runs
        (MACHINE, 1, "on", {"direction": ["read"]}, 0.7),  # the device counts
        (MACHINE.model_copy(update={"device": None}), 1, "on", {}, 2.1),
        # One of two origins writes to two targets, so its device counts two writers.
        (MACHINE, 3, "on", {}, 2.1),
        # mpi_put is not held here. It takes 1.1 s to start.
        (MACHINE, 1, "on", {"injector": ["perftest", "mpi_put"]}, 1.155),
    ],
)
def test_the_time_between_runs_is_what_the_slowest_writers_need(
    machine, nodes, arm, levels, lead_in_s
):
    planned = campaign(floor=6)
    entry = planned.workloads[0].with_changes({"set": {"nodes": nodes}, "factors": levels})
    request = made_request(planned, machine)
    short = asdict(ScaleRequest(nodes=nodes, writers="daly:1")) if arm == "daly" else {}
    crossed = made_treatments(request, ["off", arm], entry, short)
    one_more_s = block_length_s(request, entry, crossed, 7) - block_length_s(
        request, entry, crossed, 6
    )
    assert one_more_s == pytest.approx(len(crossed) * (10 + lead_in_s))


def test_checks_that_wait_for_more_rows_have_more_time_between_runs(tmp_path):
    """membench waits for three rows. On one host, this took 4.25 s to 4.33 s with ucx.

    mpi_put reports a row every quarter of a second: one that spans the pause, and three more.
    """
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nworkloads: [{check: membench, set: {cores: 1, duration_s: 3}, expect: 3.3s}]\n"
    )
    request = load_request(path, "localhost")
    (entry,) = request.campaign.cases
    for injector, lead_in_s in (("ucx", 4.29), ("mpi_put", 1.05)):
        crossed = made_treatments(request, ["off", "on"], entry, {"injector": injector})
        one_more_s = block_length_s(request, entry, crossed, 7) - block_length_s(
            request, entry, crossed, 6
        )
        assert one_more_s / 2 == pytest.approx(entry.expect + lead_in_s, abs=0.1)


SHORT = """\
name: c
injector: {{name: ucx}}
arms: [off, on]
pairs: {{floor: 6, cap: 6}}
workloads:
  - {{check: stream, expect: 1s}}
  - {{check: hpccg, set: {{edge: 64}}, expect: {hpccg}}}
"""


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(SHORT.format(hpccg="3s"))
    return path


def test_runs_that_are_made_longer_take_longer(short):
    stream, hpccg = load_request(short, "localhost").plan().cases
    # A block takes 8 s, and a warm-up and 6 pairs of two runs. A run of STREAM is lengthened to
    # 2 s, and 2.1 s pass before it.
    assert stream.duration_least_s == pytest.approx(8 + 13 * 4.1)
    assert hpccg.duration_least_s == pytest.approx(8 + 13 * 5.1)
    # Without continuous writers, runs may be short.
    short.write_text(SHORT.format(hpccg="1s").replace("[off, on]", "[off, spin, aa]"))
    stream, _ = load_request(short, "localhost").plan().cases
    assert stream.duration_least_s == pytest.approx(8 + 19 * 1.7)
    # A check that cannot be lengthened is refused.
    short.write_text(SHORT.format(hpccg="1.9s"))
    with pytest.raises(
        InputError, match=r"c\.yaml:7: workloads\[1\]\.expect: 1\.9 s found; .*hpcc"
    ):
        load_request(short, "localhost")


@pytest.mark.parametrize(
    ("arms", "injector", "campaign_levels", "entry_levels", "least_s"),
    [
        # A run must last for two rows, which take a second each, or a quarter with mpi_put.
        (["off", "on"], "auto", [], [], 2.0),
        (["off", "on"], "mpi_put", [], [], 0.5),
        (["off", "on"], "auto", ["mpi_put"], [], 0.5),
        ([], "auto", ["mpi_put"], ["ucx", "mpi_put"], 2.0),
        (["off", "spin", "aa"], "auto", [], [], 0.0),  # nothing is written
    ],
)
def test_runs_last_for_two_rows_of_the_slowest_writers(
    arms, injector, campaign_levels, entry_levels, least_s
):
    """The levels are those of the factor `injector`, in the campaign and in its entry."""
    campaign_factors, entry_factors = (
        {"injector": levels} if levels else {} for levels in (campaign_levels, entry_levels)
    )
    planned = campaign().model_copy(update={"arms": arms, "factors": campaign_factors})
    entry = planned.workloads[0].with_changes({"factors": entry_factors, "expect": 0.6})
    injector_choice = planned.injector.model_copy(update={"name": injector})
    planned = planned.model_copy(update={"workloads": [entry], "injector": injector_choice})
    assert shortest_run(planned, MACHINE)[0] == least_s


def test_runs_and_lead_ins_are_longer_if_devices_update_their_counters_once_a_second(
    tmp_path, monkeypatch
):
    """This host has a device with bnxt_re. A fifth is allowed between count and report.

    A count may be wrong by a second of writes. It may cause half of the fifth, so a run lasts 10 s.
    After writes, 1.5 s pass. Then two updates are awaited, with 0.7 s.
    """
    device = "sys/class/infiniband/bnxt_re0"
    files = {"link_layer": "Ethernet", "state": "4: ACTIVE", "hw_counters/rx_bytes": "7"}
    write(tmp_path, {f"{device}/ports/1/{name}": text for name, text in files.items()})
    set_driver(tmp_path / device / "device", "bnxt_en")
    monkeypatch.setattr(slowest_period_s, "__defaults__", (tmp_path,))
    machine = made_machine(device="bnxt_re0")
    planned = campaign(floor=6)
    least_s, why = shortest_run(planned, machine)
    assert least_s == pytest.approx(10)
    assert "updated every 1 s" in why
    assert [counter_period_s(made_machine(device=name)) for name in ("bnxt_re0", "bnxt_re1")] == [
        1.0,
        0.0,
    ]
    assert counter_period_s(made_machine("same_host", device="bnxt_re0")) == 0.0
    request = replace(made_request(planned, machine), shortest_run_s=least_s, counter_period_s=1.0)
    entry = planned.workloads[0].with_changes({"expect": 5.0})
    crossed = made_treatments(request, planned.arms, entry)
    run_s = 10 + 0.7 + 1.5 + 2
    # What writers reach without an application is measured with one and with two queue pairs.
    alone_s = 4 + 2 * 10
    length_s = block_length_s(request, entry, crossed, 6)
    assert length_s == pytest.approx(8 + alone_s + (1 + 6 * 3) * run_s)


def test_the_fewest_nodes_of_a_check_are_those_of_its_smallest_case():
    entries = [campaign().workloads[0].with_changes({"set": {"nodes": n}}) for n in (2, 4, 3)]
    planned = campaign().model_copy(
        update={"workloads": [*entries, entries[0].with_changes({"check": "lammps", "set": {}})]}
    )
    for policy, nodes in (
        ("hetjob", (JobNodes(2, 2), JobNodes(1, 2))),
        ("same_job", (JobNodes(4), JobNodes(3))),
        ("reservation", (JobNodes(2), JobNodes(1))),
    ):
        needs = made_request(planned, made_machine(policy, origins=2)).needs()
        assert fewest_nodes(needs) == dict(zip(("stream", "lammps"), nodes, strict=True))


@pytest.mark.usefixtures("every_case_feasible")
def test_node_hours_of_a_case_in_the_printed_plan(short, command):
    """13 runs of an hour take 13.0 hours on one host. With an origin node, two nodes are used."""
    short.write_text(SHORT.format(hpccg="1h"))
    for machine, hours in (("localhost", 13), ("example_slurm", 26)):
        text = command("plan", short, "--machine", machine)
        row = next(line for line in text.splitlines() if line.strip().startswith("hpccg "))
        assert float(re.split("  +", row)[2]) == pytest.approx(hours, abs=0.1)
        core_hours, cores = re.findall(
            r"core-hours in all: ([\d.]+), with (\d+) cores? a node", text
        )[0]
        assert float(core_hours) == pytest.approx(hours * int(cores), rel=0.06)  # two digits
    # With at most 16 pairs, there are analyses after 6, 8, 12 and 16. Only the first block is
    # certain to run.
    pairs = "{floor: 6, cap: 16}"
    short.write_text(SHORT.format(hpccg="1h").replace("{floor: 6, cap: 6}", pairs))
    assert "# hpccg" not in command("plan", short, "--machine", "localhost")
    text = command("plan", short, "--machine", "localhost", "-v")
    assert "# hpccg, block 0: 6 pairs" in text
    assert text.count("up to 3 more") == 2


def test_core_hours_count_all_cores_of_the_nodes():
    machine = made_machine("same_job", origins=2, facts={**FACTS, "cores": 16})
    sums = made_request(campaign(), machine).plan().as_dict()
    for end in ("least", "most"):
        assert sums[f"core_hours_{end}"] == pytest.approx(16 * sums[f"node_hours_{end}"])


def test_durations_and_node_hours_from_the_floor_to_the_cap():
    planned = made_request(campaign(floor=6, cap=8), MACHINE).plan()
    (case,) = planned.cases
    assert (case.nodes, case.pairs_least, case.pairs_most) == (3, 6, 8)
    assert [block.needed for block in case.blocks] == ["always", "until decided"]
    sums = planned.as_dict()
    assert sums["node_hours_most"] == pytest.approx(3 * sums["duration_most_s"] / 3600)
    # The first block is that of the test above. The second takes 12 s, a warm-up and two pairs.
    assert sums["duration_least_s"] == pytest.approx(12 + 19 * 10.7)
    assert sums["duration_most_s"] == pytest.approx(12 + 19 * 10.7 + 12 + 7 * 10.7)


def test_reframes_command_names_the_file_of_a_plan_that_has_all_requests_of_the_campaign(tmp_path):
    planned = campaign(floor=6).model_copy(update={"rest": 2.0})
    request, entry = made_request(planned, MACHINE), planned.workloads[0]
    words = reframe_command(request, entry, 3, "/r")
    begin = "reframe -C /p/configs/m.py --system=m -c /p/reframe_tests/stream.py -r -n ^stream$"
    folders = {"stage": "stage", "output": "output", "perflogdir": "perflogs"}
    logs = " ".join(f"--{key}=/r/logs/stream/3/reframe/{folder}" for key, folder in folders.items())
    logs += " --report-file=/r/logs/stream/3/reframe.json"
    assert words == f"{begin} {logs} -S stream.block_file=/r/logs/stream/3/plan.json".split()
    fat = made_request(planned, MACHINE.model_copy(update={"partition": "fat"}))
    assert "--system=m:fat" in reframe_command(fat, entry, 0, "/r")
    saved = block_plan(request, entry, 3, 5, tmp_path, seed=9)
    logs_of(tmp_path, entry, 3).mkdir(parents=True)
    saved.save(logs_of(tmp_path, entry, 3) / "plan.json")
    plan = BlockPlan.load(tmp_path / "logs/stream/3/plan.json")
    assert plan == saved
    assert (plan.case, plan.block, plan.pairs, plan.warmups) == ("stream", 3, 5, 1)
    assert (plan.seed, plan.nodelist) == (9, "")
    assert plan.nimc_dir == str(tmp_path)
    assert plan.settings == {"iterations": 20, "quiet": True}
    assert [treatment.name for treatment in plan.treatments] == ["off", "on", "aa"]
    # The campaign sets these two limits. Other limits are the machine's or the defaults.
    limits = AcceptanceLimits(steal_share=None, run_timeout_s=120.0)
    assert (plan.limits, plan.rest_s) == (limits, 2.0)
    assert (plan.origin_policy, plan.n_origins) == ("hetjob", 2)


def test_writes_are_resolved_before_the_check_is_started():
    """25% is a quarter of the rate without an application.

    By default, messages between hosts have 64 KiB.
    """
    planned = campaign(floor=6)
    factors = {"rate": [0, "25%", "1GB/s", "full"], "reserved_cores": [0, 1]}
    cells = [{"reserved_cores": 1, "rate": "25%"}, {"arm": "aa"}]
    entry = planned.workloads[0].with_changes({"factors": factors, "exclude": cells})
    request = made_request(planned.model_copy(update={"workloads": [entry]}), MACHINE)
    full = Writes(injector="perftest", message_b=65536, devices=("mlx5_0",), queue_pairs=None)
    assert {treatment.name: treatment.writes for treatment in request.treatments["stream"]} == {
        "off": None,
        "on@rate=25%": replace(full, rate_share=0.25),
        "on@rate=1GB_s": replace(full, rate_b_s=1e9),
        "on": full,
        "off@reserved_cores=1": None,
        "on@reserved_cores=1,rate=1GB_s": replace(full, rate_b_s=1e9),
        "on@reserved_cores=1": full,
    }


@pytest.mark.usefixtures("every_case_feasible")
def test_the_plan_shows_which_factors_change_within_a_block(short, command):
    short.write_text(
        "name: c\nworkloads: [{check: stream, factors: {iterations: [10, 20]}}]\n"
        "arms: [off, on]\nfactors: {rate: [0, 50%, full]}\n"
    )
    words = ("plan", short, "--machine", "localhost")
    text = " ".join(command(*words).split())
    assert "rate 0, 50%, full (3 runs a pair): stream@iterations=10, stream@iterations=20" in text
    case = command.json(*words)["cases"][1]
    assert case["factors_within"] == {"rate": [0, "50%", "full"]}
    assert case["factors_between"] == {"iterations": 20}
    assert [tuple(treatment.values()) for treatment in case["treatments"]] == [
        ("off", "off", "baseline", None, {"rate": 0}),
        ("on@rate=50%", "on", "effect", "off", {"rate": "50%"}),
        ("on", "on", "effect", "off", {"rate": "full"}),
    ]


def test_a_plan_may_have_another_cap_and_fewer_cases(short, command):
    """Its last line has the same options for the run."""
    short.write_text(
        "name: c\nworkloads: [{check: stream}, {check: membench}]\npairs: {floor: 8, cap: 16}\n"
    )
    words = ("plan", short, "--machine", "localhost", "--pairs", "48", "--case", "stream")
    (case,) = command.json(*words)["cases"]
    assert (case["case"], case["pairs_least"], case["pairs_most"]) == ("stream", 8, 48)
    assert " ".join(command(*words).split()).endswith(" --pairs 48 --case stream")
    line = command.refused("plan", short, "--machine", "localhost", "--pairs", "6")
    assert line.startswith("--pairs: 6 found; allowed: 8 or more, the campaign's `pairs.floor`, ")


def test_quick_takes_minutes_and_single_node_has_the_runs_of_the_paper():
    quick = load_request(ROOT / "campaigns/quick.yaml", "localhost").campaign
    assert sorted(quick.arms) == ["aa", "off", "on", "spin"]
    assert quick.pairs.floor >= 6
    assert made_request(quick, MACHINE).plan().as_dict()["duration_least_s"] < 390
    # The runs of `single_node` are as long as in the paper.
    single = load_request(ROOT / "campaigns/single_node.yaml", "localhost").campaign
    assert single.workloads[0].set["iterations"] == 300
    assert single.pairs.floor >= 10


def test_expected_lengths_come_from_an_earlier_run_of_the_campaign():
    """Ten runs of the application begin 4 s apart. In each of two blocks, one was rejected.

    So each of the 8 accepted ones took 5 s. A case with a single run gives no length.
    """
    starts_s = [(block, 100 * block + 4.0 * run) for block in (0, 1) for run in range(5)]
    frame = pl.DataFrame(
        [
            *(("melt", block, start_s, "accepted" if start_s % 100 else "rejected")
              for block, start_s in starts_s),
            ("once", 0, 7.0, "accepted"),
        ],
        schema=["case", "block", "start_s", "outcome"],
        orient="row",
    )  # fmt: skip
    assert lengths_of(frame) == {"melt": 5.0}
    request = made_request(campaign(floor=6, cap=6), MACHINE)
    (entry,) = request.campaign.cases
    case_treatments = request.treatments[entry.name]
    longer = replace(request, lengths=Lengths("r", {entry.name: 20.0}))
    runs = entry.warmups + 6 * len(case_treatments)
    assert block_length_s(longer, entry, case_treatments, 6) == pytest.approx(12 + 20 * runs)
