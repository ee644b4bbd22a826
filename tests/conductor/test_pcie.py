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
#: Both directions twice, so many seconds apart; then what is wrong with this GPU and with another.
READ = """
import json, sys, time
from conductor import counters, pcie
read = lambda: [counters.read("pcie:0000:01:00.0", each) for each in ("received", "sent")]
first, began_s = read(), time.monotonic()
time.sleep(float(sys.argv[1]))
last, over_s = read(), time.monotonic() - began_s
gone = [counters.difference(*pair) for pair in zip(first, last)]
print(json.dumps([over_s, gone, last[0] and last[0].name,
    pcie.why_not("0000:01:00.0"), pcie.why_not("0000:02:00.0")]))
"""

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvml")
    make = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*make, "-o", folder / "libnvidia-ml.so.1", FAKE], check=True, timeout=60)
    return folder


def read(folder, fault="", over_s=0.2):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": fault}
    command = [sys.executable, "-c", READ, str(over_s)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_rates_are_summed_up_to_bytes_as_the_host_sees_them(library):
    """What the GPU sends, 3 MB/s, is what the host receives; samples come every 60 ms."""
    over_s, (received_b, sent_b), name, *faults = read(library, over_s=1)
    assert name == GPU
    assert received_b == pytest.approx(3e6 * over_s, rel=0.25)
    assert sent_b == pytest.approx(received_b / 3, rel=0.01)
    assert faults == [None, "nvmlDeviceGetHandleByPciBusId_v2: Not Found"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("refused", "nvmlDeviceGetPcieThroughput: Insufficient Permissions"),
        ("lost", "nvmlDeviceGetPcieThroughput: GPU is lost"),
    ],
)
def test_without_an_answer_nothing_is_counted(library, fault, why):
    _, gone, name, said, _ = read(library, fault, over_s=1)  # lost after 0.2 s, on an idle host
    assert (gone, name, said) == ([None, None], None, why)


def test_without_the_library_nothing_is_counted(tmp_path):
    _, gone, _, said, _ = read(tmp_path)
    assert gone == [None, None]
    assert said.startswith("libnvidia-ml.so.1: cannot open shared object file")
