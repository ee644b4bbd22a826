"""Virtual machines: the nodes of the rxe fabric."""

from __future__ import annotations

import lzma
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
from records.programs import FILE_SYSTEM_ROOT, ask, last_line
from testbed import namespaces
from testbed.daemons import CONTROLLER
from testbed.shell import PATH, environment, start
from testbed.spec import CHECKOUT, SITE_FOLDER, ClusterLayout, Node, Spec

# The uncompressed kernel and the initramfs of the virtual machines. Both are made from Debian's
# stock kernel package, which site/minicluster/install.sh unpacks.


#: The folder into which install.sh unpacks the kernel package.
KERNEL_PACKAGE = Path("/var/cache/nimc-minicluster")

#: Modules that are loaded before anything else runs; their dependencies are loaded as well.
KERNEL_MODULES = (
    "virtio_pci",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_net",
    # rdma_rxe requests its checksum by name when nothing can load the module any more.
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
)
#: Modules that kernels newer than 6.12 may lack: their rdma_rxe has its checksum from a library.
_REMOVED_MODULES = ("crc32_generic",)


def make_images(folder: Path) -> tuple[Path, Path]:
    """Write `vmlinux` and `initramfs` to a folder and return their paths.

    Raises MachineError if the kernel package or a program is missing.
    """
    kernels = sorted((KERNEL_PACKAGE / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise MachineError(f"no kernel in {KERNEL_PACKAGE}: site/minicluster/install.sh fetches it")
    kernel = kernels[-1]
    version = kernel.name.removeprefix("vmlinuz-")
    vmlinux, initramfs = folder / "vmlinux", folder / "initramfs"
    replace_bytes(vmlinux, elf_payload(kernel.read_bytes()))
    # From Debian 13 on, the folder is below usr.
    folders = [KERNEL_PACKAGE / parent / "modules" / version for parent in ("usr/lib", "lib")]
    modules = next((folder for folder in folders if folder.is_dir()), folders[0])
    replace_bytes(initramfs, cpio_archive(_initramfs(modules)))
    return vmlinux, initramfs


# Offsets in a boot image (Documentation/arch/x86/boot.rst of the kernel).
_SETUP_SECTORS = 0x1F1
_MAGIC = slice(0x202, 0x206)
_PAYLOAD_OFFSET_AND_LENGTH = 0x248
_HEADER_END = 0x250
_SECTOR_B = 512
#: Sectors of the setup code if a boot image says 0.
_DEFAULT_SETUP_SECTORS = 4
#: The uncompressed size that follows the payload, bytes.
_SIZE_B = 4
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def elf_payload(image: bytes) -> bytes:
    """Return the ELF file in an x86 boot image; QEMU boots it without a BIOS.

    Debian 12 compresses it with xz, Debian 13 with zstd. Raises MachineError for any other image.
    """
    if image[_MAGIC] != b"HdrS" or len(image) < _HEADER_END:
        raise MachineError("the kernel is no x86 boot image")
    setup_sectors = image[_SETUP_SECTORS] or _DEFAULT_SETUP_SECTORS
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_OFFSET_AND_LENGTH)
    start = (1 + setup_sectors) * _SECTOR_B + offset  # after the boot sector and the setup code
    payload = image[start : start + length]
    if payload.startswith(_ZSTD_MAGIC):
        return _zstd_content(payload[:-_SIZE_B])
    try:
        return lzma.LZMADecompressor().decompress(payload)
    except lzma.LZMAError as error:
        fault = f"the kernel's payload is compressed with neither xz nor zstd: {error}"
        raise MachineError(fault) from error


def _zstd_content(packed: bytes) -> bytes:
    """Return what was compressed; Python has no such decompressor before 3.14."""
    command = ["zstd", "-dc"]
    done = subprocess.run(
        command, input=packed, capture_output=True, cwd=FILE_SYSTEM_ROOT, env=environment()
    )
    if done.returncode:
        raise MachineError(f"the kernel's payload: {last_line(done.stderr.decode())}")
    return done.stdout


def _module_name(file: str) -> str:
    """Return the kernel's name of a module, from the name of its file."""
    return file.partition(".ko")[0].replace("-", "_")


def _module_content(path: Path) -> bytes:
    """Return a module file's content, uncompressed; Debian 13 compresses modules with xz."""
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


#: Beginning of the entry in a module file that lists its dependencies.
_DEPENDS = b"depends="


def dependencies(module: bytes) -> list[str]:
    """Return the names of the modules that a module file depends on."""
    for entry in module.split(b"\0"):
        if entry.startswith(_DEPENDS):
            names = entry.removeprefix(_DEPENDS).decode(errors="replace").split(",")
            return [name for name in names if name]
    return []


def with_dependencies(
    modules: Iterable[str], dependencies_of: Callable[[str], list[str]]
) -> list[str]:
    """Return the modules and their dependencies, each after the modules that it depends on."""
    ordered_names: list[str] = []

    def add(name: str) -> None:
        if name not in ordered_names:
            for dependency in dependencies_of(name):
                add(dependency)
            ordered_names.append(name)

    for name in modules:
        add(name)
    return ordered_names


def cpio_archive(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive of (path, mode, content) in the kernel's format `newc`."""
    parts = []
    for inode, (path, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], start=1):
        name = path.encode() + b"\0"
        uid = gid = mtime_s = device = checksum = 0
        links = 1
        devices = [device] * 4  # major and minor number of the file's device and of a device file
        fields = [
            inode,
            mode,
            uid,
            gid,
            links,
            mtime_s,
            len(content),
            *devices,
            len(name),
            checksum,
        ]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        parts += [_padded(header + name), _padded(content)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    """Return the data, padded with zeros to a multiple of four bytes."""
    return data + b"\0" * (-len(data) % 4)


#: Types and permissions in the initramfs.
_FOLDER_MODE, _PROGRAM_MODE, _FILE_MODE = 0o040755, 0o100755, 0o100644


def _initramfs(modules: Path) -> list[tuple[str, int, bytes]]:
    """Return the files of the initramfs: (path, mode, content).

    Raises MachineError if a module that guests need is neither in the folder nor in the kernel.
    """
    busybox = shutil.which("busybox", path=PATH)
    if busybox is None:
        raise MachineError("busybox is missing: site/minicluster/install.sh installs it")
    paths = {_module_name(path.name): path for path in (modules / "kernel").rglob("*.ko*")}
    built_in = {_module_name(Path(line).name) for line in read(modules / "modules.builtin").split()}
    contents: dict[str, bytes] = {}

    def dependencies_of(name: str) -> list[str]:
        if name in built_in or (name in _REMOVED_MODULES and name not in paths):
            return []
        if name not in paths:
            raise MachineError(f"{modules} has no kernel module {name}, which guests need")
        contents[name] = _module_content(paths[name])
        return dependencies(contents[name])

    load_order = [
        name for name in with_dependencies(KERNEL_MODULES, dependencies_of) if name in contents
    ]
    folders = ("bin", "proc", "sys", "dev", "mods", "ro", "rw", "new")
    return [
        *((name, _FOLDER_MODE, b"") for name in folders),
        ("bin/busybox", _PROGRAM_MODE, Path(busybox).read_bytes()),
        ("init", _PROGRAM_MODE, (SITE_FOLDER / "guest-boot.sh").read_bytes()),
        ("mods/order", _FILE_MODE, "".join(f"{name}\n" for name in load_order).encode()),
        *((f"mods/{name}.ko", _FILE_MODE, contents[name]) for name in load_order),
    ]


Accelerator = Literal["kvm", "tcg"]

#: Timeout of the probe of KVM, seconds. A kernel under KVM prints its first line well within this
#: time; an emulated kernel takes longer.
PROBE_TIMEOUT_S = 3.0
PROBE_MEMORY_MIB = 256
#: The line that guest-boot.sh prints in the probe.
PROBE_MESSAGE = "nimc: the probe runs"

#: Options of the kernel, most of which save time at boot.
_KERNEL_OPTIONS = (
    "console=ttyS0 panic=-1 nokaslr mitigations=off audit=0 apparmor=0 random.trust_cpu=on "
    "8250.nr_uarts=1 cryptomgr.notests nowatchdog loglevel=3"
)
#: With these options, the kernel accepts an emulated clock, and gives all processes of a program
#: the same addresses. The latter saves time, since QEMU translates code once for each address.
_EMULATED_KERNEL_OPTIONS = "no_timer_check tsc=reliable lpj=2600000 norandmaps"


@dataclass(frozen=True)
class Image:
    """Kernel and initramfs of all virtual machines of a cluster, and their accelerator."""

    kernel: Path
    initramfs: Path
    accelerator: Accelerator


def start_nodes(
    spec: Spec, layout: ClusterLayout, subnet: str
) -> tuple[Accelerator, Callable[[], None]]:
    """Start the nodes' virtual machines.

    Returns the accelerator, and a function that raises MachineError if a virtual machine has ended.
    """
    lines = [f"{tag} {folder}\n" for tag, folder in shares(spec, layout).items()]
    replace_text(layout.state / "shares", "".join(lines))  # for guest-boot.sh
    kernel, initramfs = make_images(layout.state / "run")
    image = Image(kernel, initramfs, choose_accelerator(layout, kernel, initramfs))
    slurm = slurm_folder()
    qemu_processes: dict[str, subprocess.Popen[bytes]] = {}
    for node in spec.members():
        for rail, bridge in enumerate(namespaces.BRIDGES[: spec.rails]):
            namespaces.connect_tap(layout.netns(CONTROLLER), _tap(node, rail), bridge)
        qemu = qemu_command(spec, layout, node, subnet, image, slurm)
        command = [*_enter_command(layout), *qemu]
        qemu_processes[node.name] = start(command, layout.log(node.name))

    def check_nodes() -> None:
        for name, process in qemu_processes.items():
            if process.poll() is not None:
                output = last_line(read(layout.log(name)))
                raise MachineError(f"virtual machine {name} ended: {output}")

    return image.accelerator, check_nodes


def _enter_command(layout: ClusterLayout) -> list[str]:
    """Return the command that enters the controller's network namespace.

    The taps are in it, and `down` searches it for processes.
    """
    return ["nsenter", f"--net={namespaces.NETNS / layout.netns(CONTROLLER)}"]


def choose_accelerator(layout: ClusterLayout, kernel: Path, initramfs: Path) -> Accelerator:
    """Return `kvm` if a virtual machine boots with it, and otherwise `tcg`.

    On a host that is itself a virtual machine, /dev/kvm may exist and not work.
    """
    if not Path("/dev/kvm").exists():
        return "tcg"
    image = Image(kernel, initramfs, "kvm")
    kernel_options = f"{_KERNEL_OPTIONS} nimc_probe=1"
    command = [*qemu_base_command(image, PROBE_MEMORY_MIB), "-smp", "1", "-serial", "stdio"]
    command += ["-append", kernel_options]
    answer = ask([*_enter_command(layout), *command], environment(), timeout_s=PROBE_TIMEOUT_S)
    return "kvm" if PROBE_MESSAGE in answer.stdout else "tcg"


def qemu_base_command(image: Image, memory_mib: int) -> list[str]:
    """Return the common part of QEMU's command line for the probe and the nodes."""
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
    spec: Spec, layout: ClusterLayout, node: Node, subnet: str, image: Image, slurm: Path
) -> list[str]:
    """Return QEMU's command line for a node, which runs the slurmd in the folder `slurm`."""
    emulation_options = _EMULATED_KERNEL_OPTIONS if image.accelerator == "tcg" else ""
    kernel_options = (
        f"{_KERNEL_OPTIONS} {emulation_options} nimc_name={node.name} "
        f"nimc_address={subnet}.{node.index}/24 nimc_state={layout.state} nimc_site={SITE_FOLDER} "
        f"nimc_rails={spec.rails} nimc_slurm={slurm}"
    )
    filesystems = _filesystem_options("root", Path("/"), ",readonly=on")
    for tag, folder in shares(spec, layout).items():
        filesystems += _filesystem_options(tag, folder, "")
    return [
        *qemu_base_command(image, spec.memory_mib),
        "-smp",
        f"{spec.numa * spec.cores},sockets={spec.numa},cores={spec.cores},threads=1",
        *_numa_options(spec),
        *filesystems,
        *_network_options(spec, node),
        "-name",
        f"{layout.tag}-{node.name}",
        "-pidfile",
        str(_pidfile(layout, node.name)),
        "-serial",
        "stdio",
        "-append",
        kernel_options,
    ]


def slurm_folder() -> Path:
    """Return the folder of this host's slurmd, which virtual machines must use as well.

    Raises MachineError if this host has no slurmd.
    """
    slurmd = shutil.which("slurmd", path=PATH)
    if slurmd is None:
        raise MachineError("slurmd is missing: site/minicluster/install.sh installs it")
    return Path(slurmd).parent


def _tap(node: Node, rail: int) -> str:
    return f"tap{node.index}r{rail}" if rail else f"tap{node.index}"


def _network_options(spec: Spec, node: Node) -> list[str]:
    """Return QEMU's options for the interface of each rail, in the order of eth0 and eth1."""
    options = []
    for rail in range(spec.rails):
        tap, mac = _tap(node, rail), f"52:54:00:00:{rail:02x}:{node.index:02x}"
        options += [
            "-netdev",
            f"tap,id=net{rail},ifname={tap},script=no,downscript=no",
            "-device",
            f"virtio-net-pci,netdev=net{rail},host_mtu={namespaces.MTU_B},mac={mac}",
        ]
    return options


def _filesystem_options(tag: str, folder: Path, options: str) -> list[str]:
    fsdev = f"local,id={tag},path={folder},security_model=none,multidevs=remap{options}"
    return ["-fsdev", fsdev, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _numa_options(spec: Spec) -> Sequence[str]:
    """Return QEMU's options for two NUMA nodes, or none for one.

    Each node is a socket with half of the memory. Latencies are the same as without NUMA nodes.
    """
    if spec.numa == 1:
        return []
    half_mib = spec.memory_mib // 2
    options = []
    for numa_node, size_mib in enumerate((spec.memory_mib - half_mib, half_mib)):
        first_cpu = numa_node * spec.cores
        last_cpu = first_cpu + spec.cores - 1
        options += [
            "-object",
            f"memory-backend-ram,id=m{numa_node},size={size_mib}M",
            "-numa",
            f"node,nodeid={numa_node},memdev=m{numa_node},cpus={first_cpu}-{last_cpu}",
        ]
    return options


def shares(spec: Spec, layout: ClusterLayout) -> dict[str, Path]:
    """Return tag -> folder to which virtual machines may write.

    A folder inside another shared folder needs no tag. Raises InputError for a folder that cannot
    be shared.
    """
    folders = {layout.state, CHECKOUT, *(Path(folder) for folder in spec.shares)}
    for folder in folders:
        is_invalid = any(character.isspace() or character == "," for character in str(folder))
        if folder == Path("/") or is_invalid:
            raise InputError(
                f"--share {folder}: allowed: folders below / without spaces and commas in their "
                "path; the same holds for the checkout"
            )
    outermost = sorted(folder for folder in folders if folders.isdisjoint(folder.parents))
    return {f"share{index}": folder for index, folder in enumerate(outermost)}


def pid(layout: ClusterLayout, name: str) -> int | None:
    """Return the PID of a virtual machine's QEMU; None if it is not running."""
    qemu_pid = number(read(_pidfile(layout, name)))
    # Another process may have this PID by now. So the process must be in this cluster's namespace.
    return qemu_pid if qemu_pid in namespaces.pids_in([layout.netns(CONTROLLER)]) else None


def _pidfile(layout: ClusterLayout, name: str) -> Path:
    return layout.state / "run" / f"{name}.pid"
