"""Tests of rail policies on a machine with two rails and on a machine without rails.

A rail is one of several network interfaces of a node. A policy chooses the rails of the writers or
of MPI.
"""

from pathlib import Path

import pytest

from records.errors import InputError
from records.machine.site import Machine
from reframe_tests import rails
from tests.conductor.sysfs import write
from tests.reframe_tests.rail_machines import machine
from tests.reframe_tests.reframe_call import ran

SCRIPT = Path(rails.__file__).parent / "src/local_rail/local_rail.sh"
WITHOUT_RAILS = machine(rails=[])


@pytest.mark.parametrize(
    ("policy", "node", "devices"),
    [
        ("default", None, ("mlx5_0", "mlx5_1")),
        ("nic0", 7, ("mlx5_0",)),
        ("nic1", None, ("mlx5_1",)),
        ("local", 3, ("mlx5_0",)),
        ("local", 7, ("mlx5_1",)),
        ("local", 5, ("mlx5_1",)),  # no rail on NUMA node 5, but one on its socket
    ],
)
def test_a_policy_chooses_the_devices_of_the_writers(policy, node, devices):
    assert rails.writer_devices(machine(), policy, node) == devices
    # The writers of a machine without rails use the device of the machine.
    assert rails.writer_devices(WITHOUT_RAILS, "default", None) == ("mlx5_0",)
    assert rails.writer_devices(machine(rails=[], device=None), "default", None) == ()


def test_the_environment_names_one_rail_to_each_library_of_mpi():
    variables = rails.environment_for_mpi(machine(), "nic1")
    assert variables == {
        "UCX_NET_DEVICES": "mlx5_1:1",
        "OMPI_MCA_btl_openib_if_include": "mlx5_1:1",
        "FI_VERBS_DEVICE_NAME": "mlx5_1",
        "MV2_IBA_HCA": "mlx5_1",
        "MV2_DEFAULT_PORT": "1",
    }
    assert rails.devices_for_mpi(machine(), "nic1") == ["mlx5_1"]
    assert rails.local_rail_wrapper(machine(), "nic1") == []
    # MPI may use another device for a rail than the writers.
    over_tcp = [{"device": "rxe0"}, {"device": "rxe1", "mpi_device": "eth1"}]
    here = machine(device="rxe0", rails=over_tcp)
    assert rails.environment_for_mpi(here, "nic1") == {
        "UCX_NET_DEVICES": "eth1",
        "FI_TCP_IFACE": "eth1",
        "OMPI_MCA_btl_tcp_if_include": "eth1",
    }
    assert rails.environment_for_mpi(here, "nic0")["UCX_NET_DEVICES"] == "rxe0:1"
    # UCX's name of a network interface has no port. Each host of the tests has `lo`.
    interfaces = machine(device="lo", rails=[{"device": "lo"}])
    assert rails.environment_for_mpi(interfaces, "nic0")["UCX_NET_DEVICES"] == "lo"
    assert rails.environment_for_mpi(WITHOUT_RAILS, "default") == {}
    assert rails.devices_for_mpi(WITHOUT_RAILS, "default") == []


def test_the_wrapper_of_the_policy_local_lists_the_rails_of_each_numa_node():
    words = rails.local_rail_wrapper(machine(numa_nodes=2, rail_nodes=(0, 1)), "local")
    assert words[:2] == ["sh", str(SCRIPT)]
    assert [word.split()[:2] for word in words[2:4]] == [
        ["0", "UCX_NET_DEVICES=mlx5_0:1"],
        ["1", "UCX_NET_DEVICES=mlx5_1:1"],
    ]
    assert words[4:] == ["--"]
    assert rails.environment_for_mpi(machine(), "local") == {}
    one_node = rails.local_rail_wrapper(
        machine(numa_nodes=1, sockets=1, rail_nodes=(0, 0)), "local"
    )
    assert one_node[2:] == ["0 UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1", "--"]


@pytest.mark.parametrize(
    ("cpus", "status", "printed"),
    [
        ("0-1", 0, "rail of 0: a b\n"),
        ("2,3", 0, "rail of 1: a b\n"),
        ("3-900", 0, "rail of 1: a b\n"),
        ("1-2", 1, "may run on NUMA nodes 0 1 ; allowed: ranks bound to one"),
    ],
)
def test_the_script_finds_the_numa_node_of_a_rank(tmp_path, cpus, status, printed):
    files = {f"sys/devices/system/cpu/cpu{cpu}/node{cpu // 2}/x": "" for cpu in range(4)}
    write(tmp_path, {**files, "proc/self/status": f"Name:\tsh\nCpus_allowed_list:\t{cpus}"})
    command = ["sh", "-c", 'echo "rail of $RAIL: $*"', "app", "a", "b"]
    words = ["sh", SCRIPT, "0 RAIL=0 X=1", "1 RAIL=1 X=2", "--", *command]
    done = ran(*words, env={"NIMC_SYSROOT": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert done.returncode == status
    assert printed in (done.stderr if status else done.stdout)


def rails_of(*devices: str, rail_nodes=(0, 1)) -> Machine:
    listed = [
        {"device": name, "numa_node": node} for name, node in zip(devices, rail_nodes, strict=True)
    ]
    return machine(numa_nodes=2, device=devices[0], rails=listed)


@pytest.mark.parametrize(
    ("devices", "variables"),
    [
        # The manuals of fi_cxi, fi_efa, fi_opx and PSM2 describe these variables.
        (("cxi0", "cxi1"), {"FI_CXI_DEVICE_NAME": "cxi1"}),
        (("rdmap0s6", "rdmap16s27"), {"FI_EFA_IFACE": "rdmap16s27"}),
        (("hfi1_0", "hfi1_1"), {"HFI_UNIT": "1", "PSM2_MULTIRAIL": "0", "FI_OPX_HFI_SELECT": "1"}),
        (("hfi2_0", "hfi2_1"), {"HFI_UNIT": "1", "FI_OPX_HFI_SELECT": "1"}),
        (("qib0", "qib1"), {"IPATH_UNIT": "1"}),
    ],
)
def test_the_environment_names_one_rail_of_another_fabric(devices, variables):
    chosen = rails.environment_for_mpi(rails_of(*devices), "nic1")
    assert variables.items() <= chosen.items()
    assert not {"FI_CXI_DEVICE_NAME", "FI_EFA_IFACE", "HFI_UNIT"} & (
        chosen.keys() - variables.keys()
    )


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (("cxi0", "cxi1"), ["0 FI_CXI_DEVICE_NAME=cxi0,cxi1", "--"]),
        (("rdmap0s6", "rdmap16s27"), ["0 FI_EFA_IFACE=rdmap0s6,rdmap16s27", "--"]),
    ],
)
def test_a_library_that_takes_several_devices_gets_all_devices_of_a_numa_node(devices, words):
    listed = [{"device": name, "numa_node": 0} for name in devices]
    one_node = machine(numa_nodes=1, sockets=1, device=devices[0], rails=listed)
    assert rails.local_rail_wrapper(one_node, "local")[2:] == words


@pytest.mark.parametrize(
    ("devices", "rail_nodes", "policy", "why"),
    [
        # PSM2 and OPX take the number of one unit. A device name by udev has no such number.
        (("hfi1_0", "hfi1_1"), (0, 0), "local", "no MPI takes several devices of Omni-Path"),
        (("opap1s0", "opap2s0"), (0, 1), "nic1", "takes a unit number, and opap2s0 has none"),
        (("iwp1s0f0", "iwp1s0f1"), (0, 0), "local", "no MPI takes several devices of iWARP"),
    ],
)
def test_a_policy_that_no_mpi_can_follow_is_refused(devices, rail_nodes, policy, why):
    host = rails_of(*devices, rail_nodes=rail_nodes)
    assert why in rails.why_unsupported_for_mpi(host, policy)
    with pytest.raises(InputError, match=rf"mpi_rail: {policy}: .*{why}; allowed: default"):
        rails.devices_for_mpi(host, policy)
    assert rails.why_unsupported(host, policy) is None  # writers can follow the policy
