"""Files that killed writers leave in shared memory are removed by the next agent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from conductor.shared_memory import FOLDER_VARIABLE, folder

ROOT = Path(__file__).parents[2]
#: Code of an agent whose writer has made a file. It waits until its standard input ends.
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
    os.utime(left, (0, 0))  # a new folder is not removed, since its agent may not have locked it
    live = agent(tmp_path)
    assert not left.exists()
    (live_folder,) = tmp_path.iterdir()
    os.utime(live_folder, (0, 0))
    with folder(tmp_path):
        assert {live_folder, Path(os.environ[FOLDER_VARIABLE])} == set(tmp_path.iterdir())
    assert [path.name for path in live_folder.iterdir()] == ["ucx_shm_posix_1"]
    live.communicate("")
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_not_removed(tmp_path: Path) -> None:
    for name in ("mpich_shm_1_0", "vader_segment.node1.0.2edf0001.0"):
        (tmp_path / name).write_bytes(bytes(4096))  # of an MPI program in another container
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "mine").mkdir()
    (tmp_path / "nimc-writers-link").symlink_to(tmp_path / "mine")
    if os.geteuid() == 0:
        (tmp_path / "nimc-writers-theirs").mkdir()
        os.chown(tmp_path / "nimc-writers-theirs", 65534, 65534)
    before = set(tmp_path.iterdir())
    with folder(tmp_path):
        pass
    assert set(tmp_path.iterdir()) == before


def test_writers_get_no_folder_if_none_can_be_made() -> None:
    with folder(Path("/proc")):
        assert FOLDER_VARIABLE not in os.environ
