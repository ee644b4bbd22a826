"""Compares planned and measured time of campaigns of this checkout on this host.

The default campaign is `quick`.

python -m bench durations CAMPAIGN...

The time that ReFrame took for all blocks of a campaign is compared with the time that the plan
expects for as many pairs. The plan does not use times of earlier runs.
"""

import json
import tempfile
from pathlib import Path

from bench import BenchRow, block
from nimc.campaign.plan import block_length_s
from nimc.campaign.request import load_request
from records.block_plan import BlockPlan
from records.checkout import ROOT

#: Largest error of the plan, as a share of the measured time.
_MAX_ERROR = 0.25


def run(*campaigns: str) -> list[BenchRow]:
    """Compare planned and measured seconds of each campaign."""
    return [row for name in campaigns or ("quick",) for row in _rows(name)]


def _rows(campaign: str) -> list[BenchRow]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        planned_s, measured_s = _planned_and_measured_s(
            campaign, block.run_campaign(campaign, Path(folder))
        )
    ratio = planned_s / measured_s
    return [
        BenchRow(f"{campaign}: planned", planned_s, "s"),
        BenchRow(f"{campaign}: measured", measured_s, "s"),
        BenchRow(
            f"{campaign}: planned / measured",
            ratio,
            aim=f"{1 - _MAX_ERROR:g} to {1 + _MAX_ERROR:g}",
            aim_met=abs(ratio - 1) <= _MAX_ERROR,
        ),
    ]


def _planned_and_measured_s(campaign: str, run: Path) -> tuple[float, float]:
    """Return planned and measured seconds of all blocks of a finished run."""
    request = load_request(ROOT / "campaigns" / f"{campaign}.yaml", "localhost")
    planned_s = measured_s = 0.0
    for case in request.campaign.cases:
        for logs in sorted((run / "logs" / case.name).glob("[0-9]*")):
            session = json.loads((logs / "reframe.json").read_text())["session_info"]
            pairs = BlockPlan.load(logs / "plan.json").pairs
            planned_s += block_length_s(request, case, request.treatments[case.name], pairs)
            measured_s += session["time_end_unix"] - session["time_start_unix"]
    return planned_s, measured_s
