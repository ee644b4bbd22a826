"""The series that are recorded of a run and of one writer: how they are copied and stored."""

import math

import pytest

from conductor.judge.series import Series, WriterSeries, save
from conductor.readings import CounterSample, RateRow
from records.acceptance import AcceptanceLimits
from tests import made_writers

ROWS = [RateRow(0.0, 1.0, 5.0), RateRow(1.0, 2.0, 5.0), RateRow(2.0, 3.0, 5.0)]
SAMPLES = [CounterSample(1.0, 7.0)]


@pytest.mark.parametrize(("options", "rows"), [({}, ROWS), ({"first_row": 1}, ROWS[1:])])
def test_a_copy_of_a_series_does_not_grow_and_may_begin_with_a_later_row(options, rows):
    series = WriterSeries(
        number=0,
        injector="ucx",
        writer=made_writers.writer(),
        transport="tcp",
        row_s=1.0,
        rows=[*ROWS],
        samples=[*SAMPLES],
    )
    copy = series.copy(**options)
    series.rows.append(RateRow(3.0, 4.0, 5.0))
    series.samples.append(CounterSample(2.0, 9.0))
    assert (copy.rows, copy.samples) == (rows, SAMPLES)


@pytest.mark.parametrize("rate_b_s", [math.nan, math.inf])
def test_a_series_with_a_number_that_json_cannot_have_is_not_stored(tmp_path, rate_b_s):
    path = tmp_path / "0-on-0.series.json"
    with pytest.raises(ValueError, match="JSON"):
        save(Series(alone_b_s=rate_b_s), AcceptanceLimits(), path)
    assert not path.exists()
