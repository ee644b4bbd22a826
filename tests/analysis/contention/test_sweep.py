"""Tests how sweeps are read, from files and from the samples of runs.

A sweep has measured rates of computations and communications.
"""

import json
from dataclasses import asdict, replace

import pytest

from analysis.contention.fit import fit_model
from analysis.contention.page import fit_parts
from analysis.contention.sweep import Sweep, load_sweep, sweep_of_run
from records.errors import InputError
from tests.analysis.contention.made_samples import made_sample, off_and_on, write
from tests.analysis.contention.made_sweeps import point

POINTS = [
    point(1, alone_b_s=(5e9, 4e9), together_b_s=(5e9, 4e9)),
    point(2, alone_b_s=(1e10, None), together_b_s=(9e9, 3.5e9), node=1),
]

#: One point in the form of JSON.
POINT_RECORD = {"n": 2, "comp_node": 0, "comm_node": 0}


def test_cores_and_nodes_of_a_sweep_are_given_by_the_file_or_by_its_points(tmp_path):
    sweep = Sweep(
        name="m", cores=16, numa_per_socket=1, numa_nodes=4, points=POINTS, notes=["emulated"]
    )
    (tmp_path / "a.json").write_text(json.dumps(sweep.as_dict()))
    assert load_sweep(tmp_path / "a.json") == sweep
    points = [asdict(point) for point in POINTS]
    (tmp_path / "b.json").write_text(json.dumps({"schema": 1, "points": points}))
    assert load_sweep(tmp_path / "b.json") == Sweep(
        name="b", cores=2, numa_per_socket=1, numa_nodes=2, points=POINTS
    )
    socket = {"schema": 1, "numa_per_socket": 2, "points": points[:1]}  # all on node 0
    (tmp_path / "c.json").write_text(json.dumps(socket))
    assert load_sweep(tmp_path / "c.json").numa_nodes == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"points": []}, "points: a list found; allowed: at least 1"),
        ({"points": [POINT_RECORD | {"n": 0}]}, r"points\.0\.n: 0 found; allowed: greater than"),
        ({"points": [{"n": 1, "comp_node": 0}]}, r"points\.0\.comm_node: missing"),
        ({"points": [POINT_RECORD | {"speed": 3}]}, r"points\.0\.speed: unknown key"),
        *(
            ({"points": [POINT_RECORD | {"comp_par_b_s": rate}]}, "comp_par_b_s: ")
            for rate in (-3, 1e31)
        ),
        ([], "not a sweep"),
        ({"points": [1]}, r"points\.0: 1 found; allowed: a mapping"),
        ({"points": [{}], "notes": 3}, "notes: 3 found; allowed: a list"),
        ({"cores": 1, "points": [POINT_RECORD]}, r"points\.0\.n: 2 found; allowed: at most 1"),
        (
            {"numa_nodes": 1, "points": [POINT_RECORD | {"comp_node": 1}]},
            "nodes 1 and 0 found; allowed: bel",
        ),
        ({"cores": "x", "points": [POINT_RECORD]}, "cores"),
        (
            {"numa_nodes": 2, "numa_per_socket": 4, "points": [POINT_RECORD]},
            "numa_per_socket: 4 found; allowed: at most 2",
        ),
        (b"{", r"bad\.json: "),
        (b'{"schema": 1, "points": NaN}', r"bad\.json: "),
    ],
)
def test_mistakes(tmp_path, content, message):
    """If `content` is a dictionary, the file has schema 1."""
    if isinstance(content, dict):
        content = {"schema": 1, **content}
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InputError, match=message):
        load_sweep(path)


# Sweeps from samples: each arm gives certain rates.


def test_arms_become_measurements(tmp_path):
    # Rates are medians of samples that count: 5, 6 and 7 GB/s for `off`, 3, 4 and 5 GB/s for `on`.
    # Writers have a tenth of the rate of `on`.
    samples = [made_sample("off", i, (5 + i) * 1e9, 1) for i in range(3)]
    samples += [made_sample("on", i, (3 + i) * 1e9, 1) for i in range(3)]
    samples += [
        made_sample("off", 9, 99e9, 1, warmup=True),
        made_sample("on", 9, 99e9, 1, outcome="rejected"),
    ]
    samples += [made_sample("spin", 0, 1e9, 1), made_sample("off", 0, 50e9, 1, workload="stream")]
    samples += [made_sample("off", 0, 10e9, 2), made_sample("on", 0, 8e9, 2)]
    sweep = sweep_of_run(write(tmp_path, samples), None)
    assert (sweep.name, sweep.cores, sweep.numa_nodes, sweep.numa_per_socket) == ("m", 2, 1, 1)
    one, two = sweep.points_at(0, 0)
    assert (one.n, one.comp_alone_b_s, one.comm_alone_b_s) == (1, 6e9, 4e9)
    assert (one.comp_par_b_s, one.comm_par_b_s) == (4e9, 0.4e9)
    assert (two.n, two.comp_alone_b_s, two.comp_par_b_s) == (2, 10e9, 8e9)


def test_runs_below_the_full_rate_alone_are_no_sweep(tmp_path):
    """Their communications are slowed by the writers' own pauses, too."""
    off, on = off_and_on()
    half = replace(on, arm="on@rate=50%", key="half", factors={"rate": "50%"})
    with pytest.raises(InputError, match=r"at the full rate; allowed: .* factors\.rate$"):
        sweep_of_run(write(tmp_path / "half", [off, half]), None)
    (point,) = sweep_of_run(write(tmp_path / "all", [off, on, half]), None).points
    assert point.comm_par_b_s == 0.5e9


def placed(comm_node, arm, fom, **more):
    """Return a run; if it has writers, their buffers were on node `comm_node`."""
    one = made_sample(arm, 0, fom, 1, **more)
    writers = [replace(writer, buffer_node=comm_node) for writer in one.writers]
    return replace(one, key=f"{comm_node}/{arm}", case=f"m{comm_node}", writers=writers)


def test_the_placement_is_that_of_the_writers_or_must_be_named(tmp_path):
    """The placement of writers is also used for runs of the same case without writers."""
    samples = [
        placed(node, arm, (5 + node) * 1e9, node=1) for node in (0, 1) for arm in ("off", "on")
    ]
    sweep = sweep_of_run(write(tmp_path / "told", samples, numa_nodes=2, sockets=2), None)
    assert sweep.placements() == [(1, 0), (1, 1)]
    assert [sweep.points_at(1, node)[0].comp_alone_b_s for node in (0, 1)] == [5e9, 6e9]
    run = write(tmp_path / "not", off_and_on(node=2), numa_nodes=4, sockets=2)
    with pytest.raises(InputError, match="4 NUMA nodes: name the node of the writers' buffers"):
        sweep_of_run(run, None)
    sweep = sweep_of_run(run, 2)
    assert (sweep.numa_nodes, sweep.numa_per_socket) == (4, 2)
    assert sweep.placements() == [(2, 2)]
    # If only one node has cores, points of the other node are left out.
    node_samples = [
        replace(one, case=f"c{n}", key=f"{one.arm}{n}")
        for n in (0, 1)
        for one in off_and_on(node=n)
    ]
    sweep = sweep_of_run(write(tmp_path / "memory", node_samples), 0)
    assert sweep.placements() == [(0, 0)]
    assert any("NUMA nodes without cores are left out" in note for note in sweep.notes)


def test_a_case_whose_writes_were_all_rejected_gives_its_baseline(tmp_path):
    samples = [placed(0, arm, 5e9, node=1) for arm in ("off", "on")]
    samples += [placed(1, "off", 6e9, node=1), placed(1, "on", 6e9, node=1, outcome="rejected")]
    sweep = sweep_of_run(write(tmp_path, samples, numa_nodes=2, sockets=2), None)
    alone = {point.placement: point.comp_alone_b_s for point in sweep.points}
    together = {point.placement: point.comp_par_b_s for point in sweep.points}
    assert alone == {(1, 0): 5e9, (1, 1): 6e9}
    assert together == {(1, 0): 5e9, (1, 1): None}


def test_the_rate_of_communications_is_that_counted_by_the_receiver_if_any(tmp_path):
    """The receiver counted 6 GB in 2 s beside the application, and 5 GB/s before it.

    The rates that writers report are not used then.
    """
    off, on = (replace(one, fom_extra=one.fom_extra | {"streaming": 0.0}) for one in off_and_on())
    seen = {"counted_b": 6e9, "counted_s": 2.0, "counted_alone_b_s": 5e9}

    def rates_and_notes(name, writers):
        sweep = sweep_of_run(write(tmp_path / name, [off, replace(on, writers=writers)]), None)
        (point,) = sweep.points
        return (point.comm_alone_b_s, point.comm_par_b_s), " ".join(sweep.notes)

    rates, notes = rates_and_notes("counted", [replace(writer, **seen) for writer in on.writers])
    assert rates == (5e9, 3e9)
    assert "reported by the origin" not in notes
    assert "stores went through the caches" in notes  # as on a processor without streaming stores
    rates, notes = rates_and_notes("read", [replace(one, direction="read") for one in on.writers])
    assert rates == (4e9, 0.5e9)
    assert "rates of communications are as reported by the origin" in notes
    assert "read the target's memory" in notes
    assert rates_and_notes("none", [])[0] == (None, None)


def treated(name, fom, factors, baseline="off", comm_node=None):
    """Return the run of a treatment of one case, with data on node 0."""
    arm = name.partition("@")[0]
    silent = arm == "off"
    one = placed(comm_node, arm, fom, node=0)
    pairing = {"role": "baseline" if silent else "effect", "baseline": None if silent else baseline}
    return replace(one, key=name, arm=name, case="m", factors=factors, **pairing)


def test_one_baseline_serves_both_nodes_of_a_factor_and_only_full_rate_is_read(tmp_path):
    """Writers write to buffers on two nodes, at full rate and at a quarter. There is one `off`."""
    samples = [treated("off", 9e9, {"rate": 0})]
    for comm_node, fom in ((0, 5e9), (1, 6e9)):
        for rate, share in (("full", 1.0), ("25%", 1.5)):
            factors = {"comm_node": comm_node, "rate": rate}
            name = f"on@comm_node={comm_node},rate={rate}"
            samples.append(treated(name, fom * share, factors, comm_node=comm_node))
    sweep = sweep_of_run(write(tmp_path, samples, numa_nodes=2, sockets=2), None)
    assert sweep.placements() == [(0, 0), (0, 1)]
    points = [sweep.points_at(0, node)[0] for node in (0, 1)]
    assert [point.comp_alone_b_s for point in points] == [9e9, 9e9]
    assert [point.comp_par_b_s for point in points] == [5e9, 6e9]


def test_facts_recorded_by_the_target_are_used_and_emulation_is_noted(tmp_path):
    """The target may differ from the host of `nimc`. The target's agent recorded its facts."""
    samples = [replace(one, notes=["NUMA nodes are emulated"]) for one in off_and_on(node=0)]
    # Four NUMA nodes have a core each; one has only memory.
    numa_nodes = [{"number": i, "cpus": [i] if i < 4 else []} for i in range(5)]
    seen = {"nodes": {"a": {"sockets": 2, "numa_nodes": numa_nodes}}}
    sweep = sweep_of_run(write(tmp_path, samples, seen, numa_nodes=1), 0)
    assert (sweep.numa_nodes, sweep.numa_per_socket) == (4, 2)
    assert sweep.notes[0] == "NUMA nodes are emulated"
    assert "shared memory" in sweep.notes[-1]
    model = fit_model(sweep)
    assert model.notes == sweep.notes
    assert sweep.notes[0] in fit_parts(model)


def test_numa_nodes_are_renumbered_if_their_numbers_have_gaps(tmp_path):
    """Two sockets with cores on nodes 0 and 8, and a GPU's memory on node 1."""
    cpus = {0: [0], 1: [], 8: [1]}
    host = {
        "sockets": 2,
        "numa_nodes": [{"number": n, "cpus": node_cpus} for n, node_cpus in cpus.items()],
    }
    samples = [
        replace(one, case=f"c{n}", key=f"{one.arm}{n}") for n in cpus for one in off_and_on(node=n)
    ]
    sweep = sweep_of_run(write(tmp_path, samples, {"nodes": {"a": host}}), 8)
    assert (sweep.numa_nodes, sweep.numa_per_socket) == (2, 1)
    assert sweep.placements() == [(0, 1), (1, 1)]  # node 1 has no cores
    assert sweep.notes[-1] == "NUMA nodes are numbered without gaps here: 0 is 0, 8 is 1"


TRIAD = [replace(one, case="triad", key=one.arm) for one in off_and_on()]


@pytest.mark.parametrize(
    ("samples", "nodes", "message"),
    [
        (off_and_on() + TRIAD, 1, "c1, triad: each measured 1 core, data on node 0"),
        (off_and_on()[:1], 2, "ran without a NUMA node"),
        ([made_sample("off", 0, 5e9, 1, outcome="no_fom")], 1, "no sample of membench that counts"),
    ],
)
def test_samples_that_are_no_sweep_are_refused(tmp_path, samples, nodes, message):
    with pytest.raises(InputError, match=message):
        sweep_of_run(write(tmp_path, samples, numa_nodes=nodes, sockets=nodes), 0)


def test_one_of_several_kernels_is_read(tmp_path):
    """By default it is the first kernel, whose name is left out in names of treatments."""
    run = write(
        tmp_path,
        [
            treated("off", 9e9, {"kernel": "read", "rate": 0}),
            treated("on", 8e9, {"kernel": "read", "rate": "full"}),
            treated("off@kernel=copy", 5e9, {"kernel": "copy", "rate": 0}),
            treated("on@kernel=copy", 3e9, {"kernel": "copy", "rate": "full"}, "off@kernel=copy"),
        ],
    )
    for kernel, rates in ((None, (9e9, 8e9)), ("read", (9e9, 8e9)), ("copy", (5e9, 3e9))):
        (point,) = sweep_of_run(run, None, kernel).points
        assert (point.comp_alone_b_s, point.comp_par_b_s) == rates
    with pytest.raises(InputError, match=r"mix was not measured in .*; allowed: copy, read"):
        sweep_of_run(run, None, "mix")


@pytest.mark.parametrize("record", [[], {"nodes": []}, {"nodes": {"a": {"sockets": "x"}}}])
def test_an_invalid_record_of_the_target_is_ignored(tmp_path, record):
    assert sweep_of_run(write(tmp_path, off_and_on(), record), None).numa_nodes == 1
