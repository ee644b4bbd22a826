"""The device over which each injector's program writes, on made hosts of several fabrics."""

import polars as pl
import pytest

from analysis.effects.verdict import emulation_caveats
from conductor.injectors import INJECTORS, mpi_put
from records.machine import devices
from tests.conductor.injectors.printed import writer
from tests.conductor.sysfs import set_driver

UCX, MPI = INJECTORS["ucx"], INJECTORS["mpi_put"]
#: Device -> its link layer, and its driver or the interface below it.
DEVICES = {
    "mlx5_0": ("InfiniBand", "mlx5_core", ""),
    "mlx5_1": ("Ethernet", "mlx5_core", ""),
    "rxe0": ("Ethernet", "", "eth0"),
    "hfi1_0": ("InfiniBand", "hfi1", ""),
    "rdmap0s6": ("Unspecified", "efa", ""),
}


@pytest.fixture(autouse=True)
def _host(monkeypatch, tmp_path):
    for name, (layer, driver, below) in DEVICES.items():
        device = tmp_path / "class/infiniband" / name
        (device / "ports/1").mkdir(parents=True)
        (device / "ports/1/link_layer").write_text(f"{layer}\n")
        (device / "parent").write_text(below)
        if driver:
            set_driver(device / "device", driver)
    (tmp_path / "class/cxi/cxi0").mkdir(parents=True)
    for asks in (devices.is_rdma, devices.transport):
        monkeypatch.setattr(asks, "__defaults__", (tmp_path,))
    monkeypatch.setattr(devices.mpi_variables, "__defaults__", (None, tmp_path))


@pytest.mark.parametrize(
    ("device", "transport", "over"),
    [
        ("mlx5_0", "InfiniBand", "mlx5_0:1"),
        ("mlx5_1", "RoCE", "mlx5_1:1"),
        ("rxe0", "soft-RoCE", "eth0"),
        ("hfi1_0", "Omni-Path", "hfi1_0:1"),
        ("rdmap0s6", "EFA", None),
        ("cxi0", "Slingshot", None),
        ("eth7", "tcp", "eth7"),
    ],
)
def test_a_device_decides_the_transport_and_the_devices_of_mpi(device, transport, over):
    planned = writer(device=device)
    assert UCX.transport(planned) == transport
    assert MPI.environment(planned).get("UCX_NET_DEVICES") == over
    ours = UCX.environment(planned)
    verbs = ("rc,self", f"{device}:1")
    assert (ours["UCX_TLS"], ours["UCX_NET_DEVICES"]) == (
        ("tcp,self", "eth7") if transport == "tcp" else verbs
    )


def test_mpi_chooses_itself_if_no_variable_can_name_the_device(tmp_path):
    set_driver(tmp_path / "class/infiniband/opap1s0/device", "hfi1")
    assert MPI.environment(writer(device="opap1s0")) == mpi_put.LAUNCHER_VARIABLES


def test_soft_devices_are_emulation_and_real_ones_are_not():
    transports = [UCX.transport(writer(device=name)) for name in ("mlx5_0", "mlx5_1", "rxe0")]
    assert emulation_caveats(pl.Series(transports[:2])) == []
    assert len(emulation_caveats(pl.Series(transports[2:]))) == 1


def test_the_transport_says_that_the_target_receives_messages():
    receives = INJECTORS["mpi_put_receive"]
    transports = [receives.transport(writer(device=name)) for name in ("mlx5_0", "rxe0", None)]
    assert transports == ["InfiniBand+receives", "soft-RoCE+receives", "receives"]


@pytest.mark.parametrize(
    ("target", "device", "transport", "takes_part"),
    [
        ("o", None, "shared memory", False),
        ("t", None, "tcp", True),
        ("o", "lo", "shared memory", False),
    ],
)
def test_without_an_rdma_device_one_host_means_shared_memory(target, device, transport, takes_part):
    """Over tcp, the target of ucx_perftest takes part, since it must receive the messages."""
    planned = writer(target=target, device=device)
    assert UCX.transport(planned) == transport
    assert UCX.freezes_target(planned) != takes_part
    assert ("sleep" in UCX.origin_command(planned)) == takes_part


def test_variables_of_one_host_and_of_short_writes():
    here = writer(target="o")
    assert UCX.environment(here)["UCX_TLS"] == "posix,self"
    # In reads on one host, the kernel copies (cma).
    assert INJECTORS["ucx_read"].environment(here)["UCX_TLS"] == "posix,cma,self"
    # UCX does not watch memory events in short writes.
    assert UCX.environment(writer(messages=1))["UCX_MEM_EVENTS"] == "n"
    assert "UCX_MEM_EVENTS" not in UCX.environment(writer())
    for planned in (writer(target="o", device="rxe0"), here):
        assert MPI.environment(planned) == {**mpi_put.LAUNCHER_VARIABLES, "UCX_TLS": "sm,self"}
    assert MPI.environment(writer()).keys().isdisjoint({"UCX_TLS", "UCX_NET_DEVICES"})
