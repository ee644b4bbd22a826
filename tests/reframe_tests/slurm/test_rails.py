"""A test of rail policies on a minicluster whose nodes have two rails each.

The bytes of writers and of MPI must pass only the devices that the policy names.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.checkout import ROOT
from records.machine.devices import mpi_variables
from testbed.spec import Fabric
from tests.nimc.minicluster.driven import ENV, Cluster, cluster_or_skip
from tests.reframe_tests.reframe_call import reframe, samples_of, script

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent
#: The minicluster has two targets, so two writers write at the same time. In virtual machines, both
#: rails are on the only NUMA node. In namespaces, no rail is on a NUMA node, so the policy `local`
#: does not exist.
TWO_RAILS = ("--nodes", "3", "--origins", "1", "--rails", "2")
#: Treatment -> the rails that its bytes must pass. Without a policy, MPI uses the interface that
#: the task prolog of the site names.
WRITERS = {
    "on": "01",
    "on@writer_rail=nic0": "0",
    "on@writer_rail=nic1": "1",
    "on@writer_rail=local": "01",
}
MESSAGES = {
    "off": "0",
    "off@mpi_rail=nic0": "0",
    "off@mpi_rail=nic1": "1",
    "off@mpi_rail=local": "01",
}
#: The bytes that each run moves at least. Messages of 24 MiB go in both directions, and both ends
#: count them.
MESSAGES_B = 4 * 24 * 2**20


@pytest.fixture(params=["veth", pytest.param("rxe", marks=[pytest.mark.guests, pytest.mark.long])])
def fabric(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def cluster(fabric: Fabric) -> Iterator[Cluster]:
    yield from cluster_or_skip(fabric)


def samples(
    cluster: Cluster, path: Path, checks: dict[str, dict[str, object]]
) -> dict[str, dict[str, dict]]:
    """Run the checks with these settings in one session; return check -> treatment -> sample."""
    folder = cluster.state / "run" / "rails"
    state = {
        **ENV,
        "NIMC_MINICLUSTER": str(cluster.state),
        "PATH": f"{path}:{ENV['PATH']}",
    }
    folder.mkdir()
    words: list[object] = ["-r"]
    for name, settings in checks.items():
        for key, value in {"nimc_dir": folder, **settings}.items():
            words += ["-S", f"{name}.{key}={value}"]
    probe, names = HERE / "rail_probe.py", f"({'|'.join(checks)})"
    done = reframe(folder, "minicluster", probe, *words, name=names, timeout_s=800, **state)
    measured = {file.stem for file in folder.glob("samples/*.jsonl")}
    assert measured == checks.keys(), done.stdout
    return {name: {sample["arm"]: sample for sample in samples_of(folder, name)} for name in checks}


def passed_b(sample: dict) -> dict[str, int]:
    """Return device -> bytes, summed over all target nodes and both directions."""
    totals_b: dict[str, int] = {}
    for node in sample["conditions"]:
        for device in node["devices"]:
            bytes_b = device["received_b"] + device["sent_b"]
            totals_b[device["device"]] = totals_b.get(device["device"], 0) + bytes_b
    return totals_b


def assert_rails(by_treatment: dict[str, dict], expected: dict[str, str], fabric: Fabric) -> None:
    for name, rails in expected.items():
        if fabric == "veth" and name.endswith("=local"):
            assert name not in by_treatment
            continue
        sample = by_treatment[name]
        bytes_by_device = passed_b(sample)
        print(name, sample["outcome"], bytes_by_device)
        # On a busy host, an emulated writer may print nothing for seconds, and its run is rejected.
        assert sample["outcome"] in ("accepted", "rejected"), (
            name,
            sample["reason"],
            bytes_by_device,
        )
        assert "the policy names" not in (sample["reason"] or ""), sample["reason"]
        all_b = sum(bytes_by_device.values())
        passed = {device for device, b in bytes_by_device.items() if b > 0.02 * all_b}
        assert {device[-1] for device in passed} == set(rails), (name, bytes_by_device)


@pytest.mark.minicluster
@pytest.mark.slow
def test_bytes_pass_only_the_devices_that_the_policy_names(
    cluster: Cluster, fabric: Fabric, tmp_path: Path
) -> None:
    exchange, mpicc = tmp_path / "exchange", str(BIN / "mpicc")
    compiler = [mpicc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(exchange)]
    subprocess.run([*compiler, str(HERE / "exchange.c")], check=True)
    words = [f"{tmp_path}/mpi_put", f"OUT={tmp_path}", f"MPICC={mpicc}"]
    make = ["make", "-s", "-C", f"{ROOT}/conductor/mpi_put", *words, "LAUNCHER=srun --mpi=pmi2"]
    subprocess.run(make, check=True)
    cluster.nimc("up", "--fabric", fabric, *TWO_RAILS, timeout_s=300)
    program = cluster.state / "run" / "exchange"
    program.write_bytes(exchange.read_bytes())
    program.chmod(0o755)
    # `mpi_put` prints a row each quarter of a second, and `perftest` prints a row each second.
    writers = {
        "veth": {"injector": "mpi_put", "sleeps_s": 2},
        "rxe": {"injector": "perftest", "sleeps_s": 4},
    }
    checks = {"rail_writers": writers[fabric], "rail_messages": {"exchange": program}}
    if fabric == "veth":
        chosen = [f"export {name}='{value}'" for name, value in mpi_variables("eth0").items()]
        text = "\n".join([*chosen, f"exec '{exchange}' \"$@\""])
        checks["rail_misled"] = {"exchange": script(tmp_path / "misled", text)}
    by_check = samples(cluster, tmp_path, checks)
    assert_rails(by_check["rail_writers"], WRITERS, fabric)
    messages = by_check["rail_messages"]
    assert_rails(messages, MESSAGES, fabric)
    assert all(sum(passed_b(sample).values()) > MESSAGES_B for sample in messages.values())
    if fabric == "veth":
        misled = by_check["rail_misled"]
        assert misled["off@mpi_rail=nic0"]["outcome"] == "accepted"
        wrong = misled["off@mpi_rail=nic1"]
        assert wrong["outcome"] == "rejected"
        assert "the policy names eth1" in wrong["reason"]
