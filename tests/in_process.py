"""Calls `nimc` as a user does, but in the process of the tests."""

import io
import signal
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from nimc.cli.main import main


def call(
    words: Iterable[object], folder: Path = Path(), environment: Mapping[str, str] = {}
) -> tuple[int, str, str]:
    """Call `nimc` in this process; return exit status, standard output and standard error.

    If `nimc` runs a campaign, the campaign ends all descendants of this process.
    """
    out, err = io.StringIO(), io.StringIO()
    sigint_handler = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr("sys.argv", ["nimc", *map(str, words)])
        patch.setattr("records.processes.become_subreaper", lambda: None)
        patch.setattr("nimc.run.runner.concurrent_runs", lambda _: [])  # no runs of other tests
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            signal.signal(signal.SIGINT, sigint_handler)
    assert isinstance(end.value.code, int)
    return end.value.code, out.getvalue(), err.getvalue()
