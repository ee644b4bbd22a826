"""Settings of tests that really measure, so that other work on this host rejects no run."""

from typing import Any

from records.acceptance import DISTURBANCE_LIMITS

#: For `AcceptanceLimits`. Conditions are still recorded. Uncontended rates may be disturbed, too.
UNJUDGED: dict[str, Any] = {**dict.fromkeys(DISTURBANCE_LIMITS), "max_share": 1e9}
#: Variables of a check (`reframe -S CHECK.NAME=VALUE`); its writers may hardly get a processor.
VARIABLES: dict[str, Any] = {**dict.fromkeys(DISTURBANCE_LIMITS, "@none"), "min_share": 1e-6}
#: Value of a campaign's key `verify`.
VERIFY = ", ".join(f"{name}: null" for name in DISTURBANCE_LIMITS)
#: Key `proof` of a machine's file: any writes suffice, however few and late.
PROOF = "proof: {min_share: 0.000001, max_share: 1000000, late_rows: 1000, silent: 1h, pause: 1h}\n"
