"""Output of STREAM 5.10 as it prints it; figures changed by hand where a test says so."""

from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.stream import parse

OUTPUT = (Path(__file__).parents[2] / "captures" / "stream" / "stream-1core.txt").read_text()


def test_triad_is_taken_from_the_average_time():
    # 16777216 elements of 8 bytes, three arrays, average time as printed in the capture.
    fom = parse(OUTPUT)
    triad = next(line for line in OUTPUT.splitlines() if line.startswith("Triad:")).split()
    assert fom.value == pytest.approx(3 * 16777216 * 8 / float(triad[2]))
    assert fom.extra["best_b_s"] == pytest.approx(float(triad[1]) * 1e6)
    assert fom.extra["array_b"] == 134217728


def test_a_failed_validation_is_no_figure():
    failed = OUTPUT.replace("Solution Validates", "Failed Validation on array a[]")
    with pytest.raises(FomError, match="validation did not pass"):
        parse(failed)


@pytest.mark.parametrize("average", ["0.000000", "0.019168", "0.023978"])
def test_an_average_that_cannot_be_is_no_figure(average):
    # The capture's triad took 0.019169 s at least and 0.023977 s at most.
    with pytest.raises(FomError, match="triad's times"):
        parse(OUTPUT.replace("0.020810", average))


@pytest.mark.parametrize("missing", ["Triad:", "Array size", "This system uses"])
def test_a_missing_line_is_named(missing):
    cut = "\n".join(line for line in OUTPUT.splitlines() if not line.startswith(missing))
    with pytest.raises(FomError, match="the output has no"):
        parse(cut)
