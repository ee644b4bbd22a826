"""Kernel (uncompressed) and initramfs of the virtual machines.

Both are made from Debian's stock kernel package, which site/minicluster/install.sh unpacks.
"""

from __future__ import annotations

import lzma
import os
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from analysis.errors import MachineError
from analysis.replacing import replace
from campaigns.minicluster.layout import SITE
from campaigns.minicluster.shell import PATH

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


def make(folder: Path) -> tuple[Path, Path]:
    """Write `vmlinux` and `initramfs` to a folder and return their paths."""
    kernels = sorted((KERNEL_PACKAGE / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise MachineError(f"no kernel in {KERNEL_PACKAGE}: site/minicluster/install.sh fetches it")
    kernel = kernels[-1]
    version = kernel.name.removeprefix("vmlinuz-")
    vmlinux, initramfs = folder / "vmlinux", folder / "initramfs"
    replace(vmlinux, payload(kernel.read_bytes()))
    replace(initramfs, archive(_initramfs(KERNEL_PACKAGE / "lib" / "modules" / version)))
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
    # What is not a file is built into the kernel.
    order = [
        name
        for name in in_order(
            MODULES, lambda m: dependencies(paths[m].read_bytes()) if m in paths else []
        )
        if name in paths
    ]
    folders = [
        (name, 0o040755, b"") for name in ("bin", "proc", "sys", "dev", "mods", "ro", "rw", "new")
    ]
    return [
        *folders,
        ("bin/busybox", 0o100755, Path(busybox).read_bytes()),
        ("init", 0o100755, (SITE / "guest-boot.sh").read_bytes()),
        ("mods/order", 0o100644, "".join(f"{name}\n" for name in order).encode()),
        *((f"mods/{name}.ko", 0o100644, paths[name].read_bytes()) for name in order),
    ]
