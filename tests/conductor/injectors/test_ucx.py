"""The program ucx_perftest that is installed on this host."""

import os
import signal
import subprocess

import pytest

from conductor.injectors import INJECTORS
from conductor.injectors.base import Row
from records import processes
from tests.conductor.conftest import free_port, needs
from tests.conductor.injectors.printed import writer
from tests.waiting import wait_until


@needs("ucx")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucx", "ucx_read"])
def test_a_suspended_target_uses_no_cpu_and_the_rows_go_on(name):
    """So reads and writes are one-sided: the target's process takes no part in them."""
    injector = INJECTORS[name]
    planned = writer(target="o", address="127.0.0.1", port=free_port(), message_b=65536)
    environment = {**os.environ, **injector.environment(planned)}
    started = []

    def start(command):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    try:
        target = start(injector.target_command(planned))
        wait_until(lambda: processes.listener(planned.port, target.pid) == "own")
        parser = injector.parser(planned)
        meant = map(parser.parse, start(injector.origin_command(planned)).stdout)
        rows = (meaning for meaning in meant if meaning is not None)
        assert isinstance(next(rows), Row)
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)  # returns when the target has stopped
        before_s = processes.cpu_s(target.pid)
        assert next(rows).rate_b_s > 0
        assert next(rows).rate_b_s > 0
        assert processes.cpu_s(target.pid) == before_s
    finally:
        for process in started:
            process.kill()
            process.wait()
