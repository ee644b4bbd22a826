"""Energy that the nodes of a job step have used, by Slurm's accounting.

Asked before a run and after it, of the step of the agents: it lasts through the block, however the
application is started. (What `sacct` gives of a job may add up its steps, which overlap here.) The
nodes of the step count as a whole. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from records.kernel_text import number
from records.programs import ask

#: How long Slurm may take to answer.
_TIMEOUT_S = 5
_TYPE = re.compile(r"^AcctGatherEnergyType\s*=(.*)$", re.MULTILINE)
_PLUGIN = re.compile(r"\bacct_gather_energy/(?!none\b)(\w+)")
#: What Slurm reads when it is asked for a step's energy. It samples others.
_READ_WHEN_ASKED = {"rapl", "pm_counters"}
_PERIOD = re.compile(r"^EnergyIPMIFrequency\s*=\s*(\d{1,6})\b", re.MULTILINE)
#: Slurm's default.
_PERIOD_S = 30


@dataclass(frozen=True)
class StepEnergy:
    """How to ask for a step's energy."""

    #: As Slurm's commands name it.
    step: str
    #: What Slurm takes it from, such as `rapl`; several are joined with `+`.
    source: str
    #: Seconds between two samples; 0: it is read whenever Slurm is asked.
    period_s: int

    def read_j(self) -> float | None:
        """What its nodes have used until now; None if Slurm does not say."""
        options = ["--noheader", "--parsable2", "--format=ConsumedEnergyRaw"]
        answer = ask(["sstat", *options, f"--jobs={self.step}"], timeout_s=_TIMEOUT_S)
        return number(answer.stdout)


def of_this_step(environment: Mapping[str, str]) -> StepEnergy | None:
    """That of the step whose first task this is; None in others, or if Slurm gathers none."""
    job, step = (environment.get(f"SLURM_{name}_ID") for name in ("JOB", "STEP"))
    if not job or not step or environment.get("SLURM_PROCID") != "0":
        return None
    config = ask(["scontrol", "show", "config"], timeout_s=_TIMEOUT_S).stdout
    return step_energy(f"{job}.{step}", config)


def step_energy(step: str, config: str) -> StepEnergy | None:
    """From `scontrol show config`; None if Slurm gathers no energy."""
    line, stated = _TYPE.search(config), _PERIOD.search(config)
    plugins = _PLUGIN.findall(line[1]) if line else []
    if not plugins:
        return None
    period_s = int(stated[1]) if stated else _PERIOD_S
    return StepEnergy(step, "+".join(plugins), period_s if set(plugins) - _READ_WHEN_ASKED else 0)
