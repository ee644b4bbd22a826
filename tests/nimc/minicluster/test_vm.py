"""Kernel, initramfs and QEMU command lines of a minicluster's virtual machines."""

import itertools
import lzma
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from records.errors import InputError, MachineError
from testbed import vm
from testbed.spec import CHECKOUT, ClusterLayout, Spec
from tests.nimc.checkouts import program

LAYOUT = ClusterLayout(Path("/tmp/mc"))


def boot_image(payload: bytes, setup_sectors: int) -> bytes:
    head = bytearray((setup_sectors + 1) * 512 + 100)
    head[0x1F1] = setup_sectors
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 100, len(payload))
    return bytes(head) + payload + b"what follows"


def test_the_kernel_is_extracted_from_its_boot_image() -> None:
    packed = lzma.compress(b"\x7fELF kernel", check=lzma.CHECK_CRC32)
    # The last four bytes of the payload are its uncompressed size.
    assert vm.elf_payload(boot_image(packed + b"\x0b\0\0\0", 27)) == b"\x7fELF kernel"


def test_images_of_other_formats_are_refused() -> None:
    with pytest.raises(MachineError, match="no x86 boot image"):
        vm.elf_payload(bytes(4096))
    with pytest.raises(MachineError, match="neither xz nor zstd"):
        vm.elf_payload(boot_image(b"\x1f\x8b gzip", 4))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_the_kernel_of_debian_13_is_extracted() -> None:
    plain = b"\x7fELF kernel"
    packed = subprocess.run(["zstd", "-c"], input=plain, capture_output=True, check=True).stdout
    assert vm.elf_payload(boot_image(packed + b"\x0b\0\0\0", 27)) == plain
    with pytest.raises(MachineError, match=r"^the kernel's payload: \S"):
        vm.elf_payload(boot_image(packed[:-3] + b"\x0b\0\0\0", 27))


def test_kernel_modules_are_ordered_after_the_modules_that_they_need() -> None:
    module = b"\x7fELF\0license=GPL\0depends=ib_core,udp_tunnel\0x=y\0"
    assert vm.dependencies(module) == ["ib_core", "udp_tunnel"]
    assert vm.dependencies(b"\0depends=\0") == []
    needs = {"rxe": ["core", "tunnel"], "cm": ["core"], "tunnel": ["base"]}
    order = vm.with_dependencies(["rxe", "cm"], lambda name: needs.get(name, []))
    assert order == ["core", "base", "tunnel", "rxe", "cm"]


@pytest.fixture(params=["lib", "usr/lib"])
def modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """Returns the folder of modules of a kernel package: all that guests need is built in.

    It is below `lib` in Debian 12, and below `usr/lib` in Debian 13.
    """
    program(tmp_path / "bin", "busybox", "")
    monkeypatch.setattr(vm, "PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(vm, "KERNEL_PACKAGE", tmp_path)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot" / "vmlinuz-6.12").write_bytes(boot_image(lzma.compress(b"kernel"), 4))
    folder = tmp_path / request.param / "modules" / "6.12"
    (folder / "kernel").mkdir(parents=True)
    lines = [f"kernel/{name.replace('_', '-')}.ko\n" for name in vm.KERNEL_MODULES]
    (folder / "modules.builtin").write_text("".join(lines))
    return folder


def test_modules_of_debian_13_are_decompressed(modules: Path, tmp_path: Path) -> None:
    plain = b"\x7fELF rxe\0depends=ib_core\0"
    (modules / "kernel" / "rdma_rxe.ko.xz").write_bytes(lzma.compress(plain))
    (modules / "kernel" / "ib_core.ko").write_bytes(b"\x7fELF core\0depends=\0")
    others = (modules / "modules.builtin").read_text().replace("kernel/rdma-rxe.ko\n", "")
    (modules / "modules.builtin").write_text(others)
    _, initramfs = vm.make_images(tmp_path)
    archive = initramfs.read_bytes()
    assert plain in archive
    assert b"mods/order\0" in archive
    assert b"\0ib_core\nrdma_rxe\n\0" in archive  # nothing that is built in


def test_a_module_that_is_neither_a_file_nor_built_in_is_named(
    modules: Path, tmp_path: Path
) -> None:
    text = (modules / "modules.builtin").read_text()
    # A newer rdma_rxe needs no crc32_generic.
    (modules / "modules.builtin").write_text(text.replace("crc32-generic", "x"))
    vm.make_images(tmp_path)
    (modules / "modules.builtin").write_text(text.replace("rdma-ucm", "x"))
    with pytest.raises(MachineError, match=r"6\.12 has no kernel module rdma_ucm"):
        vm.make_images(tmp_path)


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_can_read_the_archive(tmp_path: Path) -> None:
    data = vm.cpio_archive(
        [("d", 0o040755, b""), ("d/f", 0o100640, b"12345"), ("d/g", 0o100755, b"")]
    )
    done = subprocess.run(["cpio", "-i"], input=data, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "d/f").read_bytes() == b"12345"
    assert (tmp_path / "d/f").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "d/g").read_bytes() == b""


def line(spec: Spec, accelerator: vm.Accelerator = "tcg") -> list[str]:
    image = vm.Image(Path("/k"), Path("/i"), accelerator)
    node = spec.members()[-1]
    return vm.qemu_command(spec, LAYOUT, node, "10.77.5", image, Path("/opt/slurm/sbin"))


def after(option: str, words: list[str]) -> list[str]:
    return [value for name, value in itertools.pairwise(words) if name == option]


def within(pattern: str, option: str, words: list[str]) -> list[str]:
    return re.findall(pattern, " ".join(after(option, words)))


def test_a_machine_gets_its_name_networks_and_folders() -> None:
    words = line(Spec(fabric="rxe", nodes=3, origins=1, rails=2, shares=("/srv/results",)))
    (kernel,) = after("-append", words)
    named = {"nimc_name=node3", "nimc_address=10.77.5.3/24", "nimc_state=/tmp/mc"}
    assert named | {"nimc_slurm=/opt/slurm/sbin"} <= set(kernel.split())
    assert after("-smp", words) == ["1,sockets=1,cores=1,threads=1"]
    assert within(r"ifname=(\w+)", "-netdev", words) == ["tap3", "tap3r1"]
    macs = within(r"mac=([0-9a-f:]+)", "-device", words)
    assert len(macs) == len(set(macs)) == 2
    # The host's root is read-only.
    folders = after("-fsdev", words)
    exports = zip(within(r"path=([^,]*)", "-fsdev", words), folders, strict=True)
    assert {path: "readonly=on" in folder for path, folder in exports} == {
        "/": True,
        "/tmp/mc": False,
        str(CHECKOUT): False,
        "/srv/results": False,
    }
    # A folder within a shared folder is not shared again.
    spec = Spec(fabric="rxe", nodes=3, origins=1, shares=(f"{CHECKOUT}/results", "/srv"))
    shared = vm.shares(spec, LAYOUT).values()
    assert sorted(shared) == sorted([CHECKOUT, Path("/srv"), Path("/tmp/mc")])


@pytest.mark.parametrize("folder", ["/", "/srv/my results", "/srv/a,b"])
def test_folders_that_cannot_be_shared_are_refused(folder: str) -> None:
    with pytest.raises(InputError, match=f"^--share {folder}: "):
        vm.shares(Spec(fabric="rxe", nodes=3, origins=1, shares=(folder,)), LAYOUT)


def test_each_numa_node_is_a_socket_with_its_processors_and_half_the_memory() -> None:
    words = line(Spec(fabric="rxe", nodes=3, origins=1, numa=2, cores=4, memory_mib=1001))
    sizes = [int(x) for x in within(r"size=(\d+)M", "-object", words)]
    assert (len(sizes), sum(sizes)) == (2, 1001)
    assert after("-smp", words) == ["8,sockets=2,cores=4,threads=1"]
    cpus = [node.partition("cpus=")[2] for node in after("-numa", words)]
    assert cpus == ["0-3", "4-7"]
    assert after("-numa", line(Spec(fabric="rxe", nodes=3, origins=1))) == []
