"""A campaign that is complete, and stopped while its report is made."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.nimc.conftest import Nimc


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_during_the_report_says_how_to_make_it(
    nimc: Nimc, wait_until: Callable[[Callable[[], bool]], None], signum: int, status: int
) -> None:
    process = nimc.start(fake="page")

    def complete() -> bool:
        headers = list(nimc.results.glob("*/run.json"))
        return bool(headers) and nimc.header()["finished_s"] is not None

    wait_until(complete)
    process.send_signal(signum)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert err.splitlines()[-1] == (
        f"nimc: stopped by {signal.Signals(signum).name}; the samples are complete; for the report:"
        f" nimc report {nimc.the_run()}"
    )
