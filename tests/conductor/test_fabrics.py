"""Each fabric's byte counter, from made trees of /sys and /proc: what it proves, and what refutes.

Units are those of the sources that conductor/counters.py names, figures worked out by hand: a GB is
10^9 octets (Slingshot, EFA, Ethernet), 250,000,000 words of 4 bytes (InfiniBand) or 125,000,000
flits of 8 (Omni-Path).
"""

from typing import NamedTuple

import pytest

from conductor import counters
from conductor.counters import Reading
from conductor.figures import conditions, passed, writer_records
from conductor.judge import faults
from conductor.series import DeviceSample, DeviceSeries, NodeSeries, Series
from records.acceptance import AcceptanceLimits
from records.machine import devices
from records.sample import DeviceBytes
from tests.conductor.planted import claim
from tests.conductor.sysfs import big_host, write

HEADINGS = "Inter-| Receive | Transmit\n face |bytes packets errs"
GB = 10**9
WINDOW = (0.0, 1.0)


class Fabric(NamedTuple):
    device: str
    driver: str | None
    received: str
    sent: str
    per_gb: int
    name: str


_IB = "sys/class/infiniband"
_CXI = "sys/class/cxi/cxi1/device/telemetry"
FABRICS = {
    "Slingshot": Fabric(
        *("cxi1", None, f"{_CXI}/hni_sts_rx_ok_octets", f"{_CXI}/hni_sts_tx_ok_octets"),
        *(10**9, "cxi:cxi1"),
    ),
    "EFA": Fabric(
        *("rdmap0s6", "efa", f"{_IB}/rdmap0s6/ports/1/hw_counters/rx_bytes"),
        *(f"{_IB}/rdmap0s6/ports/1/hw_counters/tx_bytes", 10**9, "efa:rdmap0s6/1"),
    ),
    "Omni-Path": Fabric(
        *("hfi1_0", "hfi1", f"{_IB}/hfi1_0/ports/1/counters/port_rcv_data"),
        *(f"{_IB}/hfi1_0/ports/1/counters/port_xmit_data", 125_000_000, "opa:hfi1_0/1"),
    ),
    "InfiniBand": Fabric(
        *("mlx5_0", "mlx5_core", f"{_IB}/mlx5_0/ports/1/counters/port_rcv_data"),
        *(f"{_IB}/mlx5_0/ports/1/counters/port_xmit_data", 250_000_000, "rdma:mlx5_0/1"),
    ),
    "Ethernet": Fabric("eth1", None, "", "", 10**9, "net:eth1"),
}


@pytest.fixture(params=FABRICS)
def fabric(request):
    return FABRICS[request.param]


def read(root, fabric, received, sent=0):
    """Both readings of the device while its counters show these numbers."""
    stamp = "@1763931300.000000042" if fabric.device.startswith("cxi") else ""
    files = {fabric.received: f"{received}{stamp}", fabric.sent: f"{sent}{stamp}"}
    if fabric.device == "eth1":
        line = f"  eth1: {received} 9 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0"
        files = {"proc/net/dev": f"{HEADINGS}\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n{line}"}
    write(root, files)
    if fabric.driver:
        link = root / _IB / fabric.device / "device/driver"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../../bus/pci/drivers/{fabric.driver}")
    first, second = (counters.read(fabric.device, each, root) for each in counters.DIRECTIONS)
    return first, second


def target(root, fabric, before, after):
    """A target whose device shows numbers received and sent before, and these after a second."""
    readings = [read(root, fabric, *numbers) for numbers in (before, after)]
    samples = [
        DeviceSample(at, *(one.bytes_b for one in both)) for at, both in enumerate(readings, 7)
    ]
    return NodeSeries("n1", [DeviceSeries(fabric.device, readings[0][0].name, samples)])


def judged(root, fabric, before, after):
    """Proof of a writer that claims a GB, and why the count refutes it."""
    series = Series([target(root, fabric, (before,), (after,))], claims=[claim(GB)])
    (proven,) = writer_records(series, WINDOW)
    return proven.proof, next(faults(series, WINDOW, AcceptanceLimits()), None)


def test_numbers_in_the_devices_unit_prove_the_writes(tmp_path, fabric):
    # 3 % more than the payload: headers. The numbers before are beyond 32 bits.
    after = 7 * 10**9 + fabric.per_gb * 103 // 100
    assert judged(tmp_path, fabric, 7 * 10**9, after) == ("device", None)
    here = target(tmp_path, fabric, (7 * 10**9,), (after,))
    assert passed(here, "received") == (fabric.name, 1_030_000_000, 1.0)


@pytest.mark.parametrize(("times", "counted_mb"), [(0.25, "250.0"), (4, "4000.0"), (0, "0.0")])
def test_a_wrong_unit_and_a_dead_counter_refute_the_claim(tmp_path, fabric, times, counted_mb):
    """A quarter or four times as much, as words taken for bytes or bytes for words are."""
    _, fault = judged(tmp_path, fabric, 5000, 5000 + int(fabric.per_gb * times))
    assert fault.startswith(f"n1 counted {counted_mb} MB ({fabric.name}), but")


def test_a_counter_of_32_bits_that_began_anew_proves_nothing(tmp_path, fabric):
    before = 4_294_000_000  # 967,296 below 2^32
    after = before + fabric.per_gb - 2**32
    assert judged(tmp_path, fabric, before, after) == ("unproven", None)


def test_rails_have_their_bytes_in_both_directions(tmp_path, fabric):
    after = (100 + fabric.per_gb, 200 + fabric.per_gb // 4)
    here = target(tmp_path, fabric, (100, 200), after)
    assert conditions(here).devices == [DeviceBytes(fabric.device, GB, GB // 4)]


@pytest.mark.parametrize("number", ["N/A", "", "12 13", "1e9", "12@", "12@x.000000001"])
def test_what_is_no_number_is_no_counter(tmp_path, number):
    write(tmp_path, {FABRICS["Slingshot"].received: number})
    assert counters.read("cxi1", "received", tmp_path) is None


def test_the_driver_tells_the_fabric_not_the_name(tmp_path):
    # Rules of udev rename devices: what is called mlx5_0 here is an Omni-Path device.
    renamed = FABRICS["InfiniBand"]._replace(driver="hfi1")
    received, sent = read(tmp_path, renamed, 1000, 10)
    assert (received.name, received.bytes_b, sent.bytes_b) == ("opa:mlx5_0/1", 8000, 80)
    assert devices.transport("mlx5_0", tmp_path / "sys") == "Omni-Path"
    # Of other drivers it is not known whether rx_bytes are those of RDMA.
    assert read(tmp_path, FABRICS["EFA"]._replace(driver="bnxt_re"), 1000) == (None, None)


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


def test_a_device_that_is_not_named_is_the_first_one(root, tmp_path):
    assert devices.transport(None, root / "sys") == "InfiniBand"
    assert devices.transport("mlx5_0", tmp_path / "empty") == "RDMA"
