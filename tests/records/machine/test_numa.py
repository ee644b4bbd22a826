"""Where memory lies: lines of the kernel as it wrote them, and real processes of this host."""

import asyncio
import errno
import os
import sys
from pathlib import Path

import pytest

from records import processes

CAPTURES = Path(__file__).parents[2] / "captures" / "numa"
MIB = 2**20
#: In a process with 64 MiB of memory of its own: the policy of its mappings, and its buffers.
HOLD = "m = bytearray(64 * 2**20); print('held', flush=True); import time; time.sleep(60)"


@pytest.mark.parametrize(
    ("capture", "least_b", "found"),
    [
        # Two mappings of one message each, the origin's own and that of the target: the kernel
        # wrote N0=16384 and N0=16385 pages of 4 KiB. The target of puts touches no page of its own.
        ("ucx_posix_64M.origin", 64 * MIB, {0: (16384 + 16385) * 4096}),
        ("ucx_posix_64M.target", 64 * MIB, {}),
        # The largest mapping of a library holds 2 MiB here, the largest buffer of the target too.
        ("ucx_posix_64M.target", 2 * MIB, {0: 512 * 4096}),
        # Two NUMA nodes emulated by QEMU: N1=46 pages hold twice 64 KiB, nothing else is as large.
        # Mappings of the device (file=/dev/infiniband/uverbs0) are no buffers of the program's.
        ("ib_read_bw_node1.target", 65536, {1: 46 * 4096}),
    ],
)
def test_buffers_of_captured_processes(capture, least_b, found):
    lines = (CAPTURES / f"{capture}.txt").read_text().splitlines()
    assert processes.read_maps(lines, least_b) == found


def test_pages_are_added_up_by_node_in_their_own_size():
    # Written by hand after the format of numa(7); huge pages are 2048 KiB.
    text = [
        "7f00 bind:1 anon=300 dirty=300 N0=44 N1=256 kernelpagesize_kB=4",
        "7f10 bind:1 file=/anon_hugepage huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048",
        "7f20 bind:1 file=/lib/libc.so mapped=900 N0=900 kernelpagesize_kB=4",
        "7f30 bind:1",
    ]
    assert processes.read_maps(text, MIB) == {0: 44 * 4096, 1: 256 * 4096 + 3 * 2 * MIB}


def numa_maps(pid):
    path = Path(f"/proc/{pid}/numa_maps")
    if not path.exists():
        pytest.skip("the kernel has no numa_maps")
    return path.read_text()


def test_a_process_gets_its_memory_from_the_node_alone():
    async def run():
        pipe = asyncio.subprocess.PIPE
        process = await processes.spawn([sys.executable, "-c", HOLD], {}, [], pipe, pipe, 0)
        try:
            assert await process.stdout.readline() == b"held\n"
            return numa_maps(process.pid), processes.buffers_b(process.pid, 64 * MIB)
        finally:
            await processes.stop(process)

    text, found = asyncio.run(run())
    assert all(line.split()[1] == "bind:0" for line in text.splitlines())
    assert found[0] >= 64 * MIB
    assert "bind:0" not in numa_maps("self")  # ours is as it was
    # Nothing of this process is registered with a device.
    assert processes.pinned_b(os.getpid()) == 0
    assert processes.pinned_b(2**22 + 1) is None  # beyond the largest number of a process
    with pytest.raises(OSError, match=r"NUMA node 1023: this host has 0") as refused:
        processes.check_binding(1023)
    assert refused.value.errno == errno.EINVAL
