"""What pairs can show, before they are measured (docs/method.md#how-many-pairs).

The exchange test needs hardly more than Student's t with normal noise, so its quantiles say which
effect is shown in 90 % of campaigns; `python -m studies.verdicts` has the test's own shares.
`spread`: standard deviation of the logarithm of one run's time within its pair. `level`: the error
of the statement over its family of so many `hypotheses`, all others of which show nothing.
"""

from __future__ import annotations

import math

from scipy import special

from analysis.statistics.looks import Look, looks

#: Share of campaigns in which the effect is shown.
POWER = 0.9
#: Baseline runs of a pair, `off` and `aa` -> how many times as large as the least p value of the
#: exact test is that of a large effect, as Student's of the same ranks is not smaller in 90 %.
_GUARD = {1: 1.0, 2: 1.7}
#: No more pairs are taken into account.
_MOST = 2000


def least_effect(
    pairs: int, hypotheses: int, level: float, spread: float, baselines: int = 2
) -> float | None:
    """The smallest slowdown, less 1, that so many pairs show; None if they show none of any size.

    That is decided at the last look at so many pairs or fewer. `baselines`: runs of a pair that the
    treated one is compared with, one if that is the control.
    """
    *_, last = [None, *looks(pairs)]
    apart = None if last is None else _apart(last, level / hypotheses, POWER, baselines)
    return None if apart is None else math.expm1(apart * spread)


def pairs_for_none(margin: float, hypotheses: int, level: float, spread: float) -> int | None:
    """The first look that shows of an effect of nothing that it is within the margin; or None."""
    for look in looks(_MOST):
        # Both one-sided tests must show it.
        apart = _apart(look, level / hypotheses, (1 + POWER) / 2, 2)
        if apart is not None and apart * spread <= math.log1p(margin):
            return look.pairs
    return None


def _apart(look: Look, level: float, power: float, baselines: int) -> float | None:
    """Distance from the hypothesis, in spreads, that a look shows with this power; or None."""
    error = look.share * level
    if error < _GUARD[baselines] * (1 + baselines) ** -look.pairs:
        return None
    of_freedom = look.pairs - 1
    quantiles = special.stdtrit(of_freedom, [1 - error, power])
    return float(quantiles.sum()) * math.sqrt((1 + 1 / baselines) / look.pairs)
