import pytest

from conductor import counters
from conductor.counters import Reading
from records.machine import devices
from tests.conductor.sysfs import big_host, write


@pytest.fixture
def root(tmp_path):
    return big_host(tmp_path)


def test_soft_roce_counts_packets_only_so_its_interface_is_read(root):
    assert counters.read("rxe0", "received", root) == Reading("net:eth1", 123456)
    assert counters.read("rxe0", "sent", root) == Reading("net:eth1", 99)
    for absent in (None, "mlx5_9"):
        assert counters.read(absent, "received", root) is None


def test_a_counter_at_its_greatest_value_tells_nothing_more(root):
    write(root, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", root)
    assert now == Reading("rdma:mlx5_0/1", None)
    assert counters.difference(Reading("rdma:mlx5_0/1", 10000), now) is None
    with pytest.raises(ValueError, match="net:a and rdma:mlx5_0/1 are different counters"):
        counters.difference(Reading("net:a", 10000), now)


def test_devices_are_identified_by_what_their_bytes_go_over(root, tmp_path):
    infiniband, soft = devices.detect(root / "sys")
    assert (infiniband.transport, soft.transport) == ("InfiniBand", "soft-RoCE")
    assert (infiniband.firmware, infiniband.numa_node) == ("20.31.1014", 2)
    assert infiniband.ports == [devices.Port(1, "ACTIVE", "InfiniBand", 12.5e9)]
    assert soft.numa_node is None
    assert devices.transport(None, root / "sys") == "InfiniBand"  # the first one
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"
