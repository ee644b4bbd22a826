"""Makes cases whose treatments are all combinations of levels of factors."""

from dataclasses import replace

from records.arms import level_in_name
from records.sample import Level
from tests.analysis.synthetic import STREAM, Case


def case_of_levels(factors: dict[str, list[Level]]) -> Case:
    """Return a case with an effect for each combination of levels.

    Names of treatments leave out first levels.
    """
    combined: list[dict[str, Level]] = [{}]
    for name, levels in factors.items():
        combined = [{**combination, name: level} for combination in combined for level in levels]
    own = {}
    for combination in combined:
        later = [f"{k}={level_in_name(v)}" for k, v in combination.items() if v != factors[k][0]]
        own["on" + ("@" if later else "") + ",".join(later)] = combination
    return replace(STREAM, effects={**dict.fromkeys(own, 1.2), "aa": 1.0}, factors=own)
