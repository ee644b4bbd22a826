"""Two soft-RoCE devices per node: each policy's bytes pass the devices it names, and no other."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nimc.minicluster.real import ENV, Cluster, cluster_or_skip
from tests.reframe_tests.command import reframe, samples_of

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
#: Two targets, so two writers at a time. Both rails are on the only NUMA node.
TWO_RAILS = ("--fabric", "rxe", "--nodes", "3", "--origins", "1", "--rails", "2")
#: Treatment -> the devices that its bytes must pass. Without a policy MPI takes the interface that
#: the site's task prolog names.
WRITERS = {
    "on": {"rxe0", "rxe1"},
    "on@writer_rail=nic0": {"rxe0"},
    "on@writer_rail=nic1": {"rxe1"},
    "on@writer_rail=local": {"rxe0", "rxe1"},
}
MESSAGES = {
    "off": {"rxe0"},
    "off@mpi_rail=nic0": {"rxe0"},
    "off@mpi_rail=nic1": {"rxe1"},
    "off@mpi_rail=local": {"rxe0", "rxe1"},
}
#: What each run moves at least: messages of 24 MiB in both directions, counted at both ends.
MESSAGES_B = 4 * 24 * 2**20


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield from cluster_or_skip("rxe")


def samples(cluster: Cluster, check: str, **settings: object) -> dict[str, dict]:
    folder = cluster.state / "run" / check
    state = {**ENV, "NIMC_MINICLUSTER": str(cluster.state)}
    probe, given = HERE / "rail_probe.py", {"nimc_dir": folder, **settings}
    folder.mkdir(parents=True)
    words = ("minicluster", probe, "-r")
    done = reframe(folder, *words, name=check, settings=given, timeout_s=400, **state)
    assert (folder / "samples").exists(), done.stdout
    return {sample["arm"]: sample for sample in samples_of(folder, check)}


def passed_b(sample: dict) -> dict[str, int]:
    """Device -> bytes, over all target nodes and both directions."""
    found: dict[str, int] = {}
    for node in sample["conditions"]:
        for each in node["devices"]:
            bytes_b = each["received_b"] + each["sent_b"]
            found[each["device"]] = found.get(each["device"], 0) + bytes_b
    return found


def check(found: dict[str, dict], expected: dict[str, set[str]]) -> None:
    for name, devices in expected.items():
        sample = found[name]
        seen = passed_b(sample)
        print(name, sample["outcome"], seen)
        # On a busy host an emulated writer may report nothing for seconds, which rejects its run.
        assert sample["outcome"] in ("kept", "rejected"), (name, sample["reason"], seen)
        assert "the policy names" not in (sample["reason"] or ""), sample["reason"]
        all_b = sum(seen.values())
        assert {device for device, b in seen.items() if b > 0.02 * all_b} == devices, (name, seen)


@pytest.mark.minicluster
@pytest.mark.long
def test_each_policy_s_bytes_pass_the_devices_it_names_and_no_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    compiler = [str(BIN / "mpicc"), "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(exchange)]
    subprocess.run([*compiler, str(HERE / "exchange.c")], check=True)
    cluster.nimc("up", *TWO_RAILS, timeout_s=300)
    writers = samples(cluster, "rail_writers")
    check(writers, WRITERS)
    program = cluster.state / "run" / "exchange"
    program.write_bytes(exchange.read_bytes())
    program.chmod(0o755)
    messages = samples(cluster, "rail_messages", exchange=program)
    check(messages, MESSAGES)
    assert all(sum(passed_b(messages[name]).values()) > MESSAGES_B for name in MESSAGES)
