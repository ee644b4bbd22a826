"""What commands decide without a machine: exit codes, which nodes and cases, what is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import pytest

from analysis.compare import node_ranks
from analysis.compare.node_ranks import RankedNode
from analysis.effects.result import Verdict
from analysis.report import data
from analysis.statistics.interval import Estimate
from conductor.injectors import INJECTORS
from nimc.cli import crate, hosts, minicluster, run, spack
from nimc.cli.document import Answer
from nimc.cluster.reservation import Reservation
from nimc.run.runner import Failure
from records.errors import InputError
from records.machine.slurm import SlurmNode
from reframe_tests.spack.build import Built
from testbed.cluster import Status
from tests.analysis.synthetic import header, result
from tests.commands import Command
from tests.nimc.documented import assert_documented
from tests.nimc.minicluster.test_state import STATE

Patch = pytest.MonkeyPatch
FAILED = [Failure("stream", "no binary")]


# `nimc run`


def test_without_a_gpu_its_campaign_is_planned_and_ends_in_one_line(
    command: Command, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.setattr(INJECTORS["copy_engine"], "missing", lambda: "no GPU is visible")
    results = ("--results", tmp_path / "none")
    planned = " ".join(command("plan", "copy_engine", *results, code=1).split())
    assert "left out (injector copy_engine: no GPU is visible): stream, hpccg, " in planned
    assert command("run", "copy_engine", *results, code=3) == ""
    assert (
        command.err
        == "nimc: localhost: no case can run: stream: injector copy_engine: no GPU is visible\n"
    )
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("failures", "faults", "row", "code"),
    [
        ([], [], None, 0),
        ([], [], {}, 0),
        ([], [], {"verdict": Verdict.NO_EFFECT, "fail": True}, 0),
        ([], [], {"fail": True}, 1),
        ([], [], {"slower_than_reference": True}, 1),
        ([], ["not to be trusted", "line 1"], {"slower_than_reference": True}, 2),
        (FAILED, ["not to be trusted"], {}, 3),
    ],
)
def test_a_campaign_ends_with_what_is_worst(
    failures: list[Failure], faults: list[str], row: dict[str, Any] | None, code: int
) -> None:
    """`row`: changes of an inconclusive effect; None: nothing was measured."""
    changes = dict(row or {})
    fail = changes.pop("fail", False)
    of = Made(results=[result(**changes)], integrity=Made(lines=lambda: faults))
    report: Any = None if row is None else Made(runs=[of])
    assert run.exit_code(report, failures, fail_inconclusive=fail) == code


# `nimc sweep-nodes`


LISTED = [SlurmNode("n1", "idle"), SlurmNode("n2", "down"), SlurmNode("n3", "mixed")]


def swept_on(partition: str | None, nodes: int = 1, *, slurm: bool = True) -> Any:
    """A request on a machine with two partitions, the second of which has no access options."""
    partitions = [{"name": "a", "access": ["--partition=fat"]}, {"name": "b"}]
    return Made(
        slurm=slurm,
        text="",
        machine=Made(name="m", partition=partition),
        settings=Made(partitions=partitions, environment={}),
        campaign=Made(name="c", margin=0.02, cases=[Made(name="stream", nodes=nodes)]),
    )


def test_nodes_of_a_sweep_are_those_of_its_partition_or_those_named(monkeypatch: Patch) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr(run, "ask_nodes", lambda partition, _: asked.append(partition) or LISTED)
    assert run._nodes_listed(swept_on(None), None) == LISTED
    assert run._nodes_listed(swept_on("b"), "n3,n1,n3") == [LISTED[2], LISTED[0]]
    assert asked == ["fat", None]
    for partition, name in (("a", "fat"), ("b", "default")):
        fault = f"^--nodes: 'n9' is not in partition {name}; allowed: n1, n2, n3$"
        with pytest.raises(InputError, match=fault):
            run._nodes_listed(swept_on(partition), "n1,n9")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"slurm": False}, "machine 'm': has no Slurm, so no nodes to choose"),
        ({"nodes": 2}, "case 'stream': has 2 nodes; allowed: 1"),
    ],
)
def test_only_single_node_campaigns_of_slurm_are_swept(
    command: Command, monkeypatch: Patch, asked: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(run, "prepare", lambda *_: swept_on("a", **asked))
    command("sweep-nodes", "quick", "--machine", "m", "--jobs", 2, code=2)
    assert command.err == f"nimc: {said}\n"


@pytest.mark.parametrize("failed", [{}, {"n3": "no such node"}])
def test_usable_nodes_are_swept_and_the_sweep_is_finished_if_none_failed(
    tmp_path: Path, command: Command, monkeypatch: Patch, failed: dict[str, str]
) -> None:
    jobs: list[Any] = []

    def sweeper(*given: Any) -> Any:
        jobs.append((given[1], given[5]))
        return Made(run_all=lambda: failed, finished_run=lambda _: None)

    monkeypatch.setattr(run, "prepare", lambda *_: swept_on("a"))
    monkeypatch.setattr(run, "ask_nodes", lambda *_: LISTED)
    monkeypatch.setattr(run, "NodeSweeper", sweeper)
    words = ("sweep-nodes", "quick", "--machine", "m", "--results", tmp_path, "--jobs", 2)
    command(*words, code=3 if failed else 0)
    assert "nimc: not usable: n2 (down)\n" in command.err
    assert jobs == [(["n1", "n3"], 2)]
    command(*words, "--nodes", "n2", code=2)
    assert command.err == "nimc: machine 'm': no usable node: n2 (down)\n"


@pytest.mark.parametrize(
    ("ratio", "failed", "code"), [(1.1, {}, 1), (0.9, {}, 0), (1.1, {"n2": "no such node"}, 3)]
)
def test_a_slower_node_is_status_one_and_one_that_was_not_measured_three(
    monkeypatch: Patch, ratio: float, failed: dict[str, str], code: int
) -> None:
    found = Estimate(ratio, ratio - 0.01, ratio + 0.01)
    row = RankedNode("stream", "n1", 6, 1.5e11, "B/s", found, 0.01, 0.02)
    monkeypatch.setattr(data, "load_run", lambda path: path)
    monkeypatch.setattr(node_ranks, "figures", lambda node, _: [node])

    def ranked(nodes: list[str], margin: float) -> list[RankedNode]:
        return [row] * len(nodes) * (margin == 0.02)

    monkeypatch.setattr(node_ranks, "ranked", ranked)
    request = Made(machine=Made(name="m"), campaign=Made(name="nodes", margin=0.02))
    runs = {node: Path(node) for node in ("n1", "n2") if node not in failed}
    answer = run._ranked(request, Path("s"), runs, failed)
    document: Any = {"schema": answer.schema, **answer.document}
    assert_documented("sweep-nodes", document)
    assert (len(document["nodes"]), document["failed"]) == (2 - len(failed), failed)
    assert answer.status == code
    assert run.table([replace(row, p_adjusted=None)]).splitlines()[1].split() == [
        *("stream", "n1", "6", "150.0", "GB/s", f"{ratio:.3f}"),
        *(f"{found.low:.3f}-{found.high:.3f}", "-"),
    ]


# `nimc origins`


def test_the_reservation_of_origins(command: Command, monkeypatch: Patch) -> None:
    calls: list[Any] = []
    day = datetime(2026, 11, 20)
    of = Reservation("nimc", day, day, "n[1-2]", 2, [], "ACTIVE", [])
    slurm = Made(
        create=lambda machine, *given: calls.append((machine.name, *given)) or of,
        name_of=lambda _: "nimc",
        find=lambda _: of if calls else None,
        remove=lambda machine: calls.append(machine.name),
    )
    monkeypatch.setattr(hosts, "reservation", slurm)
    at = ("--machine", "example_slurm")
    command("origins", "show", *at, code=3)
    assert command.err == "nimc: reservation nimc does not exist\n"
    for length in ("100s", "10s", "4h"):
        command.json("origins", "create", *at, "--time", length, "--nodes", "n1,n2")
    assert command.json("origins", "show", *at)["nodes"] == "n[1-2]"
    assert f"n[1-2] (2 nodes) for everyone, {day} to {day}, ACTIVE" in command(
        "origins", "show", *at
    )
    command("origins", "remove", *at)
    created = [("example_slurm", minutes, "n1,n2") for minutes in (2, 1, 240)]
    assert calls == [*created, "example_slurm"]


# `nimc minicluster`


def test_a_cluster_is_healthy_if_all_of_it_is_up(command: Command, monkeypatch: Patch) -> None:
    at = ("minicluster", "status", "--state", "/tmp/nimc-none")
    assert command(*at, code=3) == "no minicluster in /tmp/nimc-none\n"
    absent = json.loads(command(*at, "--json", code=3))
    assert_documented("minicluster status without a cluster", absent)
    names = [node.name for node in STATE.spec.members()]
    found = Status(STATE, True, True, dict.fromkeys(names, "idle"), dict.fromkeys(names, 7))
    monkeypatch.setattr(minicluster.cluster, "status", lambda _: found)
    assert "slurmctld answers, slurmdbd answers" in command(*at)
    assert command.json(*at)["healthy"]
    found = replace(found, accounting=False, pids={**found.pids, names[0]: None})
    assert "slurmctld answers, slurmdbd does not answer" in command(*at, code=3)
    ends = [line.split()[-1] for line in command.out.splitlines()[-len(names) :]]
    assert ends == ["off", "7", "7"]
    for was_up, how in ((True, "is already up"), (False, "up in 3.2 s")):
        up = replace(STATE, up_took_s=3.21), was_up
        monkeypatch.setattr(minicluster.cluster, "up", lambda *_, up=up: up)
        out = command("minicluster", "up", *at[2:])
        assert out.startswith(
            f"minicluster {how}: 3 nodes, fabric rxe (tcg), subnet 10.77.9.0/24\n"
        )
        assert "compute: node1, node2; origin: node3; all: node1, node2, node3\n" in out
    command.json("minicluster", "up", *at[2:])
    for removed, said in ((["state"], "state"), ([], "nothing: none was up")):
        monkeypatch.setattr(minicluster.cluster, "down", lambda _, removed=removed: removed)
        assert command("minicluster", "down", *at[2:]) == f"minicluster down: removed {said}\n"
    command.json("minicluster", "down", *at[2:])


# `nimc reproduce`


def cases(*names: str) -> Any:
    return Made(machine=Made(name="m"), campaign=Made(cases=[Made(name=each) for each in names]))


def test_cases_that_this_machine_cannot_run_are_left_out(monkeypatch: Patch) -> None:
    def prepare(path: Path, machine: str, only: Any = None) -> Any:
        return (path, machine, only) if only else cases("stream", "lammps")

    monkeypatch.setattr(crate, "prepare", prepare)
    path, ask = Path("c.yaml"), crate._asked
    packed: Any = Made(run="r", asked=Made(cases={"stream": [], "gone": []}))
    assert ask(packed, path, "m") == (path, "m", ["stream"])
    packed.asked.cases.pop("stream")
    with pytest.raises(InputError, match=r"^m: cannot run any case of r$"):
        ask(packed, path, "m")


@pytest.mark.parametrize(
    ("outcome", "failures", "code"),
    [("reproduced", [], 0), ("differs", [], 1), ("reproduced", FAILED, 3)],
)
def test_only_a_whole_reproduction_is_status_zero(
    monkeypatch: Patch, outcome: Any, failures: list[Failure], code: int
) -> None:
    sides: list[Any] = []
    monkeypatch.setattr(crate, "compare_sides", lambda *of: sides.extend(of) or Made(rows=[]))
    monkeypatch.setattr(crate, "judge", lambda _: (outcome, ["why"]))
    monkeypatch.setattr(crate, "load_run", lambda path: Made(read=path))
    monkeypatch.setattr(crate, "comparison_parts", lambda _, **__: ["lines"])
    old, new = (Made(header=header(run=name), path=Path(name)) for name in ("old", "new"))
    compare: Callable[..., Answer] = crate._compared
    answer = compare(old, new, failures, details=False)
    assert (answer.status, sides) == (code, [[old], [Made(read=new.path)]])
    document: Any = answer.document
    assert (document["packed"], document["run"], document["outcome"]) == ("old", "new", outcome)
    assert (document["reasons"], len(document["failures"])) == (["why"], len(failures))


# `nimc spack`


def test_built_packages_have_their_version_and_the_beginning_of_their_hash(
    command: Command,
) -> None:
    spec = {"name": "lammps", "version": "git.c0ffee=20240829", "hash": "abcdefghij"}
    specs = [spec, {**spec, "version": "1.2"}]
    built = Built("apps", "/v", "lock", None, "d", 1.0, 2.0, specs)
    _, first, second, view = "\n".join(map(str, spack._built([built]).parts)).splitlines()
    assert first.split() == ["apps", "lammps", "20240829", "abcdefg"]
    assert (second.split()[2], view) == ("1.2", "apps: /v/bin")
    command("spack", "build", "--machine", "localhost", code=2)
    assert command.err.startswith("nimc: STACK: name at least one of ")
