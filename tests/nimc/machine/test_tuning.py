"""Values that operators tune, on hosts made of files."""

import pytest

from nimc.machine import host
from tests.nimc.node.sysfs import big_host, write

CPUINFO = "vendor_id\t: {}\ncpu family\t: 6\nmodel\t\t: {}\nstepping\t: 4"
SKYLAKE = {"proc/cpuinfo": CPUINFO.format("GenuineIntel", 85)}


def registers(root, cpu, values):
    """/dev/cpu/N/msr: a register's number is its offset, eight bytes each."""
    path = root / f"dev/cpu/{cpu}/msr"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for number, value in values.items():
            file.seek(number)
            file.write(value.to_bytes(8, "little"))
    return root


def test_the_ways_of_ddio_and_the_prefetchers(tmp_path):
    root = registers(write(tmp_path, SKYLAKE), 0, {0xC8B: 0x600, 0x1A4: 0})
    assert (host.ddio(root), host.prefetchers(root)) == ("600", "all on")


def test_sockets_that_differ_are_both_shown(tmp_path):
    root = registers(write(tmp_path, SKYLAKE), 0, {0xC8B: 0x600, 0x1A4: 0})
    registers(root, 12, {0xC8B: 0x7E0, 0x1A4: 0b1001})
    assert host.ddio(root) == "600, 7e0"
    assert host.prefetchers(root) == "all on | off: L2, L1 stride"


@pytest.mark.parametrize(
    ("vendor", "model", "ddio", "prefetchers"),
    [("GenuineIntel", 106, None, "all on"), ("AuthenticAMD", 85, None, None)],
)
def test_registers_of_other_processors_mean_something_else(
    tmp_path, vendor, model, ddio, prefetchers
):
    files = {"proc/cpuinfo": CPUINFO.format(vendor, model)}
    root = registers(write(tmp_path, files), 0, {0xC8B: 0x600, 0x1A4: 0})
    assert (host.ddio(root), host.prefetchers(root)) == (ddio, prefetchers)


def test_schemata_without_the_kernel_s_padding(tmp_path):
    text = "    MB:0=100;1= 90\n    L3:0=7ff;1=0f0"
    root = write(tmp_path, {"sys/fs/resctrl/schemata": text})
    assert host.resctrl(root) == "L3:0=7ff;1=0f0 MB:0=100;1=90"


def test_what_cannot_be_read_is_unknown(tmp_path):
    here = host.detect(big_host(tmp_path))
    assert (here.ddio, here.prefetchers, here.resctrl) == (None, None, None)
