"""The program ib_write_bw of perftest that is installed on this host."""

import subprocess

import pytest

from conductor.injectors import INJECTORS
from tests.conductor.conftest import needs
from tests.conductor.injectors.printed import writer


@needs("perftest")
@pytest.mark.parametrize("rate_b_s", [None, 20e6])
def test_the_installed_version_takes_our_options(rate_b_s):
    """The program reads its options, and then looks for its device. This device does not exist."""
    planned = writer(device="no_such_device", rate_b_s=rate_b_s)
    answer = subprocess.run(
        INJECTORS["perftest"].target_command(planned), capture_output=True, text=True, timeout=60
    )
    output = answer.stdout + answer.stderr
    assert answer.returncode == 1
    assert "Unable to find the Infiniband/RoCE device" in output
    assert "unrecognized option" not in output
    assert "support" not in output
