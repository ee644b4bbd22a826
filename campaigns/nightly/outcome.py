"""How a night ended, in one of five ways. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.history.tables import Outcome
from analysis.verdict import Verdict
from campaigns.nightly.measure import EndedRun
from campaigns.nightly.summary import NightAlarm, NightFailure, NightFigure

_OPEN = {verdict.value for verdict in Verdict if verdict.is_open}
_INPUT, _FAILED = 2, 3


def judge_night(
    ended: EndedRun,
    samples: int,
    figures: Sequence[NightFigure],
    alarms: Sequence[NightAlarm],
    failures: Sequence[NightFailure],
) -> tuple[Outcome, str]:
    """Outcome and reason of a night; `samples`: those that it has added.

    What failed comes first, then what became slower: a loss is never hidden by an open case.
    """
    if ended.stopped is None and (ended.status not in (0, 1) or failures):
        return _failed(ended, samples, failures)
    if not samples and ended.stopped is not None:
        return "not run", f"{ended.stopped} before the first run: no node was free, or none worked"
    if alarms:
        more = f" (and {len(alarms) - 1} more)" if len(alarms) > 1 else ""
        return "slower", f"{alarms[0].text}{more}"
    if ended.stopped is not None:
        return "inconclusive", f"{ended.stopped} before all cases were measured"
    undecided = list(dict.fromkeys(each.case for each in figures if each.verdict in _OPEN))
    if undecided:
        return "inconclusive", f"undecided: {', '.join(undecided)}"
    return "measured", f"{samples} samples" if samples else "the night before had taken all samples"


def _failed(ended: EndedRun, samples: int, failures: Sequence[NightFailure]) -> tuple[Outcome, str]:
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return "machine failed", f"{failures[0].case}: {failures[0].reason}{more}"
    if ended.status == _INPUT and not samples:
        return "not run", ended.said
    if ended.status in (_INPUT, _FAILED):
        return "machine failed", ended.said
    how = f"was killed by signal {-ended.status}" if ended.status < 0 else "ended"
    return "machine failed", f"nimc run {how} (status {ended.status}): {ended.said}"
