"""The two files that are made can be read, and hold what was found.

What Slurm and modules print is read; the captured outputs are of Slurm 22.05 and Lmod 8.6.

`nimc init` as it is called.
"""

import re
import runpy
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.settings import matching
from nimc.cli import hosts
from nimc.cluster import learn, new_machine
from nimc.cluster.in_job import JobLook, Place
from nimc.cluster.learn import ClusterFacts, NodeShape, SlurmPartition, access
from nimc.cluster.new_machine import (
    config_text,
    entries,
    host_pattern,
    site_text,
    unknown,
    with_nodes,
)
from records.errors import MachineError
from records.machine import site as machine
from records.programs import ProgramAnswer
from tests.commands import Command
from tests.fuzz.target import CAPTURES
from tests.nimc.cluster.made import FAST, SLURM, found, node, rdma


def site(tmp_path: Path, seen: ClusterFacts) -> machine.Machine:
    return loaded(tmp_path, site_text(seen))


def loaded(tmp_path: Path, text: str) -> machine.Machine:
    (tmp_path / "site").mkdir(parents=True)
    (tmp_path / "site" / "box.yaml").write_text(text)
    return machine.load("box", tmp_path)


def config(tmp_path: Path, seen: ClusterFacts) -> dict[str, Any]:
    path = tmp_path / "box.py"
    path.write_text(config_text("box", seen))
    made: dict[str, Any] = runpy.run_path(str(path))["site_configuration"]
    assert made["systems"][0]["name"] == "box"
    return made


def test_the_site_file_has_what_nodes_and_slurm_say(tmp_path: Path) -> None:
    made = site(tmp_path, found())
    assert (made.origins.policy, made.origins.partition) == ("hetjob", "batch")
    assert (made.injector, made.device, made.interface) == ("perftest", "mlx5_0", "hsn0")
    assert [(rail.device, rail.numa_node) for rail in made.rails] == [("mlx5_0", 1), ("mlx5_1", 3)]
    assert (made.partition, made.nodes, made.core_spec) == ("batch", 3, False)
    facts = made.facts
    assert (facts.cores, facts.sockets, facts.numa_nodes, facts.nic_node) == (64, 2, [*range(4)], 1)
    # The smaller of the node's 256 GiB and Slurm's RealMemory, 6026 MiB.
    assert (facts.llc_b, facts.memory_b) == (512 * 2**20, 6026 * 2**20)


@pytest.mark.parametrize(
    ("answers", "asked", "policy", "known"),
    [
        ([("7", None)], ["hetjob"], "hetjob", True),
        # Refused, and a job without is taken.
        ([(None, "no hetjobs"), ("8", None)], ["hetjob", "same_job"], "same_job", True),
        # What is refused to any job says nothing of heterogeneous ones.
        ([(None, "account"), (None, "account")], ["hetjob", "same_job"], "hetjob", False),
        # It was taken, but did not start.
        ([("7", "0 of 2 nodes answered")], ["hetjob"], "hetjob", False),
    ],
)
def test_a_job_shows_where_origins_may_be(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: list[tuple[str | None, str | None]],
    asked: list[str],
    policy: str,
    known: bool,
) -> None:
    policies: list[str] = []

    def look(place: Place, *_: object) -> JobLook:
        policies.append(place.origins.policy)
        assert runpy.run_path(str(place.config))["site_configuration"]
        job, why = answers.pop(0)
        return JobLook(job, why, [] if why else [node("n1", FAST), node("n2", FAST)])

    monkeypatch.setattr(new_machine, "look", look)
    blind = found(looked=JobLook(None, "no job was submitted"))
    facts = with_nodes("box", blind, tmp_path, 1.0, lambda _: None)
    assert (policies, facts.origins.policy) == (asked, policy)
    assert ("not known whether Slurm takes such a job" in site_text(facts)) is not known


@pytest.mark.parametrize("name", ['ünï: # "x"\\n', "\U0001f680", "null", "7"])
def test_any_name_of_a_cluster_is_text_in_the_file(tmp_path: Path, name: str) -> None:
    seen = found(settings={"ClusterName": name}, looked=JobLook(None, "no job"))
    assert site(tmp_path, seen).description == name


def test_memory_that_slurm_does_not_know_is_that_of_the_node(tmp_path: Path) -> None:
    # Slurm shows RealMemory=1 where slurm.conf has none.
    text = (SLURM / "nodes.txt").read_text().replace("RealMemory=6026", "RealMemory=1")
    shapes = {"batch": learn.shapes(text, "batch")}
    assert [(shape.memory_mib, count) for shape, count in shapes["batch"]] == [(None, 3)]
    facts = site(tmp_path, found(shapes=shapes)).facts
    assert facts.memory_b == 256 * 2**30
    blind = found(shapes=shapes, looked=JobLook(None, "no job was submitted"))
    assert "memory: SIZE}" in site_text(blind)


def test_every_value_has_its_source_and_what_is_unknown_is_a_comment() -> None:
    text = site_text(found())
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[a-z]", line):
            assert lines[number - 1].startswith("# "), line
    assert "The port of mlx5_0 reports 200Gbit/s." in text
    assert "# nic: {model: NAME, processing: offload, link_rate: 200Gbit/s}" in lines
    assert unknown(entries(found())) == ["nic", "node_mtti"]
    assert max(map(len, lines)) <= 100


def test_lines_to_fill_in_are_valid_once_they_are_no_comments(tmp_path: Path) -> None:
    seen = found(looked=JobLook(None, "no job was submitted"))
    assert unknown(entries(seen)) == ["device", "interface", "nic", "node_mtti", "facts"]
    text = re.sub(r"^# (nic|node_mtti|facts):", r"\1:", site_text(seen), flags=re.MULTILINE)
    made = loaded(tmp_path, text.replace("numa_nodes: N", "numa_nodes: 2"))
    assert (made.facts.cores, made.facts.memory_b) == (64, 6026 * 2**20)
    assert made.nic is not None
    assert made.facts.threads_per_core == 1
    # The partition of the targets may have no node that Slurm describes.
    assert unknown(entries(replace(seen, shapes={})))[-1] == "facts"
    (shape, count), *_ = seen.shapes["batch"]
    small = replace(shape, memory_mib=1024)
    mixed = site_text(replace(seen, shapes={"batch": [(shape, count), (small, 1), (shape, 2)]}))
    assert "3 nodes of batch differ from 3" in " ".join(mixed.replace("#", "").split())
    assert "differ" not in text


def test_cores_that_slurm_keeps_and_caches_that_a_node_does_not_report_do_not_count(
    tmp_path: Path,
) -> None:
    (shape, count), *_ = found().shapes["batch"]
    shapes = {"batch": [(replace(shape, cores=60), count)]}
    nodes = [node("n1", FAST), node("n2", FAST)]
    less = found(shapes=shapes, looked=JobLook("7", None, nodes))
    assert site(tmp_path, less).facts.cores == 60
    # Memory without processors is a NUMA node of its own kind; one with neither is none.
    host = nodes[0]["host"]
    host["numa_nodes"] += [
        {"number": n, "cpus": [], "memory_b": b} for n, b in ((4, 2**35), (5, 0))
    ]
    facts = loaded(tmp_path / "memory", site_text(less)).facts
    assert (facts.numa_nodes, facts.nodes_of_memory()) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])
    del host["numa_nodes"][1:]
    assert loaded(tmp_path / "one", site_text(less)).facts.numa_nodes == [0]
    host["llc_total_b"] = 0
    assert unknown(entries(less)) == ["nic", "node_mtti", "facts"]


def test_where_hetjobs_are_refused_origins_are_of_the_same_job(tmp_path: Path) -> None:
    seen = found(hetjob_refused="0: batch takes\nno \x1b[31mheterogeneous jobs")
    assert site(tmp_path, seen).origins.policy == "same_job"
    assert "\x1b" not in site_text(seen)
    alone = replace(seen, partitions=[replace(seen.partitions[0], nodes=1)])
    assert alone.origins.policy == "same_host"
    assert site(tmp_path / "alone", alone).origins.policy == "same_host"


DOWN = rdma("mlx5_0", 400, 0, "DOWN")
SLOW = rdma("mlx5_1", 100, 1)
LACKING = {"perftest": "ib_write_bw is missing: install it", "ucx": None, "spin": None}


@pytest.mark.parametrize(
    ("nodes", "injector", "device"),
    [
        # Devices that are down or not on every node do not count.
        (
            [node("n1", [DOWN, SLOW, rdma("only", 800, 0)]), node("n2", [DOWN, SLOW])],
            *("perftest", "mlx5_1"),
        ),
        # Without RDMA the interface counts, and ucx writes.
        ([node("n1", []), node("n2", [])], "ucx", "hsn0"),
        ([node("n1", FAST), node("n2", FAST, injectors=LACKING)], "ucx", "mlx5_0"),
    ],
)
def test_writers_use_what_every_node_has(
    tmp_path: Path, nodes: list[dict[str, Any]], injector: str, device: str
) -> None:
    seen = found(looked=JobLook("7", None, nodes))
    made = site(tmp_path, seen)
    assert (made.injector, made.device, made.interface) == (injector, device, "hsn0")
    assert bool(made.rails) == (device == "mlx5_0")
    assert ("n2 has no perftest" in site_text(seen)) == (device == "mlx5_0")


GPU = {"pci": "0000:01:00.0", "name": None, "numa_node": None, "link_rate_b_s": None}


@pytest.mark.parametrize(
    ("devices", "nodes", "injector", "offered"),
    [([], 1, "copy_engine", True), ([], 2, "ucx", True), (FAST, 1, "perftest", False)],
)
def test_a_gpu_writes_where_nothing_else_does(
    tmp_path: Path, devices: list[dict[str, Any]], nodes: int, injector: str, offered: bool
) -> None:
    there = node("n1", devices, injectors={"copy_engine": None, "ucx": None, "perftest": None})
    there["host"]["gpus"] = [GPU]
    seen = found(looked=JobLook("7", None, [there]))
    seen = replace(seen, partitions=[replace(seen.partitions[0], nodes=nodes)])
    assert site(tmp_path, seen).injector == injector
    said = " ".join(site_text(seen).replace("\n#", "").split())
    assert ("copy_engine needs a GPU, which they have" in said) == offered


def test_the_config_has_all_partitions_that_run_jobs(tmp_path: Path) -> None:
    made = config(tmp_path, found())
    first, second = made["systems"][0]["partitions"]
    assert (first["name"], first["launcher"], first["time_limit"]) == ("batch", "srun", "4h")
    assert first["access"] == ["--partition=batch"]
    assert (second["access"], second["time_limit"]) == (["--partition=debug", "--exclusive"], "30m")
    assert [each["name"] for each in made["environments"]] == ["spack", "wheels"]
    assert made["storage"] == [{"enable": True}]
    text = config_text("box", found())
    assert text.count('"box"') == 0, "the system's name is that of the file"
    assert max(map(len, text.splitlines())) <= 100
    assert "-march=" not in text
    other = config_text("box", found(processor="Other-1-1-1"))
    assert "Example 9000" in other
    assert "-march=" in other
    # Without an interface to MPI, mpirun starts ranks.
    spack, wheels = made["environments"]
    assert spack["env_vars"] == [["SLURM_MPI_TYPE", "pmix"]]
    assert wheels["env_vars"] == [["SLURM_MPI_TYPE", "pmi2"]]  # MPICH
    made = config(tmp_path, found(mpi=["pmi2"]))
    assert [each["env_vars"] for each in made["environments"]] == [[], wheels["env_vars"]]
    made = config(tmp_path, found(mpi=["none"]))
    assert made["systems"][0]["partitions"][0]["launcher"] == "mpirun"
    # The place of the modules is a comment; jobs may have any length.
    assert "# Modules (module --terse --default avail): gcc/12, openmpi/5.0.1." in text
    endless = [replace(each, limit_s=None) for each in found().partitions]
    (first, _) = config(tmp_path, found(partitions=endless))["systems"][0]["partitions"]
    assert first["time_limit"] == "4h"
    assert ("jobs of any length" in text, "longest job 30m" in text) == (False, True)


def test_an_account_is_given_only_if_none_is_taken_by_itself() -> None:
    batch = found().target
    assert access(batch, {"a": False}) == ["--partition=batch", "--account=a"]
    assert access(batch, {"a": False, "b": True}) == ["--partition=batch"]
    text = config_text("box", found(accounts={"physics": False, "bench": True}))
    assert "physics, bench, bench without" in text


@pytest.mark.parametrize(
    ("host", "matches", "other"),
    [("login12.example", "login3", "logins"), ("a-b.c", "a-b", "a-bc"), ("vm", "vm.local", "vm2")],
)
def test_the_machine_is_found_by_its_host(host: str, matches: str, other: str) -> None:
    pattern = host_pattern(host)
    assert matching({"box": [pattern]}, host) == "box"
    assert matching({"box": [pattern]}, matches) == "box"
    assert matching({"box": [pattern]}, other) == "localhost"
    assert matching({"box": [host_pattern(socket.gethostname())]}, socket.gethostname()) == "box"


def read(name: str) -> str:
    return (SLURM / name).read_text()


def test_what_slurm_prints() -> None:
    assert learn.partitions(read("partitions.txt")) == [
        SlurmPartition("batch", True, True, 86400, whole_nodes=True, nodes=3),
        SlurmPartition("debug", False, True, 1800, whole_nodes=False, nodes=2),
    ]
    settings = learn.settings(read("config.txt"))
    assert (settings["AllowSpecResourcesUsage"], settings["ClusterName"]) == ("No", "minicluster")
    assert learn.mpi_types(read("mpi_list.txt")) == ["pmix", "none", "cray_shasta", "pmi2"]
    assert (learn.limit_s("2-01:02:03"), learn.limit_s("UNLIMITED")) == (176523, None)


def test_the_default_partition_comes_first_and_those_that_are_down_do_not_come() -> None:
    text = (
        "PartitionName=a Default=NO State=UP TotalNodes=1\n"
        "PartitionName=b Default=NO State=DRAIN TotalNodes=1\n"
        "PartitionName=c Default=YES State=UP TotalNodes=1\n"
        "PartitionName=d Default=NO State=UP TotalNodes=0\n"
        "PartitionName=$(reboot) Default=NO State=UP TotalNodes=1\n"
    )
    names = [each.name for each in learn.partitions(text)]
    assert names == ["c", "a"]


def test_shapes_of_nodes_the_most_frequent_first() -> None:
    nodes = read("nodes.txt")
    # Three nodes of two sockets with one core each; debug has two of them.
    shape = NodeShape(sockets=2, cores=2, threads_per_core=1, memory_mib=6026)
    assert learn.shapes(nodes, "batch") == [(shape, 3)]
    assert learn.shapes(nodes, "debug") == [(shape, 2)]
    other = nodes.replace("RealMemory=6026", "RealMemory=1024", 1)
    assert [count for _, count in learn.shapes(other, "batch")] == [2, 1]
    assert learn.shapes(nodes, "deb") == []


ANSWERS = {
    "scontrol --oneliner show partition": read("partitions.txt"),
    "scontrol --oneliner show node": read("nodes.txt"),
    "scontrol show config": read("config.txt"),
    "srun --mpi=list": read("mpi_list.txt"),
    "sacctmgr --noheader --parsable2 show user me format=defaultaccount": "bench\n",
    "sacctmgr --noheader --parsable2 show assoc user=me format=account": "physics\nbench\n",
    "/lmod bash --terse --default avail": "",
    "tclsh /modulecmd.tcl bash --terse --default avail": "gcc/12\n",
}


def test_slurm_and_modules_are_asked_without_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = dict(ANSWERS)

    def ask(command: Sequence[str], *_: object) -> ProgramAnswer:
        text = answers.get(" ".join(command))
        known = text is not None
        return ProgramAnswer(command[0], 1 - known, text or "", "" if known else "no answer")

    monkeypatch.setattr(learn, "ask", ask)
    monkeypatch.setattr(learn, "user_name", lambda _: "me")
    monkeypatch.delenv("LMOD_CMD", raising=False)
    monkeypatch.delenv("MODULES_CMD", raising=False)
    facts = learn.learn()
    assert [each.name for each in facts.partitions] == ["batch", "debug"]
    assert facts.shapes["debug"][0][1] == 2
    assert facts.settings["ClusterName"] == "minicluster"
    assert facts.accounts == {"physics": False, "bench": True}
    assert "pmi2" in facts.mpi
    assert (facts.modules_system, facts.modules) == ("nomod", [])
    monkeypatch.setenv("MODULES_CMD", "/modulecmd.tcl")
    facts = learn.learn()
    assert (facts.modules_system, facts.modules) == ("tmod4", ["gcc/12"])
    monkeypatch.setenv("LMOD_CMD", "/lmod")
    monkeypatch.setattr("os.access", lambda *_: True)
    assert learn.learn().modules_system == "lmod"
    del answers["sacctmgr --noheader --parsable2 show assoc user=me format=account"]
    assert learn.learn().accounts == {}
    answers["scontrol --oneliner show partition"] = "PartitionName=a State=DOWN TotalNodes=1\n"
    with pytest.raises(MachineError, match="no partition that is up and has nodes"):
        learn.learn()
    del answers["scontrol --oneliner show partition"]
    with pytest.raises(MachineError, match=r"no answer; without Slurm, copy configs/localhost\.py"):
        learn.learn()


def test_default_modules() -> None:
    lmod = learn.modules_in((CAPTURES / "modules/lmod_avail.txt").read_text())
    assert lmod == ["gcc/12", "openmpi/5.0.1"]
    other = (CAPTURES / "modules/environment_modules_avail.txt").read_text()
    assert learn.modules_in(other) == ["gcc/12", "openmpi/5.0.1"]
    # Without --default, the default of several versions is marked.
    assert learn.modules_in("dot\ngcc/12(default)\n") == ["gcc/12"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("site", "configs"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(hosts, "ROOT", tmp_path)
    monkeypatch.setattr(hosts, "learn", found)
    monkeypatch.setattr(hosts, "with_nodes", lambda _name, facts, *_: facts)
    return tmp_path


def test_both_files_are_written_and_never_again(root: Path, command: Command) -> None:
    assert "to fill in, if wanted: nic, node_mtti" in command("init", "box")
    site = root / "site" / "box.yaml"
    text = site.read_text()
    assert (root / "configs" / "box.py").exists()
    command("init", "box", code=2)
    assert f"{site}: exists" in command.err
    assert site.read_text() == text


def test_both_files_are_written_or_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """A planted link is neither followed nor replaced."""
    config = root / "configs" / "box.py"

    def meanwhile() -> ClusterFacts:
        config.symlink_to(root / "elsewhere")
        return found()

    monkeypatch.setattr(hosts, "learn", meanwhile)
    command("init", "box", code=3)
    assert command.err == f"nimc: {config}: File exists\n"
    command("init", "box", code=2)
    assert [path.name for path in root.glob("*/*")] == ["box.py"]
    assert not (root / "elsewhere").exists()


@pytest.mark.parametrize(
    "words", ["Box", "../x", "a-b", "9x", "", "a" * 41, "box --no-job --wait=2h"]
)
def test_wrong_names_and_options_write_nothing(root: Path, words: str, command: Command) -> None:
    command("init", *words.split(" "), code=2)
    assert not list(root.glob("*/*"))


def test_without_slurm_one_line_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("PATH", str(root))
    monkeypatch.setattr(hosts, "learn", learn.learn)
    command("init", "box", "--no-job", code=3)
    assert command.err.startswith("nimc: scontrol --oneliner show partition: ")
    assert command.err.count("\n") == 1
