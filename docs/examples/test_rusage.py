import subprocess
import sys

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import FOLDER_PLACEHOLDER, ToolError

TOOL = TOOLS["rusage"]
#: Uses a core for 0.2 s, sleeps 50 times, prints what the kernel has counted so far.
PROGRAM = """
import resource, time
while time.process_time() < 0.2:
    pass
for _ in range(50):
    time.sleep(0.001)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_nvcsw)
"""


def run(folder, *application):
    command = [word.replace(FOLDER_PLACEHOLDER, str(folder)) for word in TOOL.wrap([], application)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_counts_are_those_of_the_application(tmp_path):
    time_s, switches = map(float, run(tmp_path, sys.executable, "-c", PROGRAM).stdout.split())
    counts = {row.event: row.value for row in TOOL.parse(tmp_path, 1)}
    assert time_s <= counts["user-time"] + counts["system-time"] <= time_s + 0.1
    assert 40 <= switches <= counts["voluntary-switches"] <= switches + 20


@pytest.mark.parametrize(("end", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_the_status_of_the_application_survives(tmp_path, end, status):
    assert run(tmp_path, "sh", "-c", end).returncode == status


def test_a_truncated_file_is_named(tmp_path):
    (tmp_path / "rank-0.json").write_text('{"ru_utime": 0.2')
    with pytest.raises(ToolError, match=r"rank-0\.json"):
        TOOL.parse(tmp_path, 1)
