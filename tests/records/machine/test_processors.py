from fnmatch import fnmatchcase

import pytest

from records.machine.host import FAMILIES, processor_family, processor_identity

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz
stepping\t: 7
processor\t: 1
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
stepping\t: 4
"""
GRACE = """processor\t: 0
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0
"""


def test_the_first_processor_is_identified():
    assert processor_identity(XEON) == "GenuineIntel-6-85-7"
    assert processor_identity(GRACE) == "ARM-0x41-0xd4f"


@pytest.mark.parametrize("text", ["", "processor : 0\n", "vendor_id : x\ncpu family : 6\n"])
def test_what_is_not_said_is_not_known(text):
    assert processor_identity(text) == ""
    assert processor_family(processor_identity(text)) is None


@pytest.mark.parametrize(
    ("cpu", "family"),
    [
        # Models as in the kernel's arch/x86/include/asm/intel-family.h, and AMD's family and model
        # numbers as in its arch/x86/kernel/cpu/amd.c.
        ("GenuineIntel-6-45-7", "Sandy Bridge-EP"),
        ("GenuineIntel-6-63-2", "Haswell-EP"),
        ("GenuineIntel-6-79-1", "Broadwell-EP"),
        ("GenuineIntel-6-85-4", "Skylake-SP"),
        ("GenuineIntel-6-85-7", "Cascade Lake"),
        ("GenuineIntel-6-106-6", "Ice Lake-SP"),
        ("GenuineIntel-6-143-8", "Sapphire Rapids"),
        ("GenuineIntel-6-207-2", "Emerald Rapids"),
        ("GenuineIntel-6-173-1", "Granite Rapids"),
        ("AuthenticAMD-23-49-0", "Zen 2"),
        ("AuthenticAMD-25-1-1", "Zen 3"),
        ("AuthenticAMD-25-17-1", "Zen 4"),
        ("AuthenticAMD-25-160-2", "Zen 4"),
        ("AuthenticAMD-26-2-1", "Zen 5"),
        ("AuthenticAMD-26-17-0", "Zen 5"),
        ("ARM-0x46-0x001", "A64FX"),
        ("GenuineIntel-6-85-11", None),
        ("GenuineIntel-6-58-9", None),
    ],
)
def test_families(cpu, family):
    assert processor_family(cpu) == family


def test_no_identity_belongs_to_two_families():
    for model in range(256):
        for vendor in ("GenuineIntel-6", "AuthenticAMD-23", "AuthenticAMD-25", "AuthenticAMD-26"):
            for stepping in range(16):
                cpu = f"{vendor}-{model}-{stepping}"
                alone = [name for name, own in FAMILIES.items() if _matches(cpu, own)]
                assert len(alone) <= 1, cpu


def _matches(cpu: str, patterns) -> bool:
    return any(fnmatchcase(cpu, pattern) for pattern in patterns)
