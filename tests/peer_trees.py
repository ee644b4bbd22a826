"""Compares facts that nimc detects in test data of other projects with those of other tools.

The test data are /proc and /sys files of real machines.

    python -m tests.peer_trees hwloc FOLDER   tests/hwloc/linux of open-mpi/hwloc; needs lstopo
    python -m tests.peer_trees procfs FILE    testdata/fixtures.ttar of prometheus/procfs

The first command prints the differences from `lstopo`. The second prints the RDMA devices in the
data of procfs, each with the counter of its bytes. In data of hwloc, some differences are meant:
`lstopo` also reads CPUID, device trees, and files that only kernels before 2010 had.
"""

import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from conductor import counters
from records.machine import devices
from records.machine.host import Host, detect

_LEVELS = range(1, 6)
_USAGE = "usage: python -m tests.peer_trees hwloc FOLDER | procfs FILE"


@dataclass(frozen=True)
class Facts:
    """The facts of a host that are compared."""

    sockets: int
    cores: int
    threads: int
    memory_nodes: int
    llc_b: int


def detected_facts(host: Host) -> Facts:
    """Return the facts of a host as nimc detects them."""
    with_memory = [node for node in host.numa_nodes if node.memory_b]
    llc_b = host.llc_total_b or 0
    return Facts(host.sockets, host.cores, host.threads, len(with_memory), llc_b)


def lstopo_facts(root: Path) -> Facts | None:
    """Return the facts that `lstopo` gives; None if it cannot read the tree."""
    command = ["lstopo-no-graphics", "--input", str(root), "--of", "xml", "--no-io", "--disallowed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return None
    objects = [item.attrib for item in ET.fromstring(done.stdout).iter("object")]
    kinds = [item["type"] for item in objects]
    nodes = [item for item in objects if item["type"] == "NUMANode"]
    caches = {f"L{level}Cache" for level in _LEVELS} & set(kinds)
    last = max(caches, default="")
    return Facts(
        sockets=kinds.count("Package"),
        cores=kinds.count("Core"),
        threads=kinds.count("PU"),
        memory_nodes=len([node for node in nodes if int(node.get("local_memory", 0))]),
        llc_b=sum(int(item["cache_size"]) for item in objects if item["type"] == last),
    )


def differences(root: Path) -> Iterator[str]:
    """Yield a line for each detected fact of a tree for which `lstopo` gives another value."""
    theirs = lstopo_facts(root)
    if theirs is None:
        yield "lstopo cannot read it"
        return
    ours = vars(detected_facts(detect(root)))
    for name, value in vars(theirs).items():
        if ours[name] != value:
            yield f"{name}: {ours[name]}, lstopo {value}"


def compare_hwloc(folder: Path) -> None:
    """Print the differences for each archived tree in a folder."""
    archives, agreed = sorted(folder.glob("*.tar.bz2")), 0
    for archive in archives:
        with TemporaryDirectory() as unpacked, tarfile.open(archive) as tree:
            tree.extractall(unpacked, filter="data")
            (root,) = Path(unpacked).iterdir()
            rows = [*differences(root)]
        agreed += not rows
        print("\n  ".join([archive.name.partition(".")[0], *(rows or ["agrees"])]), flush=True)
    print(f"{agreed} of {len(archives)} agree")


def unpack(archive: Path, folder: Path) -> None:
    """Write the files and links of an archive of ttar.

    In such an archive, lines of keys come before the lines of a file's text.
    """
    path, lines_left = folder, 0
    for line in archive.read_text().split("\n"):
        key, _, value = line.partition(": ")
        if lines_left:
            lines_left -= 1
            text = line.removesuffix("EOF").replace("NULLBYTE", "\0")
            with path.open("a") as file:
                file.write(text if line.endswith("EOF") else f"{text}\n")
        elif key in ("Path", "Directory"):
            path = folder / value
            (path if key == "Directory" else path.parent).mkdir(parents=True, exist_ok=True)
        elif key == "SymlinkTo":
            path.symlink_to(value)
        elif key == "Lines":
            path.touch()
            lines_left = int(value)


def show_procfs(archive: Path) -> None:
    """Print each RDMA device with its ports and the counter of its received bytes."""
    with TemporaryDirectory() as unpacked:
        unpack(archive, Path(unpacked))
        (root,) = Path(unpacked).iterdir()
        for device in devices.detect(root / "sys"):
            reading = counters.read(device.name, "received", root)
            counted = f"{reading.name} {reading.bytes_b} B" if reading else "counted by nothing"
            ports = (f"{port.state} {port.rate_b_s or 0:.4g} B/s" for port in device.ports)
            print(f"{device.name}: {device.transport}; {', '.join(ports)}; {counted}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("hwloc", "procfs"):
        sys.exit(_USAGE)
    (compare_hwloc if sys.argv[1] == "hwloc" else show_procfs)(Path(sys.argv[2]))
