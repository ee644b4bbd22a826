"""Settings for tests that measure: no run is rejected because of other work on this host."""

from typing import Any

from records.acceptance import DISTURBANCE_LIMITS

#: Arguments of `AcceptanceLimits`. Disturbances are still recorded. A writer may be much faster
#: beside the application than alone, since its uncontended rate may have been disturbed.
UNJUDGED: dict[str, Any] = {**dict.fromkeys(DISTURBANCE_LIMITS), "max_share": 1e9}
#: Variables of a check (`reframe -S CHECK.NAME=VALUE`). `min_share` is small, since writers may get
#: very little processor time.
VARIABLES: dict[str, Any] = {**dict.fromkeys(DISTURBANCE_LIMITS, "@none"), "min_share": 1e-6}
#: Value of a campaign's key `verify`.
VERIFY = ", ".join(f"{name}: null" for name in DISTURBANCE_LIMITS)
#: Key `proof` of a machine's file. With it, any writes are accepted, even few and late ones.
PROOF = "proof: {min_share: 0.000001, max_share: 1000000, late_rows: 1000, silent: 1h, pause: 1h}\n"
