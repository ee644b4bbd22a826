"""What is recorded of a run and of one writer."""

import math

import pytest

from conductor.judge.series import Series, WriterSeries, save
from conductor.readings import CounterSample, RateRow
from records.acceptance import AcceptanceLimits
from tests import made_writers


def test_a_copy_has_what_was_reported_until_then_all_of_it_or_from_a_row_on():
    rows = [RateRow(start, start + 1.0, 5.0) for start in (0.0, 1.0, 2.0)]
    series = WriterSeries(
        number=0,
        injector="ucx",
        writer=made_writers.writer(),
        transport="tcp",
        row_s=1.0,
        rows=[*rows],
        samples=[CounterSample(1.0, 7.0)],
    )
    whole, last = series.copy(), series.copy(first_row=1)
    series.rows.append(RateRow(3.0, 4.0, 5.0))
    series.samples.append(CounterSample(2.0, 9.0))
    assert (whole.rows, last.rows) == (rows, rows[1:])
    assert whole.samples == last.samples == [CounterSample(1.0, 7.0)]


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_what_json_does_not_have_is_not_stored(tmp_path, figure):
    path = tmp_path / "0-on-0.series.json"
    with pytest.raises(ValueError, match="JSON"):
        save(Series(alone_b_s=figure), AcceptanceLimits(), path)
    assert not path.exists()
