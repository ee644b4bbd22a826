"""Decisions of commands that need no machine: exit codes, nodes and cases, refusals."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace as StandIn
from typing import Any

import polars as pl
import pytest

from analysis.effects.result import Verdict
from nimc.cli import crate, hosts, minicluster, run, spack
from nimc.cli.answer import Answer
from nimc.run.runner import Failure
from records.commands import command as printed_command
from records.errors import InputError
from records.notes import Note
from records.slurm.parse import Reservation
from reframe_tests import factors
from reframe_tests.spack.build import BuiltEnvironment
from testbed.cluster import Status
from tests.analysis.history.tables import made_table, write_nights
from tests.analysis.synthetic import STREAM, header, result, samples, write_run
from tests.commands import Command
from tests.nimc.documented import assert_documented
from tests.nimc.minicluster.states import STATE

Patch = pytest.MonkeyPatch
FAILED = [Failure("stream", "no binary")]


# `nimc run`


def test_a_campaign_without_its_injector_is_planned_and_ends_in_one_line(
    command: Command, monkeypatch: Patch, tmp_path: Path
) -> None:
    monkeypatch.setattr(factors, "why_missing", lambda _: "ucx_perftest is missing")
    campaign = tmp_path / "over_ucx.yaml"
    campaign.write_text(
        "name: over_ucx\nworkloads: [{check: stream}]\narms: [off, on]\ninjector: {name: ucx}\n"
    )
    results = ("--results", tmp_path / "none")
    planned = " ".join(command("plan", campaign, *results, code=1).split())
    assert "left out (injector ucx: ucx_perftest is missing): stream" in planned
    line = command.refused("run", campaign, *results, code=3)
    assert line == "localhost: no case can run: stream: injector ucx: ucx_perftest is missing"
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
def test_the_exit_code_of_a_campaign_is_that_of_its_worst_problem(
    failures: list[Failure], faults: list[str], row: dict[str, Any] | None, code: int
) -> None:
    """`row`: fields that differ from an inconclusive result, or None if nothing was measured."""
    changes = dict(row or {})
    fail = changes.pop("fail", False)
    measured = StandIn(results=[result(**changes)], integrity=StandIn(lines=lambda: faults))
    report: Any = None if row is None else StandIn(runs=[measured])
    assert run.exit_code(report, failures, fail_inconclusive=fail) == code


# `nimc nights`


def test_a_baseline_below_its_reference_is_an_open_alarm(command: Command, tmp_path: Path) -> None:
    note = Note.REFERENCE(off=2.0, unit="s", reference=1.0, tolerance=0.05)
    usual = made_table().with_columns(notes=pl.lit([], pl.List(pl.String)))
    write_nights(tmp_path, usual, [1.0])
    assert "no alarms" in command("nights", "alarms", "--results", tmp_path)
    short = usual.with_columns(slower_than_reference=pl.lit(True), notes=pl.lit([note]))
    table = tmp_path / "night-0" / "report" / "results.parquet"
    short.write_parquet(table)
    output = " ".join(command("nights", "alarms", "--results", tmp_path, code=1).split())
    assert "m: melt: slower than its reference" in output
    document = command.json("nights", "alarms", "--results", tmp_path, code=1)
    assert [(case["case"], case["text"]) for case in document["below_reference"]] == [
        ("melt", note)
    ]


def test_one_line_says_how_many_series_have_too_few_nights(
    command: Command, tmp_path: Path
) -> None:
    write_nights(tmp_path, made_table(), [1.0])
    words = ("nights", "alarms", "--results", tmp_path)
    number = len(command.json(*words)["watched"])
    assert number > 1
    (line,) = [line for line in command(*words).splitlines() if "too few nights" in line]
    assert f" {number} series" in line
    assert command(*words, "-v").count("too few nights") == number


# `nimc origins`


def test_a_reservation_of_origins_is_made_shown_and_removed(
    command: Command, monkeypatch: Patch
) -> None:
    calls: list[Any] = []
    day = datetime(2026, 11, 20)
    held = Reservation(
        name="nimc",
        start=day,
        end=day,
        nodes="n[1-2]",
        node_count=2,
        users=[],
        groups=[],
        accounts=[],
        state="ACTIVE",
        flags=[],
    )
    slurm = StandIn(
        create=lambda machine, *options: calls.append((machine.name, *options)) or held,
        name_of=lambda _: "nimc",
        remove=lambda machine: calls.append(machine.name),
    )
    monkeypatch.setattr(hosts, "reservation", slurm)
    monkeypatch.setattr(hosts, "find_reservation", lambda _: held if calls else None)
    machine_option = ("--machine", "example_slurm")
    line = command.refused("origins", "show", *machine_option, code=3)
    assert line == "reservation nimc does not exist"
    for length in ("100s", "10s", "4h"):
        command.json("origins", "create", *machine_option, "--time", length, "--nodes", "n1,n2")
    assert command.json("origins", "show", *machine_option)["nodes"] == "n[1-2]"
    assert f"n[1-2] (2 nodes) for everyone, {day} to {day}, ACTIVE" in command(
        "origins", "show", *machine_option
    )
    command("origins", "remove", *machine_option)
    created = [("example_slurm", minutes, "n1,n2") for minutes in (2, 1, 240)]
    assert calls == [*created, "example_slurm"]


# `nimc minicluster`


def test_a_minicluster_is_healthy_if_all_its_daemons_are_up(
    command: Command, monkeypatch: Patch
) -> None:
    words = ("minicluster", "status", "--state", "/tmp/nimc-none")
    assert command(*words, code=3) == "no minicluster in /tmp/nimc-none\n"
    absent = json.loads(command(*words, "--json", code=3))
    assert_documented("minicluster status without a cluster", absent)
    names = [node.name for node in STATE.spec.members()]
    status = Status(STATE, True, True, dict.fromkeys(names, "idle"), dict.fromkeys(names, 7))
    monkeypatch.setattr(minicluster.cluster, "status", lambda _: status)
    assert "slurmctld answers, slurmdbd answers" in command(*words)
    assert command.json(*words)["healthy"]
    status = replace(status, accounting=False, pids={**status.pids, names[0]: None})
    assert "slurmctld answers, slurmdbd does not answer" in command(*words, code=3)
    ends = [line.split()[-1] for line in command.out.splitlines()[-len(names) :]]
    assert ends == ["off", "7", "7"]
    for was_up, message in ((True, "is already up"), (False, "up in 3.2 s")):
        up = replace(STATE, up_took_s=3.21), was_up
        monkeypatch.setattr(minicluster.cluster, "up", lambda *_, up=up: up)
        out = command("minicluster", "up", *words[2:])
        assert out.startswith(
            f"minicluster {message}: 3 nodes, fabric rxe (tcg), subnet 10.77.9.0/24\n"
        )
        assert "compute: node1, node2; origin: node3; all: node1, node2, node3\n" in out
    command.json("minicluster", "up", *words[2:])
    monkeypatch.setattr(minicluster.cluster, "down", lambda _: ["state"])
    lines = command("minicluster", "down", *words[2:]).splitlines()
    assert lines[0] == "minicluster down: removed state"
    assert "unset SLURM_CONF NIMC_MINICLUSTER" in lines[1]
    command.json("minicluster", "down", *words[2:])


def test_without_state_the_cluster_of_the_shell_is_taken_down(
    command: Command, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(minicluster.cluster, "down", lambda _: [])
    monkeypatch.setenv("NIMC_MINICLUSTER", "/tmp/nimc-shell")
    assert "none was up in /tmp/nimc-shell;" in command("minicluster", "down")
    assert "none was up in /tmp/nimc-none;" in command(
        "minicluster", "down", "--state", "/tmp/nimc-none"
    )
    monkeypatch.delenv("NIMC_MINICLUSTER")
    assert f"none was up in /tmp/nimc-minicluster-{os.getuid()};" in command("minicluster", "down")


# `nimc reproduce`


def cases(*names: str) -> Any:
    return StandIn(
        machine=StandIn(name="m"), campaign=StandIn(cases=[StandIn(name=name) for name in names])
    )


def test_cases_that_this_machine_cannot_run_are_left_out(monkeypatch: Patch) -> None:
    def load_request(path: Path, machine: str, case_names: Any = None) -> Any:
        return (path, machine, case_names) if case_names else cases("stream", "lammps")

    monkeypatch.setattr(crate, "load_request", load_request)
    path, ask = Path("c.yaml"), crate.runnable_request
    packed: Any = StandIn(run="r", asked=StandIn(cases={"stream": [], "gone": []}))
    assert ask(packed, path, "m") == (path, "m", ["stream"])
    packed.asked.cases.pop("stream")
    with pytest.raises(InputError, match=r"^m: cannot run any case of r$"):
        ask(packed, path, "m")


@pytest.mark.parametrize(
    ("outcome", "failures", "code"),
    [("reproduced", [], 0), ("differs", [], 1), ("reproduced", FAILED, 3)],
)
def test_only_a_complete_reproduction_has_exit_code_0(
    monkeypatch: Patch, outcome: Any, failures: list[Failure], code: int
) -> None:
    sides: list[Any] = []
    monkeypatch.setattr(
        crate, "compare_sides", lambda *compared: sides.extend(compared) or StandIn(rows=[])
    )
    monkeypatch.setattr(crate, "outcome_of", lambda _: (outcome, ["why"]))
    monkeypatch.setattr(crate, "load_run", lambda path: StandIn(read=path))
    monkeypatch.setattr(crate, "comparison_parts", lambda _, **__: ["lines"])
    old, new = (StandIn(header=header(run=name), path=Path(name)) for name in ("old", "new"))
    compare: Callable[..., Answer] = crate.comparison_answer
    answer = compare(old, new, failures, details=False)
    assert (answer.status, sides) == (code, [[old], [StandIn(read=new.path)]])
    document: Any = answer.document
    assert (document["packed"], document["run"], document["outcome"]) == ("old", "new", outcome)
    assert (document["reasons"], len(document["failures"])) == (["why"], len(failures))


# `nimc spack`


def test_built_packages_have_their_version_and_the_beginning_of_their_hash() -> None:
    spec = {"name": "lammps", "version": "git.c0ffee=20240829", "hash": "abcdefghij"}
    specs = [spec, {**spec, "version": "1.2"}]
    built = BuiltEnvironment(
        environment="apps",
        view="/v",
        lock="lock",
        mpi=None,
        digest="d",
        concretize_s=1.0,
        install_s=2.0,
        specs=specs,
    )
    _, first, second, view = "\n".join(map(str, spack.built_answer([built]).parts)).splitlines()
    assert first.split() == ["apps", "lammps", "20240829", "abcdefg"]
    assert (second.split()[2], view) == ("1.2", "apps: /v/bin")


def test_finished_runs_without_a_report_are_named_with_the_command_that_makes_it(
    tmp_path: Path, command: Command
) -> None:
    run = write_run(tmp_path / "results/one", samples(STREAM, pairs=6), header(run="one"))
    output = " ".join(command("nights", "alarms", "--results", tmp_path / "results").split())
    assert "1 finished run without a report" in output
    assert printed_command("report", run) in output


def test_a_link_to_a_folder_of_results_that_is_gone_is_refused(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "purged")
    line = command.refused("run", "quick", "--results", tmp_path / "results")
    assert line.endswith(f"is a link to {tmp_path / 'purged'}, which does not exist")
