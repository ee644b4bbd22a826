"""What killed writers leave in shared memory."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.shared_memory import FOLDER_VARIABLE, folder

ROOT = Path(__file__).parents[2]
#: An agent whose writer has made a file; it waits for the end of its input.
AGENT = f"""
import os, sys
from pathlib import Path
from conductor.shared_memory import folder
with folder(Path(sys.argv[1])):
    Path(os.environ["{FOLDER_VARIABLE}"], "ucx_shm_posix_1").write_text("buffer")
    print("ready", flush=True)
    sys.stdin.read()
"""


def agent(within: Path) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(within)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "ready\n"
    return started


def test_the_next_agent_removes_what_a_killed_one_left_and_nothing_of_a_live_one(
    tmp_path: Path,
) -> None:
    killed = agent(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))  # a folder that is new may not be locked yet
    live = agent(tmp_path)
    assert not left.exists()
    (of_live,) = tmp_path.iterdir()
    os.utime(of_live, (0, 0))
    with folder(tmp_path):
        assert {of_live, Path(os.environ[FOLDER_VARIABLE])} == set(tmp_path.iterdir())
    assert [path.name for path in of_live.iterdir()] == ["ucx_shm_posix_1"]
    live.communicate("")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "mpich_shm_{}_0",
        "mpich_shar_tmp{}",
        "vader_segment.node1.0.2edf000{}.0",  # Open MPI 4.1
        "sm_segment.node1.0.2edf000{}.0",  # Open MPI 5.0
        "osc_rdma.node1.2edf000{}.3",  # of windows, until all ranks have them
        "osc_sm.node1.2edf000{}.0.3",
    ],
)
def test_files_of_an_mpi_stay_while_a_process_maps_them(tmp_path: Path, name: str) -> None:
    left, mapped, new = (tmp_path / name.format(number) for number in (1, 2, 3))
    for path in (left, mapped, new):
        path.write_bytes(bytes(4096))
    with mapped.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        os.utime(left, (0, 0))
        os.utime(mapped, (0, 0))
        with folder(tmp_path):
            assert (left.exists(), mapped.exists(), new.exists()) == (False, True, True)
    with folder(tmp_path):
        assert [path.name for path in tmp_path.glob(name.format("*"))] == [new.name]


def test_folders_of_others_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "nimc-writers-link").symlink_to(tmp_path / "mine")
    if os.geteuid() == 0:
        (tmp_path / "nimc-writers-theirs").mkdir()
        os.chown(tmp_path / "nimc-writers-theirs", 65534, 65534)
    before = set(tmp_path.iterdir())
    with folder(tmp_path):
        pass
    assert set(tmp_path.iterdir()) == before


def test_without_room_for_a_folder_writers_have_none() -> None:
    with folder(Path("/proc")):
        assert FOLDER_VARIABLE not in os.environ
