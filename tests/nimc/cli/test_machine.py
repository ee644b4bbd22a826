"""Which machine a command uses without `--machine`."""

import pytest

from nimc.readiness import reframe_config
from tests.in_process import call


def test_a_machine_that_is_chosen_by_the_name_of_the_host_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NIMC_MACHINE", raising=False)
    monkeypatch.setattr(reframe_config, "default_machine", lambda: "minicluster")
    *_, errors = call(["plan", "quick"])
    assert "machine minicluster: this host matches 'hostnames' in configs/minicluster.py" in errors
    *_, errors = call(["plan", "quick", "--machine", "localhost"])
    assert "hostnames" not in errors
