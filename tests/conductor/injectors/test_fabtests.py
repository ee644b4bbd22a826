"""fi_rma_bw on this host."""

import pytest

from tests.conductor.conftest import PACE, lasting, needs


@needs("fabtests")
@pytest.mark.slow
def test_rows_are_those_of_its_device_and_it_is_held_between_runs(block):
    """Over the loopback interface, which counts what the writer sends."""
    writes = {"injector": "fabtests", "message_b": 65536, "devices": ["lo"]}
    given = {"arms": ["off", "on"], "pairs": 2, "demand": PACE, "writes": writes}
    run = block(command=lasting(3), **given).done()
    written = [sample for sample in run.samples() if sample["arm"] == "on"]
    assert [sample["outcome"] for sample in written] == ["kept", "kept"]
    for sample in written:
        (found,) = sample["writers"]
        assert (found["transport"], found["injector"]) == ("tcp", "fabtests")
        assert found["rate_b_s"] > 1e6
