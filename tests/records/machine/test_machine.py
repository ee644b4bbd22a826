import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from records import checkout
from records.acceptance import AcceptanceLimits
from records.block_plan import ShortWrites
from records.errors import InputError
from records.machine import site
from tests.conductor.sysfs import big_host

EXAMPLE = checkout.ROOT / "site" / "example_slurm.yaml"

TEXT = """
name: box
description: two nodes
origins: {policy: hetjob, partition: origin}
injector: perftest
node_mtti: 10y
nic: {model: QDR, processing: onload, link_rate: 32Gbit/s}
facts: {cores: 16, sockets: 2, numa_nodes: 2, llc: 40MiB, memory: 64GiB}
"""


def _write(tmp_path, text):
    (tmp_path / "site").mkdir(exist_ok=True)
    (tmp_path / "site" / "box.yaml").write_text(text)
    return tmp_path


def test_quantities_and_nodes(tmp_path):
    box = site.load("box", _write(tmp_path, TEXT))
    assert box.nic.link_rate_b_s == 4e9
    assert box.facts.llc_b == 40 * 1024 * 1024
    assert box.node_mtti_s == 10 * 365.25 * 86400
    assert [box.known_numa_node(number, "comm_node") for number in (-1, 0, 1)] == [None, 0, 1]
    with pytest.raises(InputError, match=r"comm_node: 2 found; allowed: -1 .* of box: 0, 1$"):
        box.known_numa_node(2, "comm_node")


def test_an_included_file_replaces_keys_and_is_refused_if_others_can_write_it(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("BOX", str(tmp_path / "box"))
    root = _write(tmp_path, TEXT + "include: $BOX/more.yaml\n")
    (tmp_path / "box").mkdir(mode=0o755)
    assert site.load("box", root).injector == "perftest"
    more = tmp_path / "box" / "more.yaml"
    more.write_text("injector: ucx\n")
    assert site.load("box", root).injector == "ucx"
    more.write_text("injector: ucx\nnodes: x\n")
    fault = r"more\.yaml:2: nodes: 'x' found; allowed: a whole number"
    with pytest.raises(InputError, match=fault):
        site.load("box", root)
    more.chmod(0o666)
    with pytest.raises(InputError, match=r"include: .*more.yaml can be written by others"):
        site.load("box", root)
    more.chmod(0o644)
    (tmp_path / "box").chmod(0o777)
    with pytest.raises(InputError, match=r"include: .*box can be written by others"):
        site.load("box", root)


@pytest.mark.parametrize(
    ("old", "changed", "message_start"),
    [
        ("injector: perftest", "injector: magic", ":5: injector: 'magic' found; allowed:"),
        ("policy: hetjob", "policy: none", ":4: origins.policy: 'none' found; allowed:"),
        ("name: box", "nam: box", ":2: nam: unknown key, did you mean 'name'?; allowed: name, "),
        ("name: box", "name: sun", ":2: name: 'sun' found; allowed: the file's name, 'box'"),
        ("memory: 64GiB", "memory: 64G", ":8: facts.memory: '64G' "),
        ("cores: 16,", "", ":8: facts.cores: missing"),
        # The key that is missing has another name.
        ("cores: 16", "core: 16", ":8: facts.core: unknown key, did you mean 'cores'?; allowed: "),
        (
            "injector: perftest",
            "injektor: ucx",
            ":5: injektor: unknown key, did you mean 'injector'?",
        ),
        ("node_mtti: 10y", "rails: [{device: a, socket: 1}]", ":6: rails.0.socket: unknown key; "),
        ("cores: 16", "cores: 010", ":8: facts.cores: '010' found; allowed: a whole number"),
        ("cores: 16", "cores: 0", ":8: facts.cores: 0 found; allowed: greater than or equal to 1"),
        ("cores: 16", "cores: 16, cores: 17", ":8: duplicate key 'cores', first in line 8"),
        ("node_mtti: 10y", "memory_share: 1e999", ":6: memory_share: inf found; allowed: "),
        ("partition: origin", 'partition: "o\\n#SBATCH"', ":4: origins.partition: 'o\\n#SBATCH' "),
        (
            "node_mtti: 10y",
            "programs: {cns: bin/x}",
            ":6: programs.cns: 'bin/x' found; allowed: an",
        ),
        (TEXT, "- a list", ":1: a list found; allowed: a mapping of keys"),
        *(
            ("node_mtti: 10y", f"rails: [{rails}]\ndevice: {device}", f":6: rails: {fault}; allow")
            for rails, device, fault in (
                ("{device: a}", "~", "a found, and device nothing"),
                ("{device: a}, {device: b}", "c", "a, b found, and device 'c'"),
                ("{device: a}, {device: a}", "a", "a, a found, and device 'a'"),
            )
        ),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path, old, changed, message_start):
    root = _write(tmp_path, TEXT.replace(old, changed))
    with pytest.raises(InputError) as error:
        site.load("box", root)
    assert str(error.value).startswith(f"{tmp_path}/site/box.yaml{message_start}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["sun", "../site/box", "..", "", "box.yaml", "a\0b"])
def test_an_unknown_machine_or_a_path_is_refused_with_the_known_machines(tmp_path, name):
    with pytest.raises(InputError, match=r"known machines: box"):
        site.load(name, _write(tmp_path, TEXT))


def test_one_of_several_rails_is_the_device(tmp_path):
    rails = "device: b\nrails: [{device: a}, {device: b, numa_node: 1}]\n"
    box = site.load("box", _write(tmp_path, f"{TEXT}{rails}partition: fat\n"))
    assert [(rail.device, rail.numa_node) for rail in box.rails] == [("a", None), ("b", 1)]
    assert (box.system, box.with_origins(3).origins.nodes) == ("box:fat", 3)
    assert site.load("box", _write(tmp_path, TEXT)).system == "box"


@pytest.mark.parametrize(
    ("policy", "llc", "requested", "message_b"),
    [
        # Messages that reach memory have twice the size of the last-level caches, at least 64 MiB.
        ("same_host", "40MiB", "auto", 80 * 2**20),
        ("hetjob", "40MiB", "dram", 80 * 2**20),
        ("hetjob", "31MiB", "dram", 64 * 2**20),
        ("hetjob", "40MiB", "auto", 65536),
        ("same_host", "40MiB", "1MB", 10**6),
    ],
)
def test_messages_that_reach_memory(tmp_path, policy, llc, requested, message_b):
    text = TEXT.replace("{policy: hetjob, partition: origin}", f"{{policy: {policy}}}")
    box = site.load("box", _write(tmp_path, text.replace("40MiB", llc)))
    assert box.message_b(requested) == message_b


def test_a_size_that_the_site_file_leaves_open_is_not_blamed_on_the_kernel(tmp_path):
    box = site.load("box", _write(tmp_path, TEXT.replace("llc: 40MiB", "llc: null")))
    with pytest.raises(InputError, match=r"last-level caches is unknown; allowed: .*llc: SIZE"):
        box.message_b("dram")


def test_the_numa_node_of_the_network_interface(tmp_path, monkeypatch):
    def box(numa, **changes):
        text = TEXT.replace("numa_nodes: 2", numa)
        return site.load("box", _write(tmp_path, text)).model_copy(update=changes)

    assert box("numa_nodes: 2, nic_node: 1").nic_node() == 1
    assert box("numa_nodes: 1").nic_node() == 0
    with pytest.raises(InputError, match=r"site/box\.yaml: facts\.nic_node: .* one of 0, 1, 2$"):
        box("numa_nodes: 3").nic_node()
    # On a host that is both origin and target, it is the NUMA node of the device (`big_host`). If
    # the device is unknown, it is that of the origin, which runs on the last cores.
    big = site.host.detect(big_host(tmp_path))
    monkeypatch.setattr(site.host, "detect", lambda: replace(big, usable_cores=[0, 1, 4, 7]))
    shared = {"facts": None, "origins": site.Origins(policy="same_host", cores=2)}
    nodes = [box("numa_nodes: 2", **shared, device=name).nic_node() for name in ("mlx5_0", "x")]
    assert nodes == [2, 2]  # cores 4 and 5 belong to node 2
    shared["origins"] = site.Origins(policy="same_host")
    assert box("numa_nodes: 2", **shared, device="x").nic_node() == 3
    with pytest.raises(InputError, match="is unknown"):
        box("numa_nodes: 2", facts=None, device="x").nic_node()


def local_with_cores(monkeypatch, usable_cores, **origins):
    """Return the machine file of this host, whose usable cores are replaced by these."""
    monkeypatch.setattr(site.host, "detect", lambda: SimpleNamespace(usable_cores=usable_cores))
    return site.load("localhost").model_copy(update={"origins": site.Origins(**origins)})


def test_cores_are_split_between_application_and_origin(monkeypatch):
    one = local_with_cores(monkeypatch, [0, 2, 4], policy="same_host")
    assert (one.split_cores(), one.split_cores(0)) == (([0, 2], [4]), ([0, 2, 4], [4]))
    two = local_with_cores(monkeypatch, [0, 2, 4], policy="same_host", cores=2)
    assert (two.split_cores(), two.split_cores(1)) == (([0], [2, 4]), ([0, 2], [2, 4]))
    apart = local_with_cores(monkeypatch, [0, 2, 4], policy="hetjob")
    assert (apart.split_cores(), apart.usable_cores()) == (([], []), [])


def test_one_core_cannot_be_split(monkeypatch):
    one = local_with_cores(monkeypatch, [3], policy="same_host")
    for reserved in (None, 1):
        with pytest.raises(
            InputError,
            match=r"cores \(1\); allowed: more than the 1 reserved, and at least the 1 of",
        ):
            one.split_cores(reserved)
    two = local_with_cores(monkeypatch, [3], policy="same_host", cores=2)
    with pytest.raises(
        InputError, match=r"cores \(1\); allowed: more than the 0 reserved, and at least the 2 of"
    ):
        two.split_cores(0)  # the origin needs two cores, but there is only one


def test_default_limits_are_the_same_in_a_machine_file_and_in_a_block(tmp_path):
    """The limits are shares, seconds and row intervals. `site/example_slurm.yaml` has them too."""
    shares = {"min_share": 0.5, "max_share": 1.25, "counter_share": 0.2, "late_rows": 2}
    times = {"silent_s": 0.5, "pause_s": 1}
    for record in (site.ProofLimits(), AcceptanceLimits()):
        for name, value in {**shares, **times, "rail_share": 0.02}.items():
            assert getattr(record, name) == value, name
    proof, short = site.ProofLimits(), ShortWrites()
    assert (proof.write_tolerance_s, short.tolerance_s) == (0.2, 0.2)
    assert (proof.write_share, short.allowed_share) == (0.1, 0.1)
    # In the example, keys in comments are made real keys.
    text = re.sub(r"^( *)# ( *\w+:( |$))", r"\1\2", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert "\nproof:\n  min_share: 0.5 " in text
    box = site.load("box", _write(tmp_path, text))
    assert box.proof == proof
    assert box.programs == {"lmp": "/opt/lammps/bin/lmp"}
