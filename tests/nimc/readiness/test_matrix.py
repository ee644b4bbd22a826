"""Which workloads can run in which environments, and why not in others.

Modules come from a stand-in and from real module systems. Lines about nodes are those that Slurm
22.05 prints for `sinfo -N -h -o '%N %T'`.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nimc.readiness.checks import CheckDescription
from nimc.readiness.matrix import JobNodes, Offer, PartitionNodes, can_run, matrix, offers_of
from nimc.readiness.reframe_config import PartitionEnvironment, ReframeSettings
from records.commands import command
from records.machine import program
from records.machine.program import ModuleLoad
from records.programs import ProgramAnswer
from records.slurm.client import ask_nodes
from records.slurm.parse_nodes import SlurmNode, nodes_in
from tests.nimc.checkouts import program as program_of

#: Variable of a module system -> the program that it names.
MODULE_SYSTEMS = {
    "LMOD_CMD": "/usr/share/lmod/lmod/libexec/lmod",
    "MODULES_CMD": "/usr/lib/x86_64-linux-gnu/modulecmd.tcl",
}
#: A stand-in for Lmod. It knows only `tool/1.0` and `alias`, another name of it, and prints what
#: Lmod prints.
STAND_IN = """\
test "$1 $2" = "bash load" || exit 1
case $3 in
  tool|tool/1.0)
    echo 'echo "a module may print"; export PATH={bin}:$PATH;'
    echo 'export LOADEDMODULES=${{LOADEDMODULES:+$LOADEDMODULES:}}tool/1.0;' ;;
  alias) echo 'true;' ;;
  *) echo "Lmod has detected the following error: unknown: $3" >&2; echo false ;;
esac
"""
#: A check that is compiled with the environment's compiler.
COMPILES = CheckDescription(variables=frozenset(), environs=("*",), compiles=True)
#: A check that Spack compiles, or the environment's compiler.
BUILT = replace(COMPILES, from_spack=True)
PROGRAM = CheckDescription(
    variables=frozenset(), environs=("+spack", "+wheels"), program="melt", from_spack=True
)
#: A check whose program Spack has no recipe for.
OWN = CheckDescription(variables=frozenset(), environs=("+spack",), program="umt")
IDLE = SlurmNode("n1", "idle")
DOWN = SlurmNode("n2", "down")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Returns a search path with the programs `melt` and `mycc` only."""
    for name in ("melt", "mycc"):
        program_of(tmp_path / "bin", name, "")
    return str(tmp_path / "bin")


@pytest.mark.parametrize(
    ("check", "features", "compiler", "missing", "nodes", "spack", "expected"),
    [
        (COMPILES, [], "mycc", [], None, "", ("yes", "")),
        (COMPILES, [], "", [], None, "", ("no", "no compiler: 'cc' is empty")),
        (COMPILES, [], "hiscc", [], None, "", ("no", "no compiler hiscc")),
        (COMPILES, [], "mycc", ["gcc/99"], None, "", ("no", "no module gcc/99")),
        (PROGRAM, ["wheels"], "", [], None, "", ("yes", "")),
        (PROGRAM, [], "mycc", [], None, "", ("no", "no feature spack or wheels")),
        (PROGRAM, ["spack"], "", [], None, "", ("yes", "")),
        (PROGRAM, ["spack"], "", [], None, "not set up", ("no", "not set up")),
        (OWN, ["spack"], "", [], None, "", ("no", "no program umt")),
        (BUILT, ["spack"], "", [], None, "", ("yes", "")),
        (BUILT, ["spack"], "mycc", [], None, "not set up", ("no", "not set up")),
        (BUILT, [], "", [], None, "", ("no", "no compiler: 'cc' is empty")),
        (COMPILES, ["spack"], "", [], None, "", ("no", "no compiler: 'cc' is empty")),
        (COMPILES, [], "mycc", [], [IDLE, DOWN], "", ("yes", "")),
        (COMPILES, [], "mycc", [], [], "", ("no", "no node: Slurm lists none in partition big")),
        (
            COMPILES, [], "mycc", [], [DOWN], "",
            ("no", "1 node needed, 0 usable in partition big; not usable: n2 (down)"),
        ),
    ],
)  # fmt: skip
def test_the_first_missing_requirement_is_named(
    path: str, check: CheckDescription, features: list[str], compiler: str, missing: list[str],
    nodes: list[SlurmNode] | None, spack: str, expected: tuple[str, str],
) -> None:  # fmt: skip
    environment = PartitionEnvironment(
        partition="p", environment="e", features=frozenset(features), compiler=compiler
    )
    partition = None if nodes is None else PartitionNodes("big", nodes)
    offer = Offer(ModuleLoad(missing, path), partition, spack_fault=spack)
    assert can_run(check, environment, offer) == expected
    if nodes and IDLE in nodes:
        reason = "2 nodes needed, 1 usable in partition big; not usable: n2 (down)"
        assert can_run(check, environment, offer, JobNodes(2)) == ("no", reason)


@pytest.mark.parametrize(
    ("origin_nodes", "needed", "reason"),
    [
        ("o1 idle\no2 idle", JobNodes(2, 2), ""),
        ("o1 idle\no2 idle", JobNodes(2, 3), "3 nodes needed, 2 usable in partition rest"),
        # A node in both partitions is either target or origin.
        ("n2 idle\no1 idle", JobNodes(2, 1), ""),
        (
            "n2 idle\no1 idle",
            JobNodes(2, 2),
            "4 nodes needed (2 targets, 2 origins), 3 usable in partition big or partition rest",
        ),
        # Jobs of origins may use a node in maintenance, since they name a reservation.
        ("n3 reserved", JobNodes(2, 1), ""),
    ],
)
def test_a_node_is_not_both_target_and_origin(
    path: str, origin_nodes: str, needed: JobNodes, reason: str
) -> None:
    offer = Offer(
        ModuleLoad([], path),
        PartitionNodes("big", nodes_in("n1 idle\nn2 idle\nn3 maint")),
        PartitionNodes("rest", nodes_in(origin_nodes)),
    )
    environment = PartitionEnvironment(
        partition="p", environment="e", features=frozenset(), compiler="mycc"
    )
    runs, shown = can_run(COMPILES, environment, offer, needed)
    assert (runs, shown.partition(";")[0]) == ("no" if reason else "yes", reason)


def test_a_program_with_a_path_in_the_site_file_is_looked_for_there(path: str) -> None:
    environment = PartitionEnvironment(
        partition="p", environment="e", features=frozenset(["spack"]), compiler=""
    )
    named = {"umt": f"{path}/melt", "melt": "/nowhere/melt"}
    offer = Offer(ModuleLoad([], ""), spack_fault="not set up", programs=named)
    assert can_run(OWN, environment, offer) == ("yes", "")
    # The named program is used instead of the one that Spack would build.
    assert can_run(PROGRAM, environment, offer) == ("no", "no program /nowhere/melt")
    # If only a job can show whether a check can run, this is unknown.
    modules_check = CheckDescription(
        variables=frozenset(), environs=("+modules",), program="theirs"
    )
    environment = PartitionEnvironment(
        partition="p",
        environment="e",
        features=frozenset(["modules"]),
        compiler="cc",
        modules=("theirs/1",),
    )
    assert can_run(modules_check, environment, Offer(None)) == (
        "unknown",
        "no module system that answers on this host",
    )
    on_path = can_run(modules_check, environment, Offer(ModuleLoad([], path)))
    assert on_path == ("unknown", "no program theirs on this host")
    # A third-party check may name its environments.
    theirs = CheckDescription(variables=frozenset(), environs=("p+e", "q+e"))
    assert can_run(theirs, environment, Offer(ModuleLoad([], path))) == ("yes", "")
    elsewhere = CheckDescription(variables=frozenset(), environs=("q+e",))
    refused = can_run(elsewhere, environment, Offer(None))
    assert refused == ("no", "not one of its valid environments")


def stand_in(tmp_path: Path, path: str) -> dict[str, str]:
    script = program_of(tmp_path, "lmod", STAND_IN.format(bin=path))
    kept = {name: text for name, text in os.environ.items() if not name.startswith("BASH_")}
    return {**kept, "LMOD_CMD": str(script), "LOADEDMODULES": ""}


def test_modules_are_loaded_one_by_one(tmp_path: Path, path: str) -> None:
    loaded = program.load_modules(["tool", "nope/1", "tool/1.0", "alias"], stand_in(tmp_path, path))
    assert loaded.missing == ["nope/1"]
    assert loaded.path.startswith(f"{path}:")
    # Without a module system, nothing is known about modules.
    bare = {"PATH": str(tmp_path)}
    assert program.load_modules(["a/1"], bare) is None
    assert program.load_modules([], bare) == ModuleLoad([], str(tmp_path))


@pytest.mark.parametrize("variable", MODULE_SYSTEMS)
def test_modules_are_loaded_with_a_real_module_system(
    tmp_path: Path, path: str, variable: str
) -> None:
    """The shell has no function `module`, as if the login shell were not bash."""
    if not Path(MODULE_SYSTEMS[variable]).is_file():
        pytest.skip(f"no {MODULE_SYSTEMS[variable]}")
    for version in ("9.9", "10.1"):
        file = tmp_path / "modulefiles" / "hpccg" / version
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#%Module1.0\nprepend-path PATH {path}\n")
    alias = "#%Module1.0\nmodule-alias solver hpccg/9.9\n"
    (tmp_path / "modulefiles" / ".modulerc").write_text(alias)
    (tmp_path / "programs").mkdir()
    for name in ("bash", "tclsh", "tclsh8.6"):  # no other program of the host, such as modulecmd
        (tmp_path / "programs" / name).symlink_to(f"/usr/bin/{name}")
    environment = {
        "PATH": str(tmp_path / "programs"),
        "HOME": str(tmp_path),
        variable: MODULE_SYSTEMS[variable],
        "MODULEPATH": str(tmp_path / "modulefiles"),
    }
    loaded = program.load_modules(["hpccg/9.9", "hpccg/9.8", "solver"], environment)
    assert loaded.missing == ["hpccg/9.8"]
    assert loaded.path.split(":")[0] == path


def test_the_matrix_of_two_workloads_and_three_environments(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "none"))
    environment = stand_in(tmp_path, path)
    monkeypatch.setenv("PATH", environment["PATH"])
    one = {"name": "one", "scheduler": "local", "environs": ["spack", "own"]}
    two = {"name": "two", "scheduler": "local", "environs": ["mods"]}
    environs = [
        {"name": "spack", "features": ["spack"], "cc": ""},
        {"name": "own", "features": ["wheels"], "cc": sys.executable},
        {"name": "mods", "features": ["modules"], "modules": ["tool"], "cc": "mycc"},
    ]
    settings = ReframeSettings(
        environment=environment, partitions=[one, two], environs=environs, system="m"
    )
    melt = replace(PROGRAM, environs=("+spack", "+modules", "+wheels"))
    checks = {"copy": COMPILES, "melt": melt}
    whole = matrix(checks, offers_of(settings, "m", None))
    runs: dict[str, list[tuple[str, str]]] = {workload: [] for workload in checks}
    for cell in whole.cells:
        runs[cell.workload].append((cell.combination, cell.runs))
    assert runs == {
        "copy": [("one+spack", "no"), ("one+own", "yes"), ("two+mods", "yes")],
        "melt": [("one+spack", "no"), ("one+own", "no"), ("two+mods", "yes")],
    }
    assert whole.why_nowhere == {}
    only = matrix(checks, offers_of(settings, "m", "one"))
    setup = command("spack", "setup", "--machine", "m")
    assert only.why_nowhere == {
        "melt": f"one+spack: Spack is not set up for m: `{setup}`; one+own: no program melt"
    }


@pytest.mark.parametrize(
    ("partition_variables", "environment_variables", "runs"),
    [
        ([], [["PATH", "{bin}:$PATH"]], "yes"),
        ([], [["PATH", "${{PATH}}:{bin}"]], "yes"),
        ([["PATH", "{bin}:$PATH"]], [["PATH", "/opt/none:$PATH"]], "yes"),
        ([["ROOT", "{bin}/.."]], [["PATH", "$ROOT/bin"]], "yes"),
        ([["PATH", "{bin}:$PATH"]], [["PATH", "/opt/none"]], "no"),
        ([], [["OLD_PATH", "{bin}:$PATH"], ["THREADS", 4]], "no"),
    ],
)
def test_a_program_is_looked_for_on_the_path_that_variables_set(
    path: str,
    partition_variables: list[list[str]],
    environment_variables: list[list[str]],
    runs: str,
) -> None:
    """Variables are set as `export NAME="VALUE"` does in a job script.

    Those of the partition are set before those of the environment.
    """

    def filled(variables: list[list[str]]) -> list[list[str]]:
        return [
            [name, value.format(bin=path) if isinstance(value, str) else value]
            for name, value in variables
        ]

    part = {"name": "p", "environs": ["e"], "env_vars": filled(partition_variables)}
    environ = {"name": "e", "features": ["wheels"], "env_vars": filled(environment_variables)}
    settings = ReframeSettings(
        environment={"PATH": "/usr/bin"}, partitions=[part], environs=[environ]
    )
    (cell,) = matrix({"melt": PROGRAM}, offers_of(settings, "m", None)).cells
    assert (cell.runs, cell.reason) == (runs, "" if runs == "yes" else "no program melt")


def test_a_node_of_several_partitions_is_listed_once_and_other_lines_are_ignored() -> None:
    nodes = [SlurmNode("node1", "idle"), SlurmNode("node2", "mixed")]
    assert nodes_in("node1 idle\nnode2 mixed\nnode2 mixed\n") == nodes
    assert nodes_in("sinfo: error: Unable to contact\n\n--x idle\nn1\nn2 ???\n") == []


def test_slurm_is_asked_for_the_nodes_of_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm 22.05.8 and 26.05.3 refuse `--all` beside `--partition`, and show a hidden partition
    if one of the two is there: `src/sinfo/opts.c`.
    """

    def ask(command: list[str], _: object) -> ProgramAnswer:
        if "--all" in command and "--partition=big" in command:
            refusal = "sinfo: error: Conflicting options, -a and -p, specified."
            return ProgramAnswer("sinfo", 1, "", f"{refusal} Please choose one or the other.\n")
        if "--partition=big" in command:
            return ProgramAnswer("sinfo", 0, "n1 idle\nn2 down\n", "")
        text = "n1 idle a*\nn2 down a*\nn3 idle b\n" if "--all" in command else ""
        return ProgramAnswer("sinfo", 0, text, "")

    monkeypatch.setattr("records.slurm.client.ask", ask)
    assert ask_nodes("big", {}) == ask_nodes(None, {}) == [IDLE, DOWN]
    # Nothing is known of its nodes if Slurm does not answer.
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/bin/{name}")
    part = {"name": "p", "scheduler": "slurm", "access": ["-p big"], "environs": ["e"]}
    settings = ReframeSettings(environment={}, partitions=[part], environs=[{"name": "e"}])
    silent = ProgramAnswer("sinfo", 1, "", "no answer")
    monkeypatch.setattr("records.slurm.client.ask", lambda *_: silent)
    (cell,) = matrix(
        {"copy": COMPILES}, offers_of(settings, "m", None), {"copy": JobNodes(2)}
    ).cells
    assert cell.runs == "yes"


def test_hidden_nodes_of_a_cloud_are_no_missing_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm 22.05.8 printed this while one of two nodes in the state CLOUD was powered down."""
    answers = {
        "sinfo": "queue1-dy-c5n-1 idle%\n",
        "scontrol": "PartitionName=queue1 Nodes=queue1-dy-c5n-[1-2] State=UP TotalCPUs=4"
        " TotalNodes=2 SelectTypeParameters=NONE",
    }
    monkeypatch.setattr(
        "records.slurm.client.ask",
        lambda command, *_: ProgramAnswer(command[0], 0, answers[command[0]], ""),
    )
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/bin/{name}")
    part = {"name": "p", "scheduler": "slurm", "access": ["-p queue1"], "environs": ["e"]}
    settings = ReframeSettings(environment={}, partitions=[part], environs=[{"name": "e"}])
    (cell,) = matrix(
        {"copy": COMPILES}, offers_of(settings, "m", None), {"copy": JobNodes(2)}
    ).cells
    assert (cell.runs, cell.reason) == ("yes", "")


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (["--reservation=tests", "-p big"], ""),
        (["-p big"], "1 node needed, 0 usable in partition big; not usable: n1 (maint), n2 (down)"),
    ],
)
def test_nodes_in_maintenance_take_jobs_of_their_reservation(
    access: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = ProgramAnswer("sinfo", 0, "n1 maint\nn2 down\n", "")
    monkeypatch.setattr("records.slurm.client.ask", lambda *_: nodes)
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/bin/{name}")
    part = {"name": "p", "scheduler": "slurm", "access": access, "environs": ["e"]}
    settings = ReframeSettings(environment={}, partitions=[part], environs=[{"name": "e"}])
    (cell,) = matrix({"copy": COMPILES}, offers_of(settings, "m", None)).cells
    assert (cell.runs, cell.reason) == ("no" if reason else "yes", reason)
