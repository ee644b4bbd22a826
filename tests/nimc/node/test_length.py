"""How often the length of a run is doubled, by hand."""

import pytest

from nimc.base.errors import MachineError
from nimc.node.evidence.rates import Seen
from nimc.node.length import doublings, interval_s, keep, kept, least_run_s


@pytest.mark.parametrize(
    ("run_s", "row_s", "often"),
    [(2.0, 1.0, 0), (60.0, 1.0, 0), (1.9, 1.0, 1), (1.0, 1.0, 1), (0.9, 1.0, 2), (0.4, 3.2, 4)],
)
def test_a_run_is_doubled_until_two_rows_fit(run_s, row_s, often):
    assert doublings(run_s, least_run_s(row_s)) == often
    assert run_s * 2**often >= 2 * row_s


def test_without_rows_any_run_is_long_enough():
    assert doublings(0.001, least_run_s(0.0)) == 0


def test_rows_come_as_declared_or_later():
    # Rows of one second that an emulated processor prints 2.9 s apart; one comes after 9 s.
    seen = [Seen(end - 1, end, 1.0) for end in (1.0, 3.9, 6.8, 15.8)]
    assert interval_s(seen, 1.0) == pytest.approx(2.9)
    assert interval_s([Seen(end - 0.9, end, 1.0) for end in (1.0, 1.9, 2.8)], 1.0) == 1.0


def test_later_blocks_begin_with_the_longest_of_the_earlier(tmp_path):
    assert kept(tmp_path) == 0
    for block, often in (("0", 2), ("1", 3)):
        (tmp_path / block).mkdir()
        keep(tmp_path / block, often)
    assert kept(tmp_path) == 3


@pytest.mark.parametrize("text", ["", "3", "{}", '{"doublings": "2"}', '{"doublings": 99}'])
def test_a_length_that_no_block_wrote_is_refused(tmp_path, text):
    (tmp_path / "0").mkdir()
    (tmp_path / "0/length.json").write_text(text)
    with pytest.raises(MachineError, match=r"length\.json: not what a block wrote"):
        kept(tmp_path)
