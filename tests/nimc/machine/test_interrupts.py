"""Interrupts of made devices: a real NIC has one for each queue."""

from nimc.machine.host import interrupts_of_devices
from tests.nimc.node.sysfs import write

FILES = {
    "sys/class/infiniband/mlx5_0/device/msi_irqs/90": "msix",
    "sys/class/infiniband/mlx5_0/device/msi_irqs/91": "msix",
    "sys/class/infiniband/mlx5_0/device/msi_irqs/92": "msix",
    "sys/class/net/eth0/device/msi_irqs/40": "msi",
    "sys/class/net/veth0/address": "02:00:00:00:00:01",
    "proc/irq/90/smp_affinity_list": "0-63",
    "proc/irq/90/effective_affinity_list": "63",
    "proc/irq/91/smp_affinity_list": "63",
    "proc/irq/91/effective_affinity_list": "63",
    # An older kernel's.
    "proc/irq/92/smp_affinity_list": "0-31",
    # Of eth0's nothing is known.
}


def test_each_device_with_the_cpus_of_its_interrupts(tmp_path):
    assert interrupts_of_devices(write(tmp_path, FILES)) == {"mlx5_0": {"0-31": 1, "63": 2}}


def test_a_host_without_devices_has_none(tmp_path):
    assert interrupts_of_devices(tmp_path) == {}
