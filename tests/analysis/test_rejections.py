from __future__ import annotations

from analysis.samples.pairs import Kind, kinds


def test_reasons_that_differ_in_numbers_alone_are_one_kind() -> None:
    lost = [
        ("rejected", "writer 0 was at 22.5% of its rate; 50% asked"),
        ("injector_died", "status 9"),
        ("rejected", "writer 0 was at 7% of its rate; 50% asked"),
    ]
    assert kinds(lost) == [
        Kind("rejected", "writer 0 was at ...% of its rate; 50% asked", 2),
        Kind("injector_died", "status 9", 1),
    ]


def test_one_reason_stays_as_it_is() -> None:
    assert kinds([("no_fom", "no 'Loop time' in 812 lines")] * 3) == [
        Kind("no_fom", "no 'Loop time' in 812 lines", 3)
    ]


def test_different_outcomes_and_words_stay_apart() -> None:
    lost = [("rejected", "a 1"), ("rejected", "b 1"), ("no_fom", "a 1")]
    assert len(kinds(lost)) == 3
    assert kinds([]) == []
