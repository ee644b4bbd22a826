import pytest

from reframe_tests.injection import counters, devices
from reframe_tests.injection.counters import Counter
from tests.reframe_tests.injection.sysfs import big_host, write


@pytest.fixture
def sys(tmp_path):
    return big_host(tmp_path) / "sys"


def test_an_rdma_port_counts_words_of_four_bytes(sys):
    assert counters.read("mlx5_0", "received", sys) == Counter("rdma:mlx5_0/1", 10000)
    assert counters.read("mlx5_0", "sent", sys) == Counter("rdma:mlx5_0/1", 40)


def test_soft_roce_counts_packets_only_so_its_interface_is_read(sys):
    assert counters.read("rxe0", "received", sys) == Counter("net:eth1", 123456)
    assert counters.read("rxe0", "sent", sys) == Counter("net:eth1", 99)


def test_an_interface_counts_bytes(sys):
    assert counters.read("eth1", "received", sys) == Counter("net:eth1", 123456)


@pytest.mark.parametrize("device", [None, "mlx5_9"])
def test_what_is_not_there_counts_nothing(sys, device):
    assert counters.read(device, "received", sys) is None


def test_a_counter_at_its_greatest_value_tells_nothing_more(sys):
    write(sys, {"class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": str(2**32 - 1)})
    now = counters.read("mlx5_0", "received", sys)
    assert now.stuck
    assert counters.difference(Counter("rdma:mlx5_0/1", 10000), now) is None


@pytest.mark.parametrize(
    ("name", "earlier", "later", "gone"),
    [
        ("net:eth1", 1000, 5000, 4000),
        ("net:eth1", 4294967000, 704, 1000),  # 296 to the end of 32 bits, 704 from zero
        ("net:eth1", 2**40, 5, None),  # wider than 32 bits: it was reset
        ("rdma:mlx5_0/1", 4000, 0, None),  # these stop, and do not start again
    ],
)
def test_bytes_between_two_readings(name, earlier, later, gone):
    assert counters.difference(Counter(name, earlier), Counter(name, later)) == gone


def test_different_counters_have_no_difference():
    with pytest.raises(ValueError, match="net:a and net:b are different counters"):
        counters.difference(Counter("net:a", 1), Counter("net:b", 2))


def test_devices_are_told_by_what_their_bytes_go_over(sys):
    infiniband, soft = devices.detect(sys)
    assert (infiniband.transport, soft.transport) == ("InfiniBand", "soft-RoCE")
    assert (infiniband.firmware, infiniband.numa_node) == ("20.31.1014", 2)
    assert infiniband.ports == [devices.Port(1, "ACTIVE", "InfiniBand", 12.5e9)]
    assert soft.numa_node is None
    write(sys, {"class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet"})
    assert devices.transport("mlx5_0", sys) == "RoCE"


def test_the_first_device_is_meant_where_none_is_named(sys, tmp_path):
    assert devices.transport(None, sys) == "InfiniBand"
    assert devices.transport("rxe0", sys) == "soft-RoCE"
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"
