"""A GPU's PCIe link as a counter of bytes, with a library that stands for NVIDIA's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake_nvml.c"
GPU = "pcie:0000:01:00.0"
#: Looks at both directions: when, and what has passed since the first; then what is wrong with this
#: GPU and with another.
READ = """
import json, time
from conductor import counters, pcie
read = lambda: [counters.read("pcie:0000:01:00.0", each) for each in ("received", "sent")]
first, began_s, looks = read(), time.monotonic(), []
for _ in range(20):
    time.sleep(0.05)
    last, over_s = read(), time.monotonic() - began_s
    looks.append([over_s, *(counters.difference(*pair) for pair in zip(first, last))])
print(json.dumps([looks, last[0] and last[0].name,
    pcie.why_not("0000:01:00.0"), pcie.why_not("0000:02:00.0")]))
"""

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvml")
    make = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*make, "-o", folder / "libnvidia-ml.so.1", FAKE], check=True, timeout=60)
    return folder


def read(folder, fault=""):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": fault}
    command = [sys.executable, "-c", READ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_rates_are_summed_up_to_bytes_as_the_host_sees_them(library):
    """What the GPU sends, 3 MB/s, is what the host receives; samples come every 60 ms.

    On a busy host a look may come before a sample that is due, or within one.
    """
    looks, name, *faults = read(library)
    assert name == GPU
    assert any(
        received_b == pytest.approx(3e6 * over_s, rel=0.25)
        and sent_b == pytest.approx(received_b / 3, rel=0.01)
        for over_s, received_b, sent_b in looks[5:]
    ), looks
    assert all(received_b <= 3e6 * (over_s + 0.25) for over_s, received_b, _ in looks)
    assert faults == [None, "nvmlDeviceGetHandleByPciBusId_v2: Not Found"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("refused", "nvmlDeviceGetPcieThroughput: Insufficient Permissions"),
        ("lost", "nvmlDeviceGetPcieThroughput: GPU is lost"),
    ],
)
def test_without_an_answer_nothing_is_counted(library, fault, why):
    looks, name, said, _ = read(library, fault)  # lost after 0.2 s, on an idle host
    assert (looks[-1][1:], name, said) == ([None, None], None, why)


def test_without_the_library_nothing_is_counted(tmp_path):
    looks, _, said, _ = read(tmp_path)
    assert looks[-1][1:] == [None, None]
    assert said.startswith("libnvidia-ml.so.1: cannot open shared object file")
