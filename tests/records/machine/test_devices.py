"""RDMA devices as sysfs shows them, and variables for MPI over one of them."""

import pytest

from records.machine.devices import Port, detect, mpi_over, numa_node
from tests.conductor.sysfs import big_host, write

IB = "class/infiniband"


def test_ports_and_places_as_far_as_they_are_known(tmp_path):
    write(
        tmp_path,
        {
            f"{IB}/a/ports/1/state": "",
            f"{IB}/b/ports/1/link_layer": "InfiniBand",
            f"{IB}/b/ports/2/link_layer": "Ethernet",
            f"{IB}/b/ports/2/rate": "0.5 Gb/sec (1X)",
            f"{IB}/b/device/numa_node": "0",
            f"{IB}/c/device/numa_node": "-1",
            "class/cxi/cxi0/device/numa_node": "3",
        },
    )
    found = detect(tmp_path)
    assert [(each.name, each.transport, each.numa_node) for each in found] == [
        ("a", "InfiniBand", None), ("b", "RoCE", 0), ("c", "InfiniBand", None),
        ("cxi0", "Slingshot", 3),
    ]  # fmt: skip
    assert found[0].ports == [Port(1, "unknown", "unknown", None)]
    assert found[1].ports[1] == Port(2, "unknown", "Ethernet", 0.5e9 / 8)
    assert [numa_node(name, found) for name in (None, "b", "cxi0", "d")] == [None, 0, 3, None]


@pytest.mark.parametrize(
    ("device", "name", "expected"),
    [
        ("mlx5_0", None, {"UCX_NET_DEVICES": "mlx5_0:1", "HFI_UNIT": "0", "MV2_IBA_HCA": "mlx5_0"}),
        ("hfi1_3", "hfi1_3:1", {"UCX_NET_DEVICES": "hfi1_3:1", "HFI_UNIT": "3"}),
        ("mlx", "mlx:1", {"IPATH_UNIT": "0"}),
        # By default the interface below soft-RoCE, and an interface by itself.
        ("rxe0", None, {"UCX_NET_DEVICES": "eth1", "FI_TCP_IFACE": "eth1"}),
        ("rxe0", "rxe0:1", {"UCX_NET_DEVICES": "rxe0:1", "FI_VERBS_DEVICE_NAME": "rxe0"}),
        ("eth1", None, {"OMPI_MCA_btl_tcp_if_include": "eth1"}),
    ],
)
def test_mpi_goes_over_one_device(tmp_path, device, name, expected):
    found = mpi_over(device, name, big_host(tmp_path) / "sys")
    assert expected.items() <= found.items()
    assert len(found) == (8 if ":" in found["UCX_NET_DEVICES"] else 3)
