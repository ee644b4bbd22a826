"""Tests of the limits of acceptance that a block gets.

A limit comes from the campaign or the check. If neither has the limit, the limit comes from the
field `proof` of the machine's site file.
"""

from typing import Any

import pytest

from records.acceptance import AcceptanceLimits
from records.errors import InputError
from records.machine.site import ProofLimits
from reframe_tests import planning
from tests.messages import assert_message
from tests.records.machine import made

#: The values of `proof` in a site file; no value is a default value.
PROOF = {
    "min_share": 0.3,
    "max_share": 1.5,
    "counter_share": 0.4,
    "late_rows": 5.0,
    "silent": "2s",
    "pause": "3s",
    "rail_share": 0.05,
}
#: The values of PROOF as a block has them.
LIMITS = {
    "min_share": 0.3,
    "max_share": 1.5,
    "counter_share": 0.4,
    "late_rows": 5.0,
    "silent_s": 2.0,
    "pause_s": 3.0,
    "rail_share": 0.05,
}
#: Fields of `proof` that judge the times of short writes; they are no limits of acceptance.
SHORT_WRITE_LIMITS = {"write_tolerance_s", "write_share"}


def limits(**overrides: Any) -> AcceptanceLimits:
    """Return the limits of a block on a machine with the values of PROOF."""
    request = planning.CaseRequest(arms=["off", "on"])
    machine = made.machine("same_job", proof=PROOF)
    treated = planning.treatments(request, machine)
    plan = planning.plan_of_writers(request, treated, machine, overrides, case="c", nimc_dir="x")
    return plan.limits


def test_every_limit_of_the_site_file_reaches_the_block() -> None:
    assert LIMITS.keys() == set(ProofLimits.model_fields) - SHORT_WRITE_LIMITS
    assert limits(min_share=None) == limits() == AcceptanceLimits(**LIMITS)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"min_share": 0.05}, {**LIMITS, "min_share": 0.05}),
        ({"retries": 0, "steal_share": None}, {**LIMITS, "retries": 0, "steal_share": None}),
    ],
)
def test_a_limit_of_a_campaign_replaces_that_of_the_machine(
    overrides: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert limits(**overrides) == AcceptanceLimits(**expected)


def test_a_share_of_0_is_refused_and_not_replaced_by_the_share_of_the_machine() -> None:
    with pytest.raises(InputError) as refused:
        limits(min_share=0.0)
    assert_message(str(refused.value), "min_share", "0.0", allowed="above 0")
