"""Settings of tests that measure for real: other work on this host rejects none of their runs."""

from typing import Any

from records.acceptance import LIMITS

#: For `AcceptanceLimits`; conditions are recorded all the same. A rate alone may be disturbed, too.
UNJUDGED: dict[str, Any] = {**dict.fromkeys(LIMITS), "max_share": 1e9}
#: As variables of a check (`reframe -S CHECK.NAME=VALUE`); its writers may hardly get a processor.
VARIABLES: dict[str, Any] = {**dict.fromkeys(LIMITS, "@none"), "min_share": 1e-6}
#: As a campaign's key.
VERIFY = ", ".join(f"{name}: null" for name in LIMITS)
#: What a machine's file requires of writes: that there are some, however few and late.
PROOF = "proof: {min_share: 0.000001, max_share: 1000000, late_rows: 1000, silent: 1h, pause: 1h}\n"
