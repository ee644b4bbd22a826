"""Mappings as UCX 1.22 made them, and marks in the memory of a real process."""

import mmap
import os
import subprocess
import sys

import pytest

from nimc.node import meter

#: Lines of /proc/PID/maps of both ends of `ucx_perftest -s 65536` over POSIX shared memory. The
#: buffers have 64 KiB and a page; FIFOs have 36864 B.
TARGET = """\
0f6a3000-0f717000 rw-p 00000000 00:00 0                                  [heap]
7fa3501e6000-7fa3505ff000 rw-s 00000000 00:1b 5951                       /dev/shm/ucx_shm_posix_1
7fa351d1a000-7fa351d23000 rw-s 00000000 00:1b 5946                       /dev/shm/ucx_shm_posix_2
7fa351d67000-7fa351d78000 rw-s 00000000 00:1b 5945                       /dev/shm/ucx_shm_posix_3
7fa351d99000-7fa351daa000 rw-s 00000000 00:1b 5949                       /dev/shm/ucx_shm_posix_4
7fa351daa000-7fa351dbb000 rw-s 00000000 00:1b 5948                       /dev/shm/ucx_shm_posix_5
7fa35220a000-7fa352213000 rw-s 00000000 00:1b 5950                       /dev/shm/ucx_shm_posix_6
"""
ORIGIN = """\
7ff0239e6000-7ff023dff000 rw-s 00000000 00:1b 5947                       /dev/shm/ucx_shm_posix_7
7ff025c9c000-7ff025ca5000 rw-s 00000000 00:1b 5950                       /dev/shm/ucx_shm_posix_6
7ff025ce9000-7ff025cfa000 rw-s 00000000 00:1b 5949                       /dev/shm/ucx_shm_posix_4
7ff025cfa000-7ff025d03000 rw-s 00000000 00:1b 5946                       /dev/shm/ucx_shm_posix_2
7ff025d24000-7ff025d35000 rw-s 00000000 00:1b 5945                       /dev/shm/ucx_shm_posix_3
7ff025d35000-7ff025d46000 rw-s 00000000 00:1b 5944                       /dev/shm/ucx_shm_posix_8
"""


def test_the_buffers_are_those_of_the_right_size_that_both_ends_share():
    assert meter.shared_buffers(TARGET, ORIGIN, 65536, 4096) == [0x7FA351D67000, 0x7FA351D99000]


@pytest.mark.parametrize(
    ("message_b", "more", "text"),
    [
        (32768, "", "messages of 32768 B are too small to look for"),  # as large as a FIFO
        (131072, "", "0 shared buffers of 131072 B found, 2 expected"),
        (65536, "7fb000000000-7fb000011000 rw-s 00000000 00:1b 7777 x\n", "3 shared buffers"),
    ],
)
def test_other_memory_is_left_alone(message_b, more, text):
    with pytest.raises(meter.LookError, match=text):
        meter.shared_buffers(TARGET + more, ORIGIN + more, message_b, 4096)


#: Maps both files that it is given, says so, and waits.
_END = """
import mmap, sys
files = [open(path, "r+b") for path in sys.argv[1:]]
kept = [mmap.mmap(file.fileno(), 0) for file in files]
print("mapped", flush=True)
sys.stdin.read()
"""


def test_marks_show_which_part_of_the_buffer_was_written(tmp_path):
    message_b = 1 << 17
    paths = [tmp_path / "target", tmp_path / "origin"]
    for path in paths:
        path.write_bytes(bytes(message_b + 4096))
    command = [sys.executable, "-S", "-c", _END, *map(str, paths)]
    ends = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for end in ends:
            assert end.stdout.readline() == b"mapped\n"
        looks = meter.Marks(ends[0].pid, ends[1].pid, message_b)
        assert looks.look() == 0
        with paths[0].open("r+b") as file, mmap.mmap(file.fileno(), 0) as buffer:
            assert any(buffer[message_b - 8 : message_b])  # the last mark is there
            buffer[: message_b // 4] = b"x" * (message_b // 4)
            assert looks.look() == 0.25  # a quarter of the message has arrived
            buffer[message_b // 4 : message_b // 2] = b"x" * (message_b // 4)
            assert looks.look() == 0.25
            assert looks.look() == 0
            buffer[:message_b] = b"x" * message_b
            assert looks.look() == 1
            # Nothing was touched but the eight bytes at the end of each of 32 parts of 4 KiB.
            parts = [bytes(buffer[at : at + 4096]) for at in range(0, message_b, 4096)]
            assert all(part[:-8] == b"x" * 4088 for part in parts)
            assert bytes(buffer[message_b:]) == bytes(4096)
        assert looks.look() == 0
        looks.close()
    finally:
        for end in ends:
            end.communicate()


def test_a_process_that_is_gone_cannot_be_looked_at():
    end = subprocess.Popen(["true"])
    end.wait()
    with pytest.raises(meter.LookError, match="the target's memory: No such file or directory"):
        meter.Marks(end.pid, os.getpid(), 65536)
