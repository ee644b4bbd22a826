"""Counters of a node, read from made files of /proc and /sys."""

import os
from pathlib import Path

import pytest

from records.machine.node_counters import (
    NodeCounter,
    NodeReader,
    increase,
    increase_on_free_cpus,
    interrupts_by_cpu,
    parse_ethtool,
    read,
)
from tests.conductor.sysfs import write
from tests.records.machine.made import COUNTERS, ETHTOOL


def test_counters_have_si_units(tmp_path):
    counters = read(write(tmp_path, COUNTERS))
    ticks = os.sysconf("SC_CLK_TCK")
    assert counters == {
        "context-switches": NodeCounter(777, "count"),
        "interrupts": NodeCounter(1234, "count"),
        # These are columns 6 and 7 of /proc/stat, in clock ticks.
        "irq-time": NodeCounter(40 / ticks, "s"),
        "softirq-time": NodeCounter(500 / ticks, "s"),
        "softirqs:NET_TX": NodeCounter(3, "count"),
        "softirqs:NET_RX": NodeCounter(42, "count"),
        "psi:memory/some": NodeCounter(pytest.approx(155.545234), "s"),
        "psi:memory/full": NodeCounter(pytest.approx(132.749597), "s"),
        "vmstat:numa_pages_migrated": NodeCounter(12, "count"),
        "vmstat:thp_fault_alloc": NodeCounter(77031, "count"),
        "vmstat:pgfault": NodeCounter(3, "count"),
        "resctrl:L3_00/mbm_total_bytes": NodeCounter(4096, "B"),
        "mlx5_0/1:np_cnp_sent": NodeCounter(17, "count"),
        "mlx5_0/1:port_xmit_wait": NodeCounter(5, "count"),
        "eth0:rx_dropped": NodeCounter(3, "count"),
        # The files have microjoules. Users cannot read the file of the second package.
        "energy:0/package-0": NodeCounter(pytest.approx(262143.32885), "J"),
        "energy:0:1/dram": NodeCounter(pytest.approx(5), "J"),
    }


def test_absent_counters_are_named_once_with_what_they_need(tmp_path):
    assert read(tmp_path) == {}
    assert len(NodeReader(tmp_path).absent_counters) == 11
    absent = NodeReader(write(tmp_path, {"proc/stat": COUNTERS["proc/stat"]})).absent_counters
    assert "resctrl mounted" in absent["resctrl"]
    assert "CONFIG_PSI" in absent["pressure"]
    assert "interrupts" not in absent


def test_counters_of_stalls_losses_and_pauses_are_read_from_ethtool():
    assert parse_ethtool("eth0", ETHTOOL) == {
        "eth0:rx_discards_phy": NodeCounter(12, "count"),
        "eth0:tx_prio3_pause": NodeCounter(7, "count"),
        # ethtool prints microseconds.
        "eth0:tx_prio3_pause_duration": NodeCounter(0.25, "s"),
        "eth0:rx_global_pause": NodeCounter(1, "count"),
        "eth0:tx_pause_ctrl_phy": NodeCounter(8, "count"),
        "eth0:tx_global_pause_duration": NodeCounter(pytest.approx(0.003), "s"),
        "eth0:outbound_pci_buffer_overflow": NodeCounter(6, "count"),
        "eth0:pci_bw_inbound_high": NodeCounter(5, "count"),
        "eth0:pci_bw_outbound_low": NodeCounter(3, "count"),
        # ethtool prints a percentage of the last second.
        "eth0:outbound_pci_stalled_wr": NodeCounter(pytest.approx(0.23), "1", "gauge"),
        # This is the number of seconds in which the percentage was above 30.
        "eth0:outbound_pci_stalled_wr_events": NodeCounter(4, "s"),
    }


def ethtool(folder: Path, text: str, log: Path) -> Path:
    """Write a stand-in for ethtool, which knows counters of eth0 only; return its folder.

    It writes its options into `log`.
    """
    program = folder / "bin" / "ethtool"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho \"$*\" >> '{log}'\n[ \"$2\" = eth0 ] && cat <<'X'\n{text}X\n"
    )
    program.chmod(0o755)
    return program.parent


def test_a_node_asks_ethtool_only_for_devices_that_have_counters(tmp_path, monkeypatch):
    log = tmp_path / "asked"
    monkeypatch.setenv("PATH", f"{ethtool(tmp_path, ETHTOOL, log)}:{os.environ['PATH']}")
    reader = NodeReader(write(tmp_path, {**COUNTERS, "sys/class/net/eth1/device/vendor": "0x1af4"}))
    assert log.read_text().splitlines() == ["-S eth0", "-S eth1"]
    assert reader.absent_counters == {}
    counters = reader.read()
    assert log.read_text().splitlines()[2:] == ["-S eth0"]
    assert counters["eth0:outbound_pci_stalled_wr_events"] == NodeCounter(4, "s")
    assert counters["context-switches"] == NodeCounter(777, "count")
    # The time of kernel threads is counted from the first reading on.
    assert counters["kernel-threads-time"] == NodeCounter(0, "s")


def test_missing_ethtool_and_frequency_are_both_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    without_frequency = {name: text for name, text in COUNTERS.items() if "cpufreq" not in name}
    reader = NodeReader(
        write(tmp_path, {**without_frequency, "sys/class/net/eth0/device/vendor": "0x1af4"})
    )
    assert set(reader.absent_counters) == {"ethtool", "frequency"}
    assert "mlx5" in reader.absent_counters["ethtool"]
    assert "cpufreq" in reader.absent_counters["frequency"]


def test_increases_of_totals_and_last_values_of_gauges():
    before = {"a": NodeCounter(10, "s"), "reset": NodeCounter(9, "s")}
    gauge = NodeCounter(3e9, "Hz", "gauge")
    before["f"] = NodeCounter(2e9, "Hz", "gauge")
    after = {"a": NodeCounter(15, "s"), "reset": NodeCounter(2, "s"), "new": NodeCounter(4, "s")}
    after["f"] = gauge
    assert increase(before, after) == {"a": NodeCounter(5, "s"), "f": gauge}


@pytest.mark.parametrize(
    ("table", "counts"),
    [
        ("CPU0 CPU3\n90: 7 5 PCI-MSI\n91: 9\n", {0: 7.0, 3: 5.0}),
        ("CPU0 CPU3\n90: 7 5 PCI-MSI\n91: 9 PCI-MSI\n", {0: 7.0, 3: 5.0}),
        ("CPU0 CPU3\n91: 9\n", None),
        ("CPU0 node3\n90: 7 5 PCI-MSI\n", None),
        (f"CPU0 CPU{'9' * 5000}\n90: 7 5 PCI-MSI\n", None),
        ("", None),
    ],
)
def test_interrupts_in_lines_that_cannot_be_read_are_unknown(tmp_path, table, counts):
    """In these tables, lines or headings of CPUs cannot be read. Interrupt 91 lacks a count."""
    device = "sys/class/infiniband/mlx5_0/device/msi_irqs"
    files = {f"{device}/90": "msix", f"{device}/91": "msix", "proc/interrupts": table}
    expected = {} if counts is None else {"mlx5_0:interrupts": counts}
    assert interrupts_by_cpu(write(tmp_path, files)) == expected


def test_interrupts_of_a_device_are_counted_by_cpu_and_on_free_cpus(tmp_path):
    """The device has two interrupts. 50 of them came to CPU 0, and 30 to CPU 3, which is free."""
    lines = [
        "            CPU0       CPU3",
        " 90:   {}   {}  PCI-MSI 1-edge  mlx5_comp0@pci:0000:41:00.0",
    ]
    lines += [" 91:   {}   {}  PCI-MSI 2-edge  mlx5_comp1", " 92:   9   9  PCI-MSI 3-edge  nvme0q1"]
    device = "sys/class/infiniband/mlx5_0/device/msi_irqs"
    files = {f"{device}/90": "msix", f"{device}/91": "msix", f"{device}/99": "msix"}
    interrupts = []
    for name, counts in (("a", (1000, 5, 7, 0)), ("b", (1040, 5, 17, 30))):
        text = "\n".join([*lines, "NMI:  1  1  Non-maskable interrupts"]).format(*counts)
        interrupts.append(
            interrupts_by_cpu(write(tmp_path / name, {**files, "proc/interrupts": text}))
        )
    assert interrupts[0] == {"mlx5_0:interrupts": {0: 1007.0, 3: 5.0}}
    assert increase_on_free_cpus(*interrupts, {3, 4}) == {
        "mlx5_0:interrupts": NodeCounter(80.0, "count"),
        "mlx5_0:interrupts on free CPUs": NodeCounter(30.0, "count"),
    }
    # A source that the first reading did not show has counted from zero.
    assert increase_on_free_cpus({}, {"new": {0: 4.0, 3: 2.0}}, {3}) == {
        "new": NodeCounter(6.0, "count"),
        "new on free CPUs": NodeCounter(2.0, "count"),
    }
    # The kernel counts interrupts in 32 bits, and a reset device begins at 0.
    overflown = {"a": {0: 2.0**32 - 296, 3: 5.0}}, {"a": {0: 900.0, 3: 9.0}}
    assert increase_on_free_cpus(*overflown, {3}) == {}
