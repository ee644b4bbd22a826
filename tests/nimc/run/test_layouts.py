"""`layout: auto` compares layouts (ranks x threads of a node), and uses the fastest."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest

from nimc.campaign.layouts import candidates, comparison_campaign, fastest, short_of_runs
from nimc.campaign.request import load_request
from nimc.readiness.checks import CheckDescription, checks_in
from nimc.run.progress import Display
from nimc.run.runner import CampaignRunner
from records.campaign import Campaign, Entry
from records.checkout import ROOT
from records.errors import InputError
from records.interrupts import Interrupts
from records.machine.site import Machine
from tests.analysis.synthetic import Case, samples, write_run
from tests.nimc.campaign.made_request import made_machine, made_request
from tests.nimc.checkouts import program

CUBES = (1, 8, 27, 64, 125)


@pytest.mark.parametrize(
    ("cores", "nodes", "counts", "expected"),
    [
        (16, 1, (), ["16x1", "8x2", "4x4", "2x8", "1x16"]),
        (7, 1, (), ["7x1", "1x7"]),
        # The ranks of all nodes together must be a cube. On 28 cores these are 27, 8 or 1 ranks
        # with 1, 3 or 28 threads.
        (28, 1, CUBES, ["27x1", "8x3", "1x28"]),
        # Two nodes can have 8 ranks. 64 ranks would be 32 a node, more than the cores.
        (16, 2, CUBES, ["4x4"]),
        # 27 ranks on three nodes would be 9 a node, more than the cores.
        (4, 3, CUBES, []),
    ],
)
def test_layouts_that_are_compared(cores, nodes, counts, expected):
    entry = Entry(check="melt", set={"layout": "auto", "nodes": nodes})
    facts = {"cores": cores, "sockets": 1, "numa_nodes": 1, "llc": "1MiB", "memory": "1GiB"}
    check, machine = (
        CheckDescription(variables=frozenset(), rank_counts=counts),
        made_machine(facts=facts),
    )
    if expected:
        assert candidates(entry, check, machine) == expected
    else:
        fault = "'melt' fits on 4 cores on each of 3 nodes; allowed: .* 1, 8, 27, 64, "
        with pytest.raises(InputError, match=fault):
            candidates(entry, check, machine)


def hpccg_layouts(machine: Machine, **settings: float) -> list[str]:
    """Return the layouts of HPCCG that are compared with these settings."""
    case = Entry(check="hpccg", set={"layout": "auto", **settings})
    return candidates(case, checks_in(ROOT / "reframe_tests")["hpccg"], machine)


def test_layouts_of_more_points_than_are_counted_are_left_out() -> None:
    """HPCCG counts 27 entries of each point of a rank in 32 bits: 79,536,431 points, 430 cubed.

    A point takes 400 B. A quarter of 256 GiB has 171,798,691 points, whose half is 441 cubed.
    """
    sizes = {"sockets": 2, "numa_nodes": 8, "llc": "512MiB"}
    machine = made_machine(facts={"cores": 128, "memory": "256GiB", **sizes})
    countable = ["128x1", "64x2", "32x4", "16x8", "8x16", "4x32"]
    assert hpccg_layouts(machine) == countable
    assert hpccg_layouts(machine, memory_share=0.1) == [*countable, "2x64", "1x128"]
    # 128 cubes of 100 points along the edge have 128 million points, half of which can be counted.
    assert hpccg_layouts(machine, edge=100) == [*countable, "2x64"]
    with pytest.raises(InputError, match=r"^hpccg: layout: .*; allowed: a smaller edge or memory_"):
        hpccg_layouts(machine, edge=1000)


def test_a_plan_names_the_layouts_that_are_left_out(tmp_path, command, monkeypatch):
    program(tmp_path, "test_HPCCG", "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    file = tmp_path / "c.yaml"
    set_ = "{layout: auto, layout_cores: 4, edge: 300}"
    file.write_text(f"name: c\nworkloads: [{{check: hpccg, set: {set_}, expect: 1s}}]\n")
    words = " ".join(command("plan", file, "--machine", "localhost").split())
    # 4 cubes of 300 points along the edge have 108 million points.
    assert "runs first, without 1x4: more points a rank than are counted in 32 bits" in words


@pytest.mark.parametrize(("cores", "compared"), [(1, []), (2, [["2x1", "1x2"]])])
def test_layouts_are_compared_if_there_are_at_least_two(cores, compared):
    entry = Entry(check="melt", set={"layout": "auto", "layout_cores": cores})
    request = made_request(Campaign(name="small", workloads=[entry]), made_machine())
    searched_layouts = [
        search.campaign.cases[0].factors["layout"] for search in request.searches.values()
    ]
    assert searched_layouts == compared


def test_a_comparison_has_the_other_settings_of_its_case_and_no_writers():
    case = Entry(
        check="xsbench",
        set={"layout": "auto", "nodes": 2},
        factors={"rate": ["25%", "full"]},
        exclude=[{"rate": "25%"}],
        only=[{"rate": "full"}],
    )
    compared = comparison_campaign(
        Campaign(name="small", workloads=[case], arms=["off", "on"]), case, ["2x1", "1x2"]
    )
    (comparison,) = compared.cases
    assert (compared.arms, comparison.name) == (["off"], "xsbench@layouts")
    assert comparison.set == {"nodes": 2}
    assert comparison.factors == {"layout": ["2x1", "1x2"]}
    assert (comparison.exclude, comparison.only) == ([], [])


AUTO = """\
name: small
workloads:
  - {check: xsbench, set: {layout: auto, layout_cores: 16}, expect: 3s}
arms: [off, on, aa]
pairs: {floor: 6, cap: 6}
"""
LAYOUTS = ["16x1", "8x2", "4x4", "2x8", "1x16"]


def test_the_fastest_layout_without_writers_is_found_named_and_used(nimc):
    nimc.write(AUTO)
    out, err = nimc.ended("--json", faults="layout=4x4")
    assert "xsbench: layout 4x4 is the fastest without writers" in err
    document = json.loads(out)
    assert {(row["case"], row["arm"]) for row in document["results"]} == {
        ("xsbench", "on"),
        ("xsbench", "aa"),
    }
    assert document["integrity_faults"] == []
    layout_samples = [sample for sample in nimc.samples("xsbench@layouts") if not sample["warmup"]]
    assert sorted(sample["factors"]["layout"] for sample in layout_samples) == sorted(3 * LAYOUTS)
    assert {sample["role"] for sample in layout_samples} == {"baseline"}
    # The check would refuse the layout `auto`, from which nothing could be computed.
    plan = json.loads((nimc.the_run() / "logs/xsbench@layouts/0/plan.json").read_text())
    assert "layout" not in plan["settings"]
    plan = json.loads((nimc.the_run() / "logs/xsbench/0/plan.json").read_text())
    assert plan["settings"]["layout"] == "4x4"
    (note,) = (text for text in plan["notes"] if "layout" in text)
    assert note == (
        "layout 4x4, ranks x threads of a node: the fastest without writers; slower: 16x1, 8x2,"
        " 2x8, 1x16"
    )
    cases = nimc.header()["asked"]["cases"]
    assert cases["xsbench@layouts"] == ["off", *(f"off@layout={layout}" for layout in LAYOUTS[1:])]


def test_the_time_left_includes_the_search_until_a_layout_is_chosen(tmp_path, monkeypatch):
    """A search takes 8 s, a warm-up, and three runs of each of five layouts.

    A run takes 3 s, and 0.2 s pass before it.
    """
    path = tmp_path / "c.yaml"
    path.write_text(AUTO)
    request = load_request(path, "localhost")
    (case,) = request.campaign.cases
    sums = request.plan().sums
    with Interrupts() as interrupts:
        campaign_runner = CampaignRunner(
            request=request,
            run=tmp_path,
            reframe="reframe",
            seed=1,
            interrupts=interrupts,
            display=Display(),
        )
        assert campaign_runner.least_time_s() == pytest.approx(sums["duration_least_s"])
        monkeypatch.setattr("nimc.campaign.layouts.fastest", lambda *_: "4x4")
        without_search_s = campaign_runner.expected(case).least_s
    assert sums["duration_least_s"] - without_search_s == pytest.approx(8 + (1 + 3 * 5) * 3.2)


@pytest.mark.parametrize(("unit", "better"), [("s", "lower"), ("1/s", "higher")])
def test_the_fastest_layout_has_the_shortest_time_or_the_highest_rate(tmp_path, unit, better):
    times = {"8x2": 1.0, "4x4": 0.9, "2x8": 1.2}
    names = {"8x2": "off", "4x4": "off@layout=4x4", "2x8": "off@layout=2x8"}
    effects = {names[layout]: time for layout, time in times.items()}
    made_case = Case(name="x", unit=unit, better=better, base=10.0, effects=effects, noise=0.0)
    treatments = [
        SimpleNamespace(name=name, factors={"layout": layout}) for layout, name in names.items()
    ]
    for pairs, best in ((3, "4x4"), (2, None)):
        run = write_run(tmp_path / str(pairs), samples(made_case, pairs=pairs))
        assert fastest(run, SimpleNamespace(name="x"), treatments) == best


def test_a_layout_that_fails_is_named_with_its_reason(nimc):
    nimc.write(AUTO)
    _, err = nimc.ended(faults="failing=1x16", code=3)
    assert "of the layouts 1x16 (exit status 1: out of memory);" in err


def test_layouts_without_samples_are_short_of_runs(tmp_path):
    treatments = [SimpleNamespace(name="off", factors={"layout": "8x2"})]
    assert [*short_of_runs(tmp_path, SimpleNamespace(name="x"), treatments)] == ["8x2"]


def test_a_resumed_run_keeps_its_layout(nimc):
    nimc.write(AUTO)
    nimc.ended(faults="layout=2x8,torn", code=3)  # killed after the third run of each layout
    _, err = nimc.ended(faults="layout=16x1")
    assert "xsbench: layout 2x8 is the fastest" in err
    assert len([sample for sample in nimc.samples("xsbench@layouts") if not sample["warmup"]]) == 15


def test_a_search_never_takes_the_index_of_an_earlier_block(nimc):
    """Two searches end without a run. Then the folder of the first is removed."""
    nimc.write(AUTO)
    for _ in range(2):
        nimc.ended(faults="none", code=3)
    logs = nimc.the_run() / "logs" / "xsbench@layouts"
    assert {path.name for path in logs.iterdir()} == {"0", "1"}
    shutil.rmtree(logs / "0")
    nimc.ended()
    assert {sample["block"] for sample in nimc.samples("xsbench@layouts")} == {2}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "layout: auto, layout_cores: 16",
            "layout: 64x64",
            "no case is left: xsbench: 64x64 takes 4,096 cores; the application has",
        ),
        (
            "arms:",
            "factors: {reserved_cores: [0, 1]}\narms:",
            "workloads[0].set.layout: cannot be combined with the factor 'reserved_cores'",
        ),
        ("layout: auto", "layout: 8by2", "set.layout: 8by2 found; allowed: RANKSxTHREADS of"),
        ("check: xsbench", "check: minife", "unknown variable 'layout'"),
    ],
)
def test_an_impossible_layout_is_refused_in_one_line(nimc, old, new, fault):
    nimc.write(AUTO.replace(old, new))
    _, err = nimc.ended(code=2)
    assert (err.count("\n"), fault in err) == (1, True), err
