import subprocess

import pytest

from analysis import checkout
from analysis.errors import InputError
from injection.machine import machine
from injection.plan import Demand, ShortWrites
from tests.injection.sysfs import big_host, write

DOC = checkout.ROOT / "docs" / "add-a-machine.md"

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


def test_quantities_are_read_into_si(tmp_path):
    box = machine.load("box", _write(tmp_path, TEXT))
    assert box.nic.link_rate_b_s == 4e9
    assert box.facts.llc_b == 40 * 1024 * 1024
    assert box.node_mtti_s == 10 * 365.25 * 86400


def test_an_included_file_takes_the_place_of_keys_where_it_exists(tmp_path, monkeypatch):
    monkeypatch.setenv("BOX", str(tmp_path))
    root = _write(tmp_path, TEXT + "include: $BOX/more.yaml\n")
    assert machine.load("box", root).injector == "perftest"
    (tmp_path / "more.yaml").write_text("injector: ucx\n")
    assert machine.load("box", root).injector == "ucx"


def test_an_included_file_that_others_could_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BOX", str(tmp_path / "box"))
    root = _write(tmp_path, TEXT + "include: $BOX/more.yaml\n")
    (tmp_path / "box").mkdir(mode=0o755)
    more = tmp_path / "box" / "more.yaml"
    more.write_text("injector: perftest\n")
    more.chmod(0o666)
    with pytest.raises(InputError, match=r"include: .*more.yaml can be written by others"):
        machine.load("box", root)
    more.chmod(0o644)
    (tmp_path / "box").chmod(0o777)
    with pytest.raises(InputError, match=r"include: .*box can be written by others"):
        machine.load("box", root)


@pytest.mark.parametrize(
    ("found", "changed", "named"),
    [
        ("injector: perftest", "injector: magic", "injector: Input should be 'perftest' or 'ucx'"),
        ("policy: hetjob", "policy: none", "origins.policy: Input should be"),
        ("name: box", "nam: box", "name: Field required"),
        ("memory: 64GiB", "memory: 64G", "64G"),
        ("node_mtti", "mtti", "mtti: Extra inputs are not permitted"),
        (TEXT, "- a list", "allowed: a mapping of keys to values"),
        (TEXT, "name: [", "while parsing"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path, found, changed, named):
    with pytest.raises(InputError, match=r"box\.yaml") as error:
        machine.load("box", _write(tmp_path, TEXT.replace(found, changed)))
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_machine_is_reported_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"'sun'.*known machines: box"):
        machine.load("sun", _write(tmp_path, TEXT))


def test_cores_are_split_disjoint_on_one_host(monkeypatch):
    monkeypatch.setattr(machine.host, "detect", lambda: type("H", (), {"usable_cores": [0, 2, 4]}))
    local = machine.load("localhost")
    assert local.split_cpus() == ([0, 2], [4])


def test_hardware_threads_are_no_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.host.os, "sched_getaffinity", lambda _: set(range(16)))
    big = machine.host.detect(big_host(tmp_path))
    monkeypatch.setattr(machine.host, "detect", lambda: big)
    facts = machine.load("localhost").node_facts()
    assert (facts.cores, facts.threads_per_core) == (8, 2)
    # Second threads 8 to 15 stay idle: on core 7 one of them would take from the origin.
    assert machine.load("localhost").split_cpus() == ([0, 1, 2, 3, 4, 5, 6], [7])


def test_numa_nodes_of_memory_alone_do_not_count(tmp_path, monkeypatch):
    # As of a GPU or of CXL: node 4 has 16 GiB and no core.
    node = "sys/devices/system/node/node4"
    here = write(big_host(tmp_path), {f"{node}/cpulist": "", f"{node}/meminfo": ""})
    big = machine.host.detect(here)
    assert [each.number for each in big.numa_nodes] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(machine.host, "detect", lambda: big)
    assert machine.load("localhost").node_facts().numa_nodes == 4


def test_a_host_of_one_core_is_refused(monkeypatch):
    monkeypatch.setattr(machine.host, "detect", lambda: type("H", (), {"usable_cores": [3]}))
    with pytest.raises(InputError, match=r"1 of 1 usable cores leave none"):
        machine.load("localhost").split_cpus()


def test_only_numa_nodes_of_the_machine_are_taken(tmp_path):
    box = machine.load("box", _write(tmp_path, TEXT))
    assert [box.numa_node(number, "comm_node") for number in (-1, 0, 1)] == [None, 0, 1]
    with pytest.raises(InputError, match=r"comm_node: 2 found; allowed are -1 .* of box: 0, 1$"):
        box.numa_node(2, "comm_node")


def test_what_docs_say_of_proof_holds_for_a_machine_and_for_a_block():
    """`docs/add-a-machine.md`: 0.2, 3, 0.2s and 0.1."""
    proof, short = machine.Proof(), ShortWrites()
    assert (proof.counter_share, proof.late_rows) == (0.2, 3)
    assert (proof.write_tolerance_s, proof.write_share) == (0.2, 0.1)
    assert (Demand().counter_share, Demand().late_rows) == (0.2, 3)
    assert (short.tolerance_s, short.allowed_share) == (0.2, 0.1)
    (row,) = (line for line in DOC.read_text().splitlines() if line.startswith("| `proof` |"))
    assert row.endswith("| 0.2, 3, 0.2s, 0.1 |")


def test_the_commit_tells_whether_the_checkout_was_changed(tmp_path):
    def git(*words):
        who = ["-c", "user.name=x", "-c", "user.email=x@x"]
        return subprocess.check_output(["git", "-C", str(tmp_path), *who, *words], text=True)

    assert checkout.commit(tmp_path) is None
    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    head = git("log", "--format=%H").strip()
    assert checkout.commit(tmp_path) == head
    (tmp_path / "file").write_text("2")
    assert checkout.commit(tmp_path) == f"{head}+"
