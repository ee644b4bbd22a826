"""Families of processors, as far as their counters differ.

A processor's identity is `GenuineIntel-6-85-7` (vendor, family, model and stepping of
/proc/cpuinfo) or `ARM-0x41-0xd4f` (implementer and part). A family has shell patterns of it, so
that both this module and a shell on a compute node can match them. Standard library only.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

#: Family -> patterns of identities.
FAMILIES: dict[str, tuple[str, ...]] = {
    "Sandy Bridge-EP": ("GenuineIntel-6-45-*",),
    "Haswell-EP": ("GenuineIntel-6-63-*",),
    "Broadwell-EP": ("GenuineIntel-6-79-*",),
    "Skylake-SP": ("GenuineIntel-6-85-[0-4]",),
    "Cascade Lake": ("GenuineIntel-6-85-[5-9]",),
    "Ice Lake-SP": ("GenuineIntel-6-106-*", "GenuineIntel-6-108-*"),
    "Sapphire Rapids": ("GenuineIntel-6-143-*",),
    "Emerald Rapids": ("GenuineIntel-6-207-*",),
    "Granite Rapids": ("GenuineIntel-6-173-*", "GenuineIntel-6-174-*"),
    "Zen 2": ("AuthenticAMD-23-49-*",),
    "Zen 3": ("AuthenticAMD-25-[0-9]-*",),
    "Zen 4": ("AuthenticAMD-25-1[6-9]-*", "AuthenticAMD-25-16[0-9]-*"),
    "Zen 5": ("AuthenticAMD-26-[0-9]-*", "AuthenticAMD-26-1[0-9]-*"),
    "A64FX": ("ARM-0x46-0x001",),
    "Grace": ("ARM-0x41-0xd4f",),
}

#: An awk program that prints the identity from /proc/cpuinfo; `identity` in the shell's words.
IDENTITY_AWK = (
    '-F"[ \\t]*: *" \'$1=="vendor_id"{v=$2} $1=="cpu family"{f=$2} $1=="model"{m=$2}'
    ' $1=="stepping"{print v"-"f"-"m"-"$2; exit} $1=="CPU implementer"{i=$2}'
    ' $1=="CPU part"{print "ARM-"i"-"$2; exit}\''
)


def identity(cpuinfo: str) -> str:
    """The identity of the first processor in the text of /proc/cpuinfo; empty if unknown."""
    found: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    x86 = [found.get(name) for name in ("vendor_id", "cpu family", "model", "stepping")]
    arm = [found.get(name) for name in ("CPU implementer", "CPU part")]
    parts = x86 if all(x86) else ["ARM", *arm] if all(arm) else []
    return "-".join(part for part in parts if part)


def family_of(identity_: str) -> str | None:
    """The family of an identity; None if it is not in the table."""
    for family, patterns in FAMILIES.items():
        if any(fnmatchcase(identity_, pattern) for pattern in patterns):
            return family
    return None
