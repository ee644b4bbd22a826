"""The bounds within which the limits of an accepted run may be set."""

import pytest

from records.acceptance import RULES, AcceptanceLimits
from records.errors import InputError


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("min_share", [1e-9, 1.0], [0.0, 1.01]),
        ("max_share", [1.01, 1e9], [1.0]),
        ("counter_share", [0.01, 20.0], [0.0]),
        ("late_rows", [1.0], [0.99]),
        ("rail_share", [0.01, 0.49], [0.0, 0.5]),
        ("retries", [0, 100], [-1, 101]),
        ("foreign_cpus", [None, 0.0, 64.0], [-0.1]),
        ("steal_share", [None, 0.0, 1.0], [-0.1, 1.1]),
        ("frequency_drop", [None, 0.0, 1.0], [-0.1, 1.1]),
        ("foreign_share", [None, 0.0, 1.0], [-0.1, 1.1]),
    ],
)
def test_a_limit_beyond_its_bounds_is_refused_with_the_allowed_values(
    name: str, within: list[float | None], beyond: list[float]
) -> None:
    assert [getattr(AcceptanceLimits(**{name: number}), name) for number in within] == within
    for number in beyond:
        with pytest.raises(InputError, match=rf"^{name}: {number} found; allowed: \w") as error:
            AcceptanceLimits(**{name: number})
        assert RULES[name].allowed in str(error.value)
