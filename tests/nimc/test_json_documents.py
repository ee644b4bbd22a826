"""Every JSON document has its schema, and the keys that docs/json.md lists."""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from analysis.contention import evaluate
from nimc.cli import hosts, minicluster, run, spack
from nimc.cli.document import print_document
from nimc.cli.main import COMMANDS, cli
from nimc.cluster.reservation import Reservation
from nimc.run.node_sweep import NodeSweep
from nimc.spack.setup import SpackSettings
from studies.made_sweeps import sweep
from testbed.cluster import Status
from testbed.spec import ClusterLayout
from tests.analysis.history.made import made_run
from tests.nimc.conftest import ROOT, Command, widest
from tests.nimc.documented import DOCUMENTED, assert_documented
from tests.nimc.minicluster.test_state import STATE
from tests.nimc.nights.made import SUMMARY, nightly
from tests.nimc.nimc_without_figures import render

#: Asserted elsewhere: in `run/test_run.py`, `test_{qualify,traffic}_command.py`, `crate/`,
#: `simulation/`.
ELSEWHERE = {"run", "reproduce", "qualify", "simulate --against", "simulate --paper"}
ELSEWHERE |= {"traffic import", "traffic show"}
#: It copies what Spack has built.
NEVER = {"spack mirror"}


def call(*words: object) -> dict[str, Any]:
    done = CliRunner().invoke(cli, [*map(str, words), "--json"])
    assert done.output, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def with_json(command: click.Command, name: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for sub, each in command.commands.items():
            yield from with_json(each, f"{name} {sub}")
    elif any("--json" in parameter.opts for parameter in command.params):
        yield name


def test_every_command_with_json_has_a_row() -> None:
    found = set[str]()
    for name in COMMANDS:
        found |= set(with_json(cli.get_command(click.Context(cli), name), name))
    assert found == {name.partition(" --")[0].partition(" without")[0] for name in DOCUMENTED}


def test_only_files_are_written_without_it() -> None:
    calls = [
        f"{path.name} {ast.unparse(node.args[0])}"
        for path in sorted((ROOT / "nimc/cli").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if path.name != "document.py"  # which prints all of it
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dumps", "json.dump")
    ]
    assert calls == ["model.py model.as_dict()"]


def assert_printed(command: Command, name: str, *words: object, code: int = 0) -> None:
    """As a document with the documented keys, and as text of 80 columns."""
    assert_documented(name, command.json(*words, code=code))
    assert widest(command(*words, code=code)) <= 80, name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("writers", "writers --nodes 64"),
        ("writers --paper", "writers --paper"),
        ("simulate", "simulate --ranks 16 --worst 2 --steps 5"),
        ("plan", "plan quick --machine localhost"),
        ("plan", "plan scaling --machine example_slurm"),
        ("remedy list", "remedy list"),
        ("model predict", "model predict --platform henri"),
        ("model recommend", "model recommend --platform henri"),
    ],
)
def test_those_that_need_nothing(command: Command, name: str, words: str) -> None:
    assert_printed(command, name, *words.split())


def test_those_with_scripts_and_paths(command: Command) -> None:
    for name, words in {
        "doctor": "doctor --machine localhost",
        "licence": "licence --licences 2",
        "remedy show": "remedy show cat",
    }.items():
        assert_documented(name, command.json(*words.split()))


def test_those_of_a_sweep_file(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(sweep(evaluate.load_published("henri"), 0, 0.01).as_dict()))
    assert_documented("model fit", command.json("model", "fit", path))
    words = ("model", "evaluate", path, "--platform", "henri")
    assert_documented("model evaluate", command.json(*words))


def test_those_of_runs_and_crates(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # short paths
    monkeypatch.setattr("analysis.report.page.render", render)
    for day, name in enumerate(("monday", "tuesday")):
        made_run(tmp_path / "results" / name, day=day)
    monday, tuesday = "results/monday", "results/tuesday"
    for name, words in {
        "runs": ["runs"],
        "store add": ["store", "add"],
        "store check": ["store", "check"],
        "store prune": ["store", "prune", "--older-than", "1000d"],
        "alarms": ["alarms"],
        "pages": ["pages"],
        "advise": ["advise", monday, tuesday],
        "compare": ["compare", monday, tuesday],
        "report": ["report", monday],
        "verify": ["verify", monday],
        "model slowdown": ["model", "slowdown", "--run", monday],
    }.items():
        if name in ("verify", "store check"):
            assert_documented(name, command.json(*words))
        else:
            assert_printed(command, name, *words)
    assert_documented("pack", command.json("pack", monday, "-o", "run.zip"))
    for name in ("verify", "reproduce --analysis-only"):
        subcommand, *options = name.split()
        assert_documented(name, command.json(subcommand, "run.zip", *options))


def test_those_of_nights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = nightly(tmp_path).target
    assert_documented("nightly status", call("nightly", "status", file))
    print_document("nightly run", SUMMARY.as_dict())
    assert_documented("nightly run", printed(capsys))


def test_those_of_a_minicluster(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is made there; the path is short, as a cluster's must be.
    at = ("--state", Path("/tmp/nimc-none"))
    assert_documented("minicluster status without a cluster", call("minicluster", "status", *at))
    assert_documented("minicluster down", call("minicluster", "down", *at))
    up = replace(STATE, up_took_s=3.0)
    names = [node.name for node in up.spec.members()]
    found = Status(up, nodes=dict.fromkeys(names, "idle"), pids=dict.fromkeys(names))
    monkeypatch.setattr(minicluster.cluster, "status", lambda _: found)
    monkeypatch.setattr(minicluster.cluster, "up", lambda *_: (up, False))
    assert_documented("minicluster status", call("minicluster", "status", *at))
    assert_documented("minicluster up", call("minicluster", "up", *at))
    running = replace(found, pids=dict.fromkeys(names) | {names[0]: 4242})
    text = minicluster._described(ClusterLayout(at[1]), running)
    ends = [line.split()[-1] for line in text.splitlines()[-len(names) :]]
    assert ends == ["4242", *["off"] * (len(names) - 1)]


def test_those_of_slurm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = datetime(2026, 11, 20)
    found = Reservation("nimc", day, day, "n1", 1, ["me"], "ACTIVE", [])
    for name in ("origins create", "origins show"):
        hosts._print(name.split()[1], found, "json")
        assert_documented(name, printed(capsys))
    nodes = NodeSweep("nodes", "m", "abc", [], 1.75e9)
    assert run._conclude_sweep(tmp_path, nodes, {"n1": "no such node"}, 0.02, "json") == 3
    assert_documented("sweep-nodes", printed(capsys))


def test_those_of_spack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path))
    assert_documented("spack info", call("spack", "info"))
    spack._show_built("build", [], "json")
    assert_documented("spack build", printed(capsys))
    settings = SpackSettings("/s", "1.0", True, None, None, None)
    monkeypatch.setattr(spack, "set_up", lambda *_: settings)
    assert_documented("spack setup", call("spack", "setup"))


def test_no_row_is_left_out() -> None:
    """Every row is a string of this file, or named above."""
    tree = ast.parse(Path(__file__).read_text())
    here = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert set(DOCUMENTED) <= here
    assert set(DOCUMENTED) >= ELSEWHERE | NEVER
