import socket

import pytest

from nimc.machine import devices
from nimc.node.evidence import counters
from nimc.node.evidence.counters import Reading
from tests.nimc.node.sysfs import big_host, write


@pytest.fixture
def root(tmp_path):
    return big_host(tmp_path)


def test_soft_roce_counts_packets_only_so_its_interface_is_read(root):
    assert counters.read("rxe0", "received", root) == Reading("net:eth1", 123456)
    assert counters.read("rxe0", "sent", root) == Reading("net:eth1", 99)
    for absent in (None, "mlx5_9"):
        assert counters.read(absent, "received", root) is None


def test_this_hosts_loopback_counts_what_is_sent_over_it():
    before = counters.read("lo", "received")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(100):
            sender.sendto(bytes(1000), ("127.0.0.1", 9))
    assert counters.difference(before, counters.read("lo", "received")) >= 100 * 1000


def test_a_counter_at_its_greatest_value_tells_nothing_more(root):
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", root)
    assert now.stuck
    assert counters.difference(Reading("rdma:mlx5_0/1", 10000), now) is None


@pytest.mark.parametrize(
    ("earlier", "later", "gone"),
    [(1000, 5000, 4000), (7, 7, 0), (4294967000, 704, None)],  # wrapped, or reset: not known
)
def test_bytes_between_two_readings(earlier, later, gone):
    assert counters.difference(Reading("net:a", earlier), Reading("net:a", later)) == gone
    with pytest.raises(ValueError, match="net:a and net:b are different counters"):
        counters.difference(Reading("net:a", earlier), Reading("net:b", later))


def test_devices_are_counted_together_if_each_of_them_counts():
    first, second = Reading("rdma:a/1", 400, at_s=5.0), Reading("rdma:b/1", 30, at_s=6.0)
    both = counters.total([first, second])
    assert both == Reading("rdma:a/1+rdma:b/1", 430)
    assert both.at_s == 6.0
    assert counters.total([first]) == first
    assert counters.total([]) is None
    assert counters.total([first, None]) is None
    assert counters.total([first, Reading("rdma:b/1", 2**34 - 4, stuck=True)]).stuck


def test_devices_are_identified_by_what_their_bytes_go_over(root, tmp_path):
    infiniband, soft = devices.detect(root / "sys")
    assert (infiniband.transport, soft.transport) == ("InfiniBand", "soft-RoCE")
    assert (infiniband.firmware, infiniband.numa_node) == ("20.31.1014", 2)
    assert infiniband.ports == [devices.Port(1, "ACTIVE", "InfiniBand", 12.5e9)]
    assert soft.numa_node is None
    assert devices.transport(None, root / "sys") == "InfiniBand"  # the first one
    assert devices.transport("rxe0", root / "sys") == "soft-RoCE"
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet"})
    assert devices.transport("mlx5_0", root / "sys") == "RoCE"
