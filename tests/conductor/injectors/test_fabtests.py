"""Lines of fi_rma_bw, as it really printed them, and its commands on fabrics that are not here."""

from pathlib import Path

import pytest

from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Total
from records.machine import devices
from tests.conductor.conftest import lasting, needs
from tests.conductor.injectors.test_perftest import writer

CAPTURES = Path(__file__).parents[2] / "captures" / "fabtests"
FABTESTS = INJECTORS["fabtests"]
MIB = 2**20


def meanings(name):
    parser = FABTESTS.parser(writer())
    lines = (CAPTURES / f"{name}.txt").read_text().splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


def option(command, name):
    return command[command.index(name) + 1]


def test_the_one_line_of_a_finished_writer_is_its_total():
    # 65,536,000 bytes in 0.131477 s, as the same line says: 10^6 bytes a second, not 2^20.
    (total,) = meanings("tcp_n1000.client")
    assert (total.messages, total.rate_b_s) == (1000, 498.459807e6)
    assert total.rate_b_s == pytest.approx(1000 * 65536 / 0.131477, rel=1e-5)
    assert meanings("shm_n1000.client") == [Total(1000, 197.983191e6)]
    assert [type(each) for each in meanings("tcp_n1000.server")] == [Total]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("noserver.client", "connect: Connection refused"),
        ("nodev.server", "fi_getinfo(): common/shared.c:1110, ret=-61 (No data available)"),
        ("nodev.client", "ft_sock_recv(): common/shared.c:4374, ret=-107 (Transport endpoint"),
        ("srvKILL.client", "[error] 1795470833:fabtests:common/shared.c:3132: cq_readerr 125"),
    ],
)
def test_a_failure_is_a_fault(name, text):
    (fault,) = meanings(name)
    assert isinstance(fault, Fault)
    assert fault.text.startswith(text)


def test_devices_choose_the_provider_and_writes_go_one_way(monkeypatch, tmp_path):
    """Names of providers and domains as libfabric's manuals have them (fi_cxi, fi_efa, fi_opx)."""
    drivers = {"hfi1_0": "hfi1", "rdmap0s6": "efa", "mlx5_0": "mlx5_core"}
    for name, driver in drivers.items():
        link = tmp_path / "class/infiniband" / name / "device/driver"
        link.parent.mkdir(parents=True)
        link.symlink_to(f"../../../bus/pci/drivers/{driver}")
    (tmp_path / "class/cxi/cxi0").mkdir(parents=True)
    for asks in (devices.is_rdma, devices.transport):
        monkeypatch.setattr(asks, "__defaults__", (tmp_path,))
    found = {}
    for name in (*drivers, "cxi0", "eth7"):
        command = FABTESTS.origin_command(writer(device=name))
        assert (option(command, "-o"), command[-1]) == ("writedata", "10.1.0.2")
        assert "-E=20001" in command  # whatever the fabric, the ends find one another over IP
        assert command[:-1] == FABTESTS.target_command(writer(device=name))
        found[name] = (
            FABTESTS.transport(writer(device=name)),
            option(command, "-p"),
            option(command, "-d"),
        )
    assert found == {
        "hfi1_0": ("Omni-Path", "opx", "hfi1_0"),
        "rdmap0s6": ("EFA", "efa", "rdmap0s6-rdm"),
        "mlx5_0": ("InfiniBand", "verbs;ofi_rxm", "mlx5_0"),
        "cxi0": ("Slingshot", "cxi", "cxi0"),
        "eth7": ("tcp", "tcp", "eth7"),
    }


def test_without_a_device_one_host_means_shared_memory():
    assert FABTESTS.transport(writer(target="o")) == "shared memory"
    assert option(FABTESTS.target_command(writer(target="o")), "-p") == "shm"
    assert "-d" not in FABTESTS.target_command(writer(target="o"))
    assert FABTESTS.transport(writer()) == "tcp"
    assert FABTESTS.transport(writer(target="o", device="lo")) == "tcp"


@pytest.mark.parametrize(
    ("asked", "window", "messages"),
    [
        ({}, "64", "2147483647"),
        ({"message_b": 16 * MIB}, "4", "2147483647"),  # 64 MiB together
        ({"message_b": 128 * MIB}, "1", "2147483647"),
        ({"rate_b_s": 1e9}, "32", "2147483647"),  # paced: 2 MiB together
        ({"rate_b_s": 1e9, "messages": 46000}, "64", "46000"),
    ],
)
def test_outstanding_writes_and_their_number(asked, window, messages):
    command = FABTESTS.origin_command(writer(**asked))
    assert (option(command, "-W"), option(command, "-I")) == (window, messages)


@needs("fabtests")
@pytest.mark.slow
def test_rows_are_those_of_its_device_and_it_is_held_between_runs(block):
    """Over the loopback interface, which counts what the writer sends."""
    writes = {"injector": "fabtests", "message_b": 65536, "devices": ["lo"]}
    run = block(command=lasting(3), arms=["off", "on"], pairs=2, writes=writes).done()
    written = [sample for sample in run.samples() if sample["arm"] == "on"]
    assert [sample["outcome"] for sample in written] == ["kept", "kept"]
    for sample in written:
        (found,) = sample["writers"]
        assert (found["transport"], found["injector"]) == ("tcp", "fabtests")
        assert found["rate_b_s"] > 1e6
