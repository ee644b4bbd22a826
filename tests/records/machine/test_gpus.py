"""GPUs as /sys and their driver's files show them."""

from records.machine import gpus
from records.machine.gpus import Gpu
from tests.conductor.sysfs import write

PCI = "sys/bus/pci/devices"


def test_gpus_with_their_links(tmp_path):
    """16 GT/s with 128 of 130 bits on 16 lanes are 31.508 GB/s; 5 GT/s with 8 of 10, 8 lanes, 4."""
    first, second = f"{PCI}/0000:01:00.0", f"{PCI}/0000:c1:00.0"
    write(
        tmp_path,
        {
            f"{first}/vendor": "0x10de",
            f"{first}/class": "0x030200",
            f"{first}/numa_node": "1",
            f"{first}/max_link_speed": "16.0 GT/s PCIe",
            f"{first}/max_link_width": "16",
            f"{second}/vendor": "0x10de",
            f"{second}/class": "0x030000",
            f"{second}/numa_node": "-1",
            f"{second}/max_link_speed": "5 GT/s",
            f"{second}/max_link_width": "8",
            f"{PCI}/0000:01:00.1/vendor": "0x10de",  # its sound
            f"{PCI}/0000:01:00.1/class": "0x040300",
            f"{PCI}/0000:02:00.0/vendor": "0x8086",  # another maker's
            f"{PCI}/0000:02:00.0/class": "0x030000",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H100 PCIe\n"
            "IRQ:   \t\t 35",
        },
    )
    one, two = gpus.detect(tmp_path)
    assert (one.pci, one.name, one.numa_node) == ("0000:01:00.0", "NVIDIA H100 PCIe", 1)
    assert round(one.link_rate_b_s / 1e9, 3) == 31.508
    assert two == Gpu("0000:c1:00.0", None, None, 4e9)


def test_the_version_of_either_driver(tmp_path):
    assert gpus.driver_version(tmp_path) is None
    lines = {
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
        "GCC version:  gcc version 12.2.0": "535.104.05",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release": "550.54.14",
    }
    for text, version in lines.items():
        write(tmp_path, {"proc/driver/nvidia/version": text})
        assert gpus.driver_version(tmp_path) == version
