"""Virtual machines: the nodes of the rxe fabric."""

from __future__ import annotations

import lzma
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from records.errors import InputError, MachineError
from records.files import replace_bytes, replace_text
from records.kernel_text import number, read
from records.programs import ask, last_line
from testbed import namespaces
from testbed.daemons import CONTROL
from testbed.shell import PATH, environment, start
from testbed.spec import CHECKOUT, SITE, ClusterLayout, Node, Spec

# Kernel (uncompressed) and initramfs of the virtual machines.
#
# Both are made from Debian's stock kernel package, which site/minicluster/install.sh unpacks.


#: Where install.sh unpacks the kernel package.
KERNEL_PACKAGE = Path("/var/cache/nimc-minicluster")

#: Modules loaded before anything else runs, with their dependencies.
MODULES = (
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_net",
    # rdma_rxe requests its checksum by name, at a time when nothing can load it.
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
)


def make_images(folder: Path) -> tuple[Path, Path]:
    """Write `vmlinux` and `initramfs` to a folder and return their paths."""
    kernels = sorted((KERNEL_PACKAGE / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise MachineError(f"no kernel in {KERNEL_PACKAGE}: site/minicluster/install.sh fetches it")
    kernel = kernels[-1]
    version = kernel.name.removeprefix("vmlinuz-")
    vmlinux, initramfs = folder / "vmlinux", folder / "initramfs"
    replace_bytes(vmlinux, payload(kernel.read_bytes()))
    replace_bytes(initramfs, archive(_initramfs(KERNEL_PACKAGE / "lib" / "modules" / version)))
    return vmlinux, initramfs


#: Length of the part of a boot image that is read, bytes.
_HEADER_B = 0x250


def payload(image: bytes) -> bytes:
    """The ELF file within an x86 boot image compressed with xz, which QEMU boots without a BIOS.

    Source of the offsets: the kernel's Documentation/arch/x86/boot.rst.
    """
    if image[0x202:0x206] != b"HdrS" or len(image) < _HEADER_B:
        raise MachineError("the kernel is no x86 boot image")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    try:
        return lzma.LZMADecompressor().decompress(image[start : start + length])
    except lzma.LZMAError as error:
        raise MachineError(f"the kernel's payload is not compressed with xz: {error}") from error


def dependencies(module: bytes) -> list[str]:
    """Names of the modules that a module file depends on."""
    for entry in module.split(b"\0"):
        if entry.startswith(b"depends="):
            return [name for name in entry[8:].decode(errors="replace").split(",") if name]
    return []


def in_order(wanted: Iterable[str], depends: Callable[[str], list[str]]) -> list[str]:
    """The modules and their dependencies, each after what it depends on."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name not in order:
            for needed in depends(name):
                visit(needed)
            order.append(name)

    for name in wanted:
        visit(name)
    return order


def archive(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive in `newc` format of (path, mode, content), which the kernel unpacks."""
    parts = []
    for inode, (path, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], start=1):
        name = path.encode() + b"\0"
        fields = [inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        parts += [_padded(header + name), _padded(content)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _initramfs(modules: Path) -> list[tuple[str, int, bytes]]:
    busybox = shutil.which("busybox", path=PATH)
    if busybox is None:
        raise MachineError("busybox is missing: site/minicluster/install.sh installs it")
    paths = {
        Path(name).stem.replace("-", "_"): Path(folder) / name
        for folder, _, names in os.walk(modules / "kernel")
        for name in names
        if name.endswith(".ko")
    }

    def depends(name: str) -> list[str]:
        """Return what is not a file is built into the kernel."""
        return dependencies(paths[name].read_bytes()) if name in paths else []

    order = [name for name in in_order(MODULES, depends) if name in paths]
    folders = ("bin", "proc", "sys", "dev", "mods", "ro", "rw", "new")
    return [
        *((name, 0o040755, b"") for name in folders),
        ("bin/busybox", 0o100755, Path(busybox).read_bytes()),
        ("init", 0o100755, (SITE / "guest-boot.sh").read_bytes()),
        ("mods/order", 0o100644, "".join(f"{name}\n" for name in order).encode()),
        *((f"mods/{name}.ko", 0o100644, paths[name].read_bytes()) for name in order),
    ]


Accelerator = Literal["kvm", "tcg"]

#: A kernel under KVM prints its first line well within this; an emulated one takes longer.
PROBE_S = 3.0
PROBE_SAYS = "nimc: the probe runs"

#: Options that save time at boot, and that keep the kernel from rejecting an emulated clock.
_KERNEL = (
    "console=ttyS0 panic=-1 nokaslr mitigations=off audit=0 apparmor=0 random.trust_cpu=on "
    "8250.nr_uarts=1 cryptomgr.notests nowatchdog loglevel=3"
)
_KERNEL_TCG = "no_timer_check tsc=reliable lpj=2600000"


@dataclass(frozen=True)
class Image:
    """Kernel, initramfs and accelerator of all machines of a cluster."""

    kernel: Path
    initramfs: Path
    accelerator: Accelerator


def start_nodes(
    spec: Spec, layout: ClusterLayout, subnet: str
) -> tuple[Accelerator, Callable[[], None]]:
    """Start the nodes' machines. The second value raises `MachineError` if one has ended."""
    lines = [f"{tag} {folder}\n" for tag, folder in shares(spec, layout).items()]
    replace_text(layout.state / "shares", "".join(lines))  # for guest-boot.sh
    kernel, initramfs = make_images(layout.state / "run")
    image = Image(kernel, initramfs, choose_accelerator(layout, kernel, initramfs))
    running: dict[str, subprocess.Popen[bytes]] = {}
    for node in spec.members():
        for rail, bridge in enumerate(namespaces.BRIDGES[: spec.rails]):
            namespaces.plug_tap(layout.netns(CONTROL), _tap(node, rail), bridge)
        line = qemu_command(spec, layout, node, subnet, image)
        running[node.name] = start([*_enter(layout), *line], layout.log(node.name))

    def check() -> None:
        for name, process in running.items():
            if process.poll() is not None:
                output = last_line(read(layout.log(name)))
                raise MachineError(f"virtual machine {name} ended: {output}")

    return image.accelerator, check


def _enter(layout: ClusterLayout) -> list[str]:
    """Enter the controller's network namespace, where the taps are and `down` searches."""
    return ["nsenter", f"--net={namespaces.NETNS / layout.netns(CONTROL)}"]


def choose_accelerator(layout: ClusterLayout, kernel: Path, initramfs: Path) -> Accelerator:
    """KVM if a machine boots with it: on nested hosts /dev/kvm may exist but not work."""
    if not Path("/dev/kvm").exists():
        return "tcg"
    image = Image(kernel, initramfs, "kvm")
    append = f"{_KERNEL} nimc_probe=1"
    line = [*machine(image, 256), "-smp", "1", "-serial", "stdio", "-append", append]
    answer = ask([*_enter(layout), *line], environment(), timeout_s=PROBE_S)
    return "kvm" if PROBE_SAYS in answer.stdout else "tcg"


def machine(image: Image, memory_mib: int) -> list[str]:
    """Common part of QEMU's command line for the probe and the nodes."""
    accelerator = "tcg,tb-size=256" if image.accelerator == "tcg" else "kvm"
    return [
        "qemu-system-x86_64",
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-machine",
        "q35",
        "-accel",
        accelerator,
        "-cpu",
        "max",
        "-m",
        str(memory_mib),
        "-kernel",
        str(image.kernel),
        "-initrd",
        str(image.initramfs),
    ]


def qemu_command(
    spec: Spec, layout: ClusterLayout, node: Node, subnet: str, image: Image
) -> list[str]:
    """QEMU's command line for a node."""
    kernel = (
        f"{_KERNEL} {_KERNEL_TCG if image.accelerator == 'tcg' else ''} nimc_name={node.name} "
        f"nimc_address={subnet}.{node.index}/24 nimc_state={layout.state} nimc_site={SITE} "
        f"nimc_rails={spec.rails} nimc_slurm={slurm_folder()}"
    )
    filesystems = _filesystem("root", Path("/"), ",readonly=on")
    for tag, folder in shares(spec, layout).items():
        filesystems += _filesystem(tag, folder, "")
    return [
        *machine(image, spec.memory_mib),
        "-smp",
        f"{spec.numa * spec.cores},sockets={spec.numa},cores={spec.cores},threads=1",
        *_numa(spec),
        *filesystems,
        *_networks(spec, node),
        "-name",
        f"{layout.tag}-{node.name}",
        "-pidfile",
        str(_pidfile(layout, node.name)),
        "-serial",
        "stdio",
        "-append",
        kernel,
    ]


def slurm_folder() -> Path:
    """Return where the cluster's slurmd is: that of the guests must be the same."""
    slurmd = shutil.which("slurmd", path=PATH)
    if slurmd is None:
        raise MachineError("slurmd is missing: site/minicluster/install.sh installs it")
    return Path(slurmd).parent


def _tap(node: Node, rail: int) -> str:
    return f"tap{node.index}r{rail}" if rail else f"tap{node.index}"


def _networks(spec: Spec, node: Node) -> list[str]:
    """A network interface for each rail, in the order of the guest's eth0 and eth1."""
    words = []
    for rail in range(spec.rails):
        tap, mac = _tap(node, rail), f"52:54:00:00:{rail:02x}:{node.index:02x}"
        words += [
            "-netdev",
            f"tap,id=net{rail},ifname={tap},script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=net{rail},host_mtu={namespaces.MTU_B},mac={mac}",
        ]
    return words


def _filesystem(tag: str, folder: Path, options: str) -> list[str]:
    local = f"local,id={tag},path={folder},security_model=none,multidevs=remap{options}"
    return ["-fsdev", local, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _numa(spec: Spec) -> Sequence[str]:
    """Two nodes, each a socket with half of the memory. Topology only: latencies are equal."""
    if spec.numa == 1:
        return []
    half_mib = spec.memory_mib // 2
    words = []
    for node, size_mib in enumerate((spec.memory_mib - half_mib, half_mib)):
        first, last = node * spec.cores, (node + 1) * spec.cores - 1
        words += [
            "-object",
            f"memory-backend-ram,id=m{node},size={size_mib}M",
            "-numa",
            f"node,nodeid={node},memdev=m{node},cpus={first}-{last}",
        ]
    return words


def shares(spec: Spec, layout: ClusterLayout) -> dict[str, Path]:
    """Tag -> folder that guests may write to. A folder within another one is not shared twice."""
    wanted = {layout.state, CHECKOUT, *(Path(folder) for folder in spec.shares)}
    for folder in wanted:
        if folder == Path("/") or any(c.isspace() or c == "," for c in str(folder)):
            raise InputError(
                f"--share {folder}: allowed: folders below / without spaces and commas in their "
                "path; the same holds for the checkout"
            )
    outer = sorted(folder for folder in wanted if wanted.isdisjoint(folder.parents))
    return {f"share{i}": folder for i, folder in enumerate(outer)}


def pid(layout: ClusterLayout, name: str) -> int | None:
    """Id of a machine's QEMU, None if it is not running."""
    written = number(read(_pidfile(layout, name)))
    # The id may have been reused: it must be a process of this cluster.
    return written if written in namespaces.processes([layout.netns(CONTROL)]) else None


def _pidfile(layout: ClusterLayout, name: str) -> Path:
    return layout.state / "run" / f"{name}.pid"
