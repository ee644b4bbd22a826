"""`nimc init` writes a site file and a ReFrame configuration from what Slurm and modules print.

The captured outputs are those of Slurm 22.05 and Lmod 8.6.
"""

import re
import runpy
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nimc.cli import init
from nimc.cluster import learn, new_machine
from nimc.cluster.in_job import JobInspection
from nimc.cluster.learn import ClusterFacts
from nimc.cluster.new_machine import (
    config_text,
    host_pattern,
    keys_to_fill_in,
    site_text,
    with_facts_of_nodes,
)
from nimc.cluster.node_inspection import NOT_STARTED_REASON
from nimc.readiness.reframe_config import machine_of_host, settings_of
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.machine import site as machine
from records.machine.host import NumaNode
from records.programs import ProgramAnswer
from records.slurm import client, options, parse, parse_nodes
from records.slurm.parse_nodes import NodeShape, SlurmPartition
from tests.captures import CAPTURES
from tests.messages import assert_message
from tests.nimc.cluster.made import FAST, SLURM, cluster_facts, node

LIMIT = "QOSMaxJobsPerUserLimit"
NO_JOB = JobInspection(job=None, why="no job was submitted")


def loaded(folder: Path, text: str) -> machine.Machine:
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "box.yaml").write_text(text)
    return machine.load("box", folder)


def config(folder: Path, facts: ClusterFacts) -> dict[str, Any]:
    path = folder / "box.py"
    path.write_text(config_text("box", facts))
    configuration: dict[str, Any] = runpy.run_path(str(path))["site_configuration"]
    return configuration


def test_the_site_file_has_the_facts_of_nodes_and_slurm(tmp_path):
    text = site_text(cluster_facts())
    box = loaded(tmp_path, text)
    assert (box.origins.policy, box.origins.partition) == ("hetjob", "batch")
    assert (box.injector, box.device, box.interface) == ("perftest", "mlx5_0", "hsn0")
    assert [(rail.device, rail.numa_node) for rail in box.rails] == [("mlx5_0", 1), ("mlx5_1", 3)]
    assert (box.partition, box.nodes, box.core_spec) == ("batch", 3, False)
    facts = box.facts
    assert (facts.cores, facts.sockets, facts.numa_nodes, facts.nic_node) == (64, 2, [*range(4)], 1)
    # The memory is the smaller of the node's 256 GiB and Slurm's RealMemory, 6026 MiB.
    assert (facts.llc_b, facts.memory_b) == (512 * 2**20, 6026 * 2**20)
    # A comment before every value names its source. Unknown keys are comments.
    lines = text.splitlines()
    for number, line in enumerate(lines):
        assert not re.match(r"[a-z]", line) or lines[number - 1].startswith("# "), line
    assert "# The port of mlx5_0 reports 200Gbit/s." in lines
    assert "# nic: {model: NAME, processing: offload, link_rate: 200Gbit/s}" in lines
    assert keys_to_fill_in(text) == ["nic", "node_mtti"]


def test_origins_use_the_partition_whose_name_is_origins(tmp_path):
    """A minicluster has such a partition. The partition of its targets may have a single node."""
    facts = cluster_facts()
    compute = facts.target
    origin = replace(compute, name="Origins", is_default=False, node_count=1)
    everything = replace(compute, name="all", is_default=False)
    for nodes in (1, 3):
        partitions = [replace(compute, node_count=nodes), everything, origin]
        text = site_text(replace(facts, partitions=partitions))
        box = loaded(tmp_path / str(nodes), text)
        assert (box.partition, box.origins.policy, box.origins.partition) == (
            compute.name, "hetjob", "Origins"
        )  # fmt: skip
        assert box.nodes == nodes + 1  # all nodes of targets, and one of the origins
    assert "# scontrol show partition: Origins is named after them" in text.splitlines()
    refused = replace(facts, partitions=partitions, hetjob_refusal="no hetjobs")
    assert (refused.origins.policy, refused.job_nodes) == (
        "same_job",
        (3, f"all of {compute.name}"),
    )


@pytest.mark.parametrize(
    ("answers", "tried", "policy", "sure"),
    [
        ([("7", None)], ["hetjob"], "hetjob", True),
        # The heterogeneous job is refused, and a usual job is accepted.
        ([(None, "no hetjobs"), ("8", None)], ["hetjob", "same_job"], "same_job", True),
        # Any job is refused, which shows nothing about heterogeneous jobs.
        ([(None, "account"), (None, "account")], ["hetjob", "same_job"], "hetjob", False),
        # The heterogeneous job was accepted, but not all nodes answered.
        ([("7", "0 of 2 nodes answered")], ["hetjob"], "hetjob", False),
        # Under a limit of jobs a user, each component of the heterogeneous job counts, so it waits.
        # Then a usual job starts, or waits as well.
        ([("7", "waited", LIMIT), ("8", None)], ["hetjob", "same_job"], "same_job", True),
        ([("7", "waited", LIMIT), ("8", "waited", LIMIT)], ["hetjob", "same_job"], "hetjob", False),
    ],
)
def test_a_job_shows_where_origins_may_be(monkeypatch, tmp_path, answers, tried, policy, sure):
    policies: list[str] = []
    job_waited = LIMIT in answers[0]

    def inspect_job(name: str, *others: Any) -> JobInspection:
        root = others[-1]
        policies.append(machine.load(name, root).origins.policy)
        assert (
            (root / "configs/box.py").read_text().startswith('"""ReFrame\'s configuration for box,')
        )
        job, why, *limit = answers.pop(0)
        nodes = [] if why else [node("n1", FAST), node("n2", FAST)]
        return JobInspection(job=job, why=why, nodes=nodes, limit=next(iter(limit), None))

    monkeypatch.setattr(new_machine, "inspect_nodes", inspect_job)
    facts = with_facts_of_nodes(
        "box", cluster_facts(job_inspection=NO_JOB), tmp_path, 1.0, lambda _: None
    )
    assert (policies, facts.origins.policy) == (tried, policy)
    text = " ".join(site_text(facts).replace("#", "").split())
    assert ("not known whether Slurm accepts such a job" in text) is not sure
    refusal = "Of a heterogeneous one: it was not started: QOSMaxJobsPerUserLimit"
    assert (refusal in text) is (
        policy == "same_job" and facts.job_inspection.job == "8" and job_waited
    )


@pytest.mark.parametrize("name", ['ünï: # "x"\\n', "\U0001f680", "null", "7"])
def test_any_name_of_a_cluster_becomes_a_text_in_the_site_file(tmp_path, name):
    facts = cluster_facts(settings={"ClusterName": name}, job_inspection=NO_JOB)
    assert loaded(tmp_path, site_text(facts)).description == name


def test_commented_keys_are_valid_if_they_are_filled_in_and_uncommented(tmp_path):
    blind = cluster_facts(job_inspection=NO_JOB)
    text = site_text(blind)
    assert keys_to_fill_in(text) == ["device", "interface", "nic", "node_mtti", "facts"]
    text = re.sub(r"^# (nic|node_mtti|facts): (?=[{5])", r"\1: ", text, flags=re.MULTILINE)
    box = loaded(tmp_path, text.replace("numa_nodes: N", "numa_nodes: 2").replace("SIZE", "1GiB"))
    assert (box.facts.cores, box.facts.memory_b, box.facts.llc_b) == (64, 6026 * 2**20, 2**30)
    assert box.nic is not None
    # Slurm may describe no node of the targets' partition.
    assert keys_to_fill_in(site_text(replace(blind, shapes={})))[-1] == "facts"


@pytest.mark.parametrize(
    ("inspected", "values", "comment"),
    [
        # The node with other numbers than most: its 8 cores and 3000 MiB, and its caches.
        ("node9", (8, 3000, 64), "2 of 3 nodes of batch differ from node9"),
        ("node1", (64, 6026, 64), "1 of 3 nodes of batch differ from node1"),
        # Slurm shows no node of this name, or no node was inspected: most nodes are as node1.
        ("other", (64, 6026, 64), "1 of 3 nodes of batch differ from node1"),
        (None, (64, 6026, None), "1 of 3 nodes of batch differ from node1"),
    ],
)
def test_facts_are_those_of_one_node_if_nodes_of_the_partition_differ(inspected, values, comment):
    shape = NodeShape(2, 64, 1, 6026)
    shapes = {"node9": NodeShape(2, 8, 1, 3000), "node1": shape, "node2": shape}
    nodes = [node(inspected, FAST, llc_total_b=64 * 2**20), node("o1", FAST)] if inspected else []
    facts = cluster_facts(shapes=shapes, job_inspection=JobInspection(job="7", nodes=nodes))
    lines = site_text(facts).splitlines()
    assert f"# scontrol show node: {comment}" in lines
    node_facts = yaml.safe_load(lines[-1].removeprefix("# "))["facts"]
    cores, memory_mib, llc_mib = values
    assert (node_facts["cores"], node_facts["memory"]) == (cores, f"{memory_mib}MiB")
    assert node_facts["llc"] == (f"{llc_mib}MiB" if llc_mib else "SIZE")
    equal_nodes = cluster_facts(shapes=dict.fromkeys(shapes, shape))
    assert "differ" not in site_text(equal_nodes)


def test_facts_describe_a_node_as_jobs_see_it(tmp_path):
    less = cluster_facts(shapes={"n1": NodeShape(2, 60, 1, 6026)})
    with_cores = [NumaNode(number, [number], 2**35) for number in range(4)]

    def facts(folder: str, *numa_nodes: NumaNode) -> Any:
        nodes = [node("n1", FAST, numa_nodes=[*numa_nodes]), node("n2", FAST)]
        text = site_text(
            replace(less, job_inspection=JobInspection(job="7", why=None, nodes=nodes))
        )
        return loaded(tmp_path / folder, text).facts

    # A NUMA node with memory but without processors is listed separately. A node without either is
    # left out.
    node_facts = facts("memory", *with_cores, NumaNode(4, [], 2**35), NumaNode(5, [], 0))
    assert node_facts.cores == 60
    assert (node_facts.numa_nodes, node_facts.bindable_nodes()) == ([0, 1, 2, 3], [0, 1, 2, 3, 4])
    assert facts("one", with_cores[0]).numa_nodes == [0]


@pytest.mark.parametrize(("job_threads", "threads"), [(None, 2), (1, 1), (2, 2)])
def test_threads_of_a_core_are_those_that_jobs_get(tmp_path, job_threads, threads):
    """Slurm counts two CPUs a core. By default, jobs may get only one of them."""
    facts = cluster_facts()
    inspection = replace(facts.job_inspection, threads_per_core=job_threads)
    shapes = {"n1": NodeShape(2, 64, 2, 6026)}
    text = site_text(replace(facts, shapes=shapes, job_inspection=inspection))
    assert loaded(tmp_path, text).facts.threads_per_core == threads
    assert ("# scontrol show job 7: jobs get 1 thread of each core" in text) is (job_threads == 1)


def test_the_site_file_has_the_cores_that_jobs_get_by_default(tmp_path):
    """By its documentation, `-S 8` is the default on Frontier, so jobs get 56 of 64 cores."""
    facts = cluster_facts(job_inspection=replace(cluster_facts().job_inspection, core_spec=8))
    settings = {**facts.settings, "AllowSpecResourcesUsage": "Yes"}
    text = site_text(replace(facts, settings=settings))
    box = loaded(tmp_path, text)
    assert (box.facts.cores, box.core_spec) == (56, False)
    assert "# scontrol show job 7: jobs leave 8 cores of a node to the system" in text
    # Slurm keeps two of them from all jobs: its number of cores, 62, leaves them out already.
    shapes = {"n1": NodeShape(2, 62, 1, 6026, system_cores=2)}
    text = site_text(replace(facts, settings=settings, shapes=shapes))
    assert loaded(tmp_path / "kept", text).facts.cores == 56
    assert "Slurm keeps 8 cores of nodes from jobs" in text


@pytest.mark.parametrize(
    ("mpi_types", "command"),
    [
        (["pmi2", "none", "cray_shasta"], "mpi_put MPICC=cc LAUNCHER='srun --mpi=cray_shasta"),
        (["none", "pmi2"], "mpi_put LAUNCHER='srun --mpi=pmi2"),
    ],
)
def test_the_command_that_builds_mpi_put_uses_the_mpi_of_the_site(tmp_path, mpi_types, command):
    """On Slingshot, `mpi_put` is the injector. The wrapper of Cray's compilers is `cc`."""
    fast = [replace(device, transport="Slingshot") for device in FAST]
    inspection = JobInspection(job="7", why=None, nodes=[node("n1", fast), node("n2", fast)])
    text = site_text(cluster_facts(mpi_types=mpi_types, job_inspection=inspection))
    assert loaded(tmp_path, text).injector == "mpi_put"
    assert command in " ".join(text.replace("\n#", " ").split())


def test_the_factor_core_spec_is_not_allowed_if_slurm_keeps_cores_on_any_node(tmp_path):
    """`--core-spec` would replace the number of each node. Two of the three nodes keep no core."""
    facts = cluster_facts()
    settings = {**facts.settings, "AllowSpecResourcesUsage": "Yes"}
    written = []
    for name, kept in (("none", 0), ("one", 2)):
        shapes = dict.fromkeys(("n1", "n2"), NodeShape(2, 64, 1, 6026))
        shapes["n3"] = NodeShape(2, 64 - kept, 1, 6026, system_cores=kept)
        text = site_text(replace(facts, settings=settings, shapes=shapes))
        written.append(loaded(tmp_path / name, text).core_spec)
    assert written == [True, False]


def test_origins_are_in_the_same_job_if_heterogeneous_jobs_are_refused(tmp_path):
    refused = cluster_facts(hetjob_refusal="0: batch takes\nno \x1b[31mheterogeneous jobs")
    assert loaded(tmp_path, site_text(refused)).origins.policy == "same_job"
    assert "\x1b" not in site_text(refused)
    alone = replace(refused, partitions=[replace(refused.partitions[0], node_count=1)])
    on_one = loaded(tmp_path / "alone", site_text(alone))
    assert on_one.origins.policy == "same_host"
    localhost = machine.load("localhost")
    assert on_one.proof == localhost.proof != loaded(tmp_path / "two", site_text(refused)).proof


def test_an_injector_that_a_node_lacks_is_named_in_a_comment(tmp_path):
    injector_faults = {"perftest": "ib_write_bw is missing: install it", "ucx": None, "spin": None}
    nodes = [node("n1", FAST), node("n2", FAST, injector_faults=injector_faults)]
    text = site_text(cluster_facts(job_inspection=JobInspection(job="7", why=None, nodes=nodes)))
    comments = " ".join(text.replace("\n# ", " ").split())
    assert "n2: ib_write_bw is missing: install it" in comments
    assert loaded(tmp_path, text).injector == "perftest"


def test_mpi_put_is_chosen_where_the_device_counts_no_bytes(tmp_path):
    """Without a counter, only the target's memory proves writes (docs/injectors.md).

    On n2, the device counts nothing. The counter of a device that is not used does not matter.
    """
    uncounted = {"mlx5_0": "counters/port_rcv_data: N/A (no PMA)"}
    for name, reasons, injector in (
        ("used", uncounted, "mpi_put"),
        ("other", {"mlx5_bond": "counters/port_rcv_data: missing"}, "perftest"),
    ):
        nodes = [node("n1", FAST), node("n2", FAST, uncounted=reasons)]
        text = site_text(
            cluster_facts(job_inspection=JobInspection(job="7", why=None, nodes=nodes))
        )
        assert loaded(tmp_path / name, text).injector == injector
        comments = " ".join(text.replace("\n# ", " ").split())
        reason = "mlx5_0 (n2: counters/port_rcv_data: N/A (no PMA)), so only mpi_put"
        assert (reason in comments, "conductor/mpi_put" in text) == (
            (True, True) if injector == "mpi_put" else (False, False)
        )


@pytest.mark.parametrize(("chosen", "mode"), [("", None), ("wice", ["wice"])])
def test_the_accounting_is_asked_for_the_cluster_that_the_user_has_chosen(tmp_path, chosen, mode):
    """`sacct` has only the option `-M` (ReFrame's slurm_multi_cluster_mode), and no variable."""
    clusters = options.clusters({"SLURM_CLUSTERS": chosen})
    (system,) = config(tmp_path, cluster_facts(clusters=clusters))["systems"]
    for partition in system["partitions"]:
        assert partition["sched_options"].get("slurm_multi_cluster_mode") == mode


@pytest.mark.parametrize("chosen", ["all", "genius,wice"])
def test_several_chosen_clusters_are_refused(chosen):
    with pytest.raises(InputError) as error:
        options.clusters({"SLURM_CLUSTERS": chosen})
    assert_message(str(error.value), "SLURM_CLUSTERS", allowed="one cluster")


def test_the_config_has_all_partitions_that_run_jobs(tmp_path):
    (system,) = config(tmp_path, cluster_facts())["systems"]
    first, second = system["partitions"]
    assert (first["name"], first["launcher"], first["time_limit"]) == ("batch", "srun", "4h")
    # Blocks may request nodes that are down for now. By default, ReFrame would cancel such jobs.
    assert first["sched_options"]["ignore_reqnodenotavail"] is True
    assert (system["name"], first["access"]) == ("box", ["--partition=batch"])
    assert (second["access"], second["time_limit"]) == (["--partition=debug", "--exclusive"], "30m")
    text = config_text("box", cluster_facts(accounts=["physics", "bench"]))
    assert '"box"' not in text, "the system's name is that of the file"
    assert "To name an account (sacctmgr: physics, bench): --account=NAME" in text
    assert "#   gcc/12\n        #   openmpi/5.0.1\n" in text
    endless = [replace(partition, limit_s=None) for partition in cluster_facts().partitions]
    assert "jobs of any length" in config_text("box", cluster_facts(partitions=endless))
    # With an interface between Slurm and MPI, srun starts ranks; without one, mpirun does.
    for mpi, variables, launcher in (
        (["pmix", "pmi2"], [[["SLURM_MPI_TYPE", "pmix"]], [["SLURM_MPI_TYPE", "pmi2"]]], "srun"),
        (["pmi2"], [[], [["SLURM_MPI_TYPE", "pmi2"]]], "srun"),
        (["none"], [[], []], "mpirun"),
    ):
        whole = config(tmp_path, cluster_facts(mpi_types=mpi))
        assert [environment["env_vars"] for environment in whole["environments"]] == variables
        assert whole["systems"][0]["partitions"][0]["launcher"] == launcher
    # On one host, MPI must not bind ranks itself, so that they do not use the origin's cores.
    one = [replace(cluster_facts().partitions[0], node_count=1)]
    localhost = runpy.run_path(str(ROOT / "configs/localhost.py"))["site_configuration"]
    _, *unbound = localhost["systems"][0]["partitions"][0]["env_vars"]
    for mpi, variables in ((["none"], unbound), (["pmix"], [])):
        whole = config(tmp_path, cluster_facts(partitions=one, mpi_types=mpi))
        assert whole["systems"][0]["partitions"][0]["env_vars"][1:] == variables
    # Sources are compiled on this host, whose processor may differ from that of the nodes.
    other = config_text("box", cluster_facts(processor="Other-1-1-1"))
    assert ("-march=" in text, "-march=" in other, "Example 9000" in other) == (False, True, True)
    target = "require a target in spack_envs/machines/box.yaml"
    assert (target in text, target in other) == (False, True)
    # Open MPI 5, which Spack builds, starts singletons over PMI2 (open-mpi/ompi#13523).
    for mpi, is_named in ((["pmi2"], True), (["pmix", "pmi2"], False), (["none"], False)):
        written = config_text("box", cluster_facts(mpi_types=mpi))
        assert ("# srun has no pmix (srun --mpi=list)" in written) == is_named


def test_partitions_whose_names_reframe_refuses_get_others_and_keep_their_options(tmp_path):
    batch = cluster_facts().partitions[0]
    names = ["2h", "gpu.q", "gpu_q", "p_2h"]
    facts = cluster_facts(partitions=[replace(batch, name=name) for name in names])
    (tmp_path / "box.py").write_text(config_text("box", facts))
    settings = settings_of(tmp_path / "box.py")
    assert settings.fault is None
    assert [partition["name"] for partition in settings.partitions] == [
        "p_2h", "gpu_q", "gpu_q_", "p_2h_"
    ]  # fmt: skip
    assert [partition["access"] for partition in settings.partitions] == [
        [f"--partition={name}"] for name in names
    ]
    assert "\npartition: p_2h\n" in site_text(facts)


@pytest.mark.parametrize(
    ("host", "matches", "other"),
    [("login12.example", "login3", "logins"), ("a-b.c", "a-b", "a-bc"), ("vm", "vm.local", "vm2")],
)
def test_the_pattern_of_a_host_name_matches_similar_hosts_of_the_machine(host, matches, other):
    pattern = host_pattern(host)
    assert [machine_of_host({"box": [pattern]}, name) for name in (host, matches, other)] == [
        "box",
        "box",
        "localhost",
    ]
    assert (
        machine_of_host({"box": [host_pattern(socket.gethostname())]}, socket.gethostname())
        == "box"
    )


def read(name: str) -> str:
    return (SLURM / name).read_text()


def test_partitions_settings_and_shapes_of_nodes_are_read_from_slurms_output():
    assert parse_nodes.partitions(read("partitions.txt")) == [
        SlurmPartition(
            name="batch", is_default=True, limit_s=86400, gives_whole_nodes=True, node_count=3
        ),
        SlurmPartition(
            name="debug", is_default=False, limit_s=1800, gives_whole_nodes=False, node_count=2
        ),
    ]
    settings = parse.settings(read("config.txt"))
    assert (settings["AllowSpecResourcesUsage"], settings["ClusterName"]) == ("No", "minicluster")
    assert parse.mpi_types(read("mpi_list.txt")) == ["pmix", "none", "cray_shasta", "pmi2"]
    assert (parse_nodes.time_limit_s("2-01:02:03"), parse_nodes.time_limit_s("UNLIMITED")) == (
        176523,
        None,
    )
    # The default partition comes first. Partitions that run no jobs are left out.
    rows = [
        "a Default=NO State=UP TotalNodes=1",
        "b Default=NO State=DRAIN TotalNodes=1",
        "c Default=YES State=UP TotalNodes=1",
        "d State=UP TotalNodes=0",
        "$(reboot) State=UP TotalNodes=1",
    ]
    text = "".join(f"PartitionName={row}\n" for row in rows)
    assert [partition.name for partition in parse_nodes.partitions(text)] == ["c", "a"]
    # There are three nodes with two sockets of one core each. Two of them are in debug. Slurm
    # prints RealMemory=1 if slurm.conf has no value.
    nodes, shape = read("nodes.txt"), NodeShape(2, 2, 1, memory_mib=6026)
    batch = parse_nodes.partitions(read("partitions.txt"))[0]
    equal_shapes = {"node1": shape, "node2": shape, "node3": shape}
    assert parse_nodes.shapes(nodes, batch) == equal_shapes
    in_debug = parse_nodes.shapes(nodes, replace(batch, name="debug"))
    assert in_debug == {"node1": shape, "node2": shape}
    other = parse_nodes.shapes(nodes.replace("RealMemory=6026", "RealMemory=1", 1), batch)
    assert other == {**equal_shapes, "node1": replace(shape, memory_mib=None)}
    assert parse_nodes.shapes(nodes, replace(batch, name="deb")) == {}


def test_modules_for_environments_are_read_from_both_module_systems():
    for name in ("lmod_avail", "environment_modules_avail"):
        text = (CAPTURES / "modules" / f"{name}.txt").read_text()
        assert learn.modules_in(text) == ["gcc/12", "openmpi/5.0.1"]
    # Without --default, the default version is marked.
    assert learn.modules_in("dot\ngcc/12(default)\n") == ["gcc/12"]


#: Without `cluster=`, sacctmgr shows accounts on all clusters of the database, whatever
#: SLURM_CLUSTERS is.
ASSOCIATIONS = (
    "sacctmgr --noheader --parsable2 show assoc user=me cluster=minicluster format=account"
)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Returns what commands print on a cluster; other commands do not answer."""
    answers = {
        "scontrol --oneliner show partition": read("partitions.txt"),
        "scontrol --all --oneliner show node": read("nodes.txt"),
        "scontrol --oneliner show config": read("config.txt"),
        "srun --mpi=list": read("mpi_list.txt"),
        ASSOCIATIONS: "physics\nbench\n",
        "/lmod bash --terse --default avail": "",
        "tclsh /modulecmd.tcl bash --terse --default avail": "gcc/12\n",
    }

    def ask(command: Sequence[str], *_: object) -> ProgramAnswer:
        text = answers.get(" ".join(command))
        status, errors = (1, "no answer") if text is None else (0, "")
        return ProgramAnswer(command[0], status, text or "", errors)

    for module in (learn, client):
        monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(client, "command_fault", lambda _: "")
    monkeypatch.setattr(learn, "user_name", lambda _: "me")
    monkeypatch.delenv("LMOD_CMD", raising=False)
    monkeypatch.delenv("MODULES_CMD", raising=False)
    return answers


def test_a_hidden_partition_is_found_if_the_user_names_it(answers, monkeypatch):
    """To users, Slurm 22.05.8 shows it only with `--all`, also in the lines of nodes."""
    batch, debug = read("partitions.txt").splitlines()
    answers["scontrol --oneliner show partition"] = batch
    hidden = debug.replace("Hidden=NO", "Hidden=YES")
    assert hidden != debug
    answers["scontrol --all --oneliner show partition debug"] = hidden
    assert [partition.name for partition in learn.facts_of_cluster().partitions] == ["batch"]
    monkeypatch.setenv("SBATCH_PARTITION", "debug")
    facts = learn.facts_of_cluster()
    assert [partition.name for partition in facts.partitions] == ["debug", "batch"]
    assert [*facts.shapes] == ["node1", "node2"]
    monkeypatch.setenv("SBATCH_PARTITION", "none,batch")
    with pytest.raises(InputError, match=r"SBATCH_PARTITION: 'none' found; allowed: batch$"):
        learn.facts_of_cluster()


def test_a_named_partition_that_is_closed_is_refused_with_the_reason(answers, monkeypatch):
    batch, debug = read("partitions.txt").splitlines()
    answers["scontrol --oneliner show partition"] = f"{batch}\n{debug.replace('=UP', '=DOWN')}"
    monkeypatch.setenv("SBATCH_PARTITION", "debug")
    message = r"^SBATCH_PARTITION: debug runs no jobs of yours \(State=DOWN\); allowed: batch$"
    with pytest.raises(MachineError, match=message):
        learn.facts_of_cluster()


def test_slurm_and_modules_are_asked_without_a_job(answers, monkeypatch):
    facts = learn.facts_of_cluster()
    assert [partition.name for partition in facts.partitions] == ["batch", "debug"]
    shape = NodeShape(2, 2, 1, 6026)
    assert facts.shapes == {"node1": shape, "node2": shape, "node3": shape}
    assert (facts.accounts, "pmi2" in facts.mpi_types) == (["physics", "bench"], True)
    assert (facts.modules_system, facts.modules) == ("nomod", [])
    assert (facts.scheduler, facts.origins.policy) == ("slurm", "hetjob")
    # These are the values without accounting, before Slurm 23.11 and since then.
    for storage in ("accounting_storage/none", "(null)"):
        config = read("config.txt").replace("accounting_storage/slurmdbd", storage)
        answers["scontrol --oneliner show config"] = config
        facts = learn.facts_of_cluster()
        assert (facts.scheduler, facts.origins.policy) == ("squeue", "same_job")
        assert '"scheduler": "squeue",' in config_text("box", facts)
    answers["scontrol --oneliner show config"] = read("config.txt")
    monkeypatch.setenv("MODULES_CMD", "/modulecmd.tcl")
    facts = learn.facts_of_cluster()
    assert (facts.modules_system, facts.modules) == ("tmod4", ["gcc/12"])
    monkeypatch.setenv("LMOD_CMD", "/lmod")
    monkeypatch.setattr("os.access", lambda *_: True)
    del answers[ASSOCIATIONS]
    facts = learn.facts_of_cluster()
    assert (facts.modules_system, facts.accounts) == ("lmod", [])
    del answers["scontrol --all --oneliner show node"]
    with pytest.raises(MachineError, match=r"show node: no answer$"):
        learn.facts_of_cluster()
    # If nodes are private data, slurmctld refuses to show them to users (PRIVATE_DATA_NODES in its
    # proc_req.c).
    answers["scontrol --oneliner show config"] += "PrivateData = events,nodes,usage\n"
    facts = learn.facts_of_cluster()
    assert facts.shapes == {}
    assert "# facts: see site/example_slurm.yaml" in site_text(facts)
    rows = ("a State=DOWN TotalNodes=1", "b State=UP RootOnly=YES TotalNodes=9", "c State=UP")
    shown = "".join(f"PartitionName={row}\n" for row in rows)
    for text, reason in ((shown, "a has State=DOWN; b has RootOnly=YES$"), ("", "none has nodes$")):
        answers["scontrol --oneliner show partition"] = text
        with pytest.raises(MachineError, match=reason):
            learn.facts_of_cluster()
    answers.clear()
    with pytest.raises(MachineError, match=r"no answer; without Slurm, copy configs/localhost\.py"):
        learn.facts_of_cluster()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("site", "configs"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(init, "ROOT", tmp_path)
    monkeypatch.setattr(init, "facts_of_cluster", cluster_facts)
    monkeypatch.setattr(init, "with_facts_of_nodes", lambda _name, facts, *_: facts)
    return tmp_path


#: What `init` says if Slurm shows no node of the targets.
NO_FACTS = "Slurm shows you no node of batch .* fill in facts as in site/example_slurm.yaml, with"


def test_both_files_are_written_and_never_overwritten(root, command, monkeypatch):
    monkeypatch.setenv("PATH", str(root))
    output = command("init", "box")
    assert "optional keys that are empty: nic, node_mtti" in output
    (missing,) = re.findall(r"box is not ready: (.*) read both", " ".join(output.split()))
    assert "slurm" in missing.split(", ")
    assert not re.search(NO_FACTS, " ".join(output.split()))
    site = root / "site" / "box.yaml"
    text = site.read_text()
    assert (root / "configs" / "box.py").exists()
    assert f"{site}: exists" in command.refused("init", "box")
    assert site.read_text() == text


def test_init_says_that_facts_are_missing_if_slurm_shows_no_node(root, command, monkeypatch):
    """The nodes of the job are known, but not which part of them jobs may use."""
    monkeypatch.setattr(init, "facts_of_cluster", lambda: cluster_facts(shapes={}))
    (line,) = re.findall(NO_FACTS, " ".join(command("init", "private").split()))
    assert "site/private.yaml has no facts of a node, and those of this host are used" in line
    assert "\nfacts:" not in (root / "site" / "private.yaml").read_text()


@pytest.mark.parametrize(("answered", "begin"), [(0, "No node"), (1, "Not all nodes")])
def test_init_ends_with_3_if_nodes_did_not_answer(root, command, monkeypatch, answered, begin):
    """The files are written, but the command is incomplete, since a job did not run everywhere."""
    why = f"{answered} of 2 nodes answered; job 7: {NOT_STARTED_REASON} after 5 s"
    job_inspection = JobInspection(job="7", why=why, nodes=cluster_facts().nodes[:answered])
    monkeypatch.setattr(
        init, "facts_of_cluster", lambda: cluster_facts(job_inspection=job_inspection)
    )
    output = " ".join(command("init", "box", code=3).split())
    assert f"{begin} answered. Unknown are their interface, " in output
    assert "What to do: try later, or with a longer --wait" in output
    assert output.endswith("nimc init box")
    assert "doctor" not in output
    assert (root / "site" / "box.yaml").exists()


@pytest.mark.parametrize("file", ["configs/box.py", "site/box.yaml"])
def test_a_planted_link_is_neither_followed_nor_replaced(root, monkeypatch, command, file):
    """The other file is not left behind by itself either."""
    planted = root / file

    def meanwhile() -> ClusterFacts:
        planted.symlink_to(root / "elsewhere")
        return cluster_facts()

    monkeypatch.setattr(init, "facts_of_cluster", meanwhile)
    assert command.refused("init", "box", code=3) == f"{planted}: File exists"
    command("init", "box", code=2)
    assert list(root.glob("*/*")) == [planted]
    assert not (root / "elsewhere").exists()


@pytest.mark.parametrize(
    "words", ["Box", "../x", "a-b", "9x", "", "a" * 41, "box --no-job --wait=2h"]
)
def test_wrong_names_and_options_write_nothing(root, words, command):
    command("init", *words.split(" "), code=2)
    assert not list(root.glob("*/*"))


def test_without_slurm_one_line_says_so(root, monkeypatch, command):
    monkeypatch.setenv("PATH", str(root))
    monkeypatch.setattr(init, "facts_of_cluster", learn.facts_of_cluster)
    line = command.refused("init", "box", "--no-job", code=3)
    assert line.startswith("no sbatch, srun, scontrol, sacct on PATH; ")
