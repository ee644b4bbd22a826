import pytest

from nimc.machine import host
from tests.nimc.node.sysfs import big_host, write

#: As the kernel and the firmware of a server with an Intel processor present them.
SERVER = {
    "proc/cpuinfo": "processor\t: 0\nmicrocode\t: 0x2007006\n\nmicrocode\t: 0x2007006",
    "sys/class/dmi/id/bios_vendor": "American Megatrends Inc.",
    "sys/class/dmi/id/bios_version": "3.4",
    "sys/class/dmi/id/bios_date": "10/30/2020",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/class/iommu/dmar0/intel-iommu/version": "1:0",
    "sys/class/iommu/dmar1/intel-iommu/version": "1:0",
    "sys/kernel/iommu_groups/0/type": "identity",
    "sys/kernel/iommu_groups/1/type": "identity",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz ro intel_iommu=on iommu=pt quiet",
}


def test_firmware_and_settings_of_a_server(tmp_path):
    here = host.detect(write(big_host(tmp_path), SERVER))
    assert here.microcode == "0x2007006"
    assert here.bios == "American Megatrends Inc. 3.4 10/30/2020"
    assert here.transparent_huge_pages == "madvise"
    assert here.iommu == "identity (intel_iommu=on iommu=pt)"
    assert [device.firmware for device in here.rdma] == ["20.31.1014", "0.0.0"]


def test_processors_of_two_revisions_are_both_named(tmp_path):
    text = "microcode\t: 0x2\n\nmicrocode\t: 0x1\n\nmicrocode\t: 0x2"
    assert host.microcode(write(tmp_path, {"proc/cpuinfo": text})) == "0x1, 0x2"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"sys/kernel/iommu_groups/0/type": "DMA"}, "DMA"),
        ({"sys/kernel/iommu_groups/0/type": "DMA", "sys/kernel/iommu_groups/7/type": "identity"},
         "DMA, identity"),
        ({}, "on"),  # kernels before 5.11 have groups without a type
    ],
)  # fmt: skip
def test_kinds_of_the_iommu_s_domains(tmp_path, files, found):
    unit = {"sys/class/iommu/dmar0/name": "dmar0"}
    assert host.iommu(write(tmp_path, {**unit, **files})) == found


def test_a_host_without_an_iommu_says_so_and_one_without_sysfs_is_unknown(tmp_path):
    assert host.iommu(tmp_path) is None
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    assert host.iommu(tmp_path) == "none"
    write(tmp_path, {"proc/cmdline": "quiet amd_iommu=off"})
    assert host.iommu(tmp_path) == "none (amd_iommu=off)"


def test_what_cannot_be_read_is_unknown(tmp_path):
    bare = host.detect(tmp_path)
    assert (bare.bios, bare.microcode, bare.transparent_huge_pages) == (None, None, None)
