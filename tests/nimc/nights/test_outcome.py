"""One outcome for each way in which a night can end."""

import pytest

from nimc.nights.measure import EndedRun
from nimc.nights.summary import NightAlarm, NightFailure, NightFigure, judge_night
from tests.nimc.nights.made import FIGURES

ALARM = NightAlarm("stream", "off", "fom", "history", "stream lost 10 %")
FAILURE = NightFailure("snap", "no such binary")
OPEN = NightFigure("snap", "on", "slowdown", "1", "lower", 1.1, 0.9, 1.3, 6, "inconclusive")
STOPPED = EndedRun(143, stopped="its window ended")


@pytest.mark.parametrize(
    ("ended", "samples", "alarms", "failures", "figures", "expected"),
    [
        (EndedRun(0), 12, [], [], FIGURES, ("measured", "12 samples")),
        (EndedRun(0), 0, [], [], FIGURES, ("measured", "the night before had taken all samples")),
        (EndedRun(0), 12, [], [], [*FIGURES, OPEN], ("inconclusive", "undecided: snap")),
        (EndedRun(1), 12, [ALARM], [], [*FIGURES, OPEN], ("slower", "stream lost 10 %")),
        (
            EndedRun(1), 12, [ALARM, ALARM], [], FIGURES,
            ("slower", "stream lost 10 % (and 1 more)"),
        ),
        (EndedRun(3), 5, [ALARM], [FAILURE], [], ("machine failed", "snap: no such binary")),
        (EndedRun(3, said="squeue: gone"), 0, [], [], [], ("machine failed", "squeue: gone")),
        (EndedRun(2, said="c.yaml:1: no"), 0, [], [], [], ("not run", "c.yaml:1: no")),
        (EndedRun(2, said="a sample changed"), 9, [], [], [],
         ("machine failed", "a sample changed")),
        (EndedRun(-9, said="x"), 5, [], [], [],
         ("machine failed", "nimc run was killed by signal 9 (status -9): x")),
        (STOPPED, 0, [], [], [], ("not run", "its window ended before the first run: no node was"
         " free, or none worked")),
        (STOPPED, 5, [], [], [],
         ("inconclusive", "its window ended before all cases were measured")),
        (STOPPED, 5, [ALARM], [], [], ("slower", "stream lost 10 %")),
    ],
)  # fmt: skip
def test_a_night_ends_in_one_way(ended, samples, alarms, failures, figures, expected) -> None:
    assert judge_night(ended, samples, figures, alarms, failures) == expected
