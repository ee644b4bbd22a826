"""Energy by Slurm's accounting.

`scontrol` and `sstat` as of Slurm 22.05.8 with `pm_counters`; other sources and EnergyIPMIFrequency
as the manuals of slurm.conf and acct_gather.conf describe them, not captured.
"""

import os

import pytest

from records.machine.node_counters import NodeCounter, NodeReader
from records.machine.slurm_energy import StepEnergy, of_this_step, step_energy
from tests.reframe_tests.command import script

NONE = "AccountingStorageType   = accounting_storage/slurmdbd\n"
PLUGIN = NONE + "AcctGatherEnergyType    = acct_gather_energy/{}\n"
#: Further down, as keys of another file.
EVERY_10_S = PLUGIN + "\nAccount Gather\nEnergyIPMIFrequency     = 10\n"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", None),
        (NONE, None),
        (PLUGIN.format("none"), None),
        (NONE + "AcctGatherEnergyType    = (null)\n", None),
        (PLUGIN.format("rapl"), ("rapl", 0)),
        (PLUGIN.format("pm_counters"), ("pm_counters", 0)),
        (PLUGIN.format("ipmi"), ("ipmi", 30)),
        (EVERY_10_S.format("ipmi"), ("ipmi", 10)),
        # Read when asked, whatever is set for another source.
        (EVERY_10_S.format("rapl"), ("rapl", 0)),
        (PLUGIN.format("rapl,acct_gather_energy/gpu"), ("rapl+gpu", 30)),
    ],
)
def test_what_slurm_takes_energy_from_and_how_often(config, expected):
    assert step_energy("7.0", config) == (expected and StepEnergy("7.0", *expected))


STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}


@pytest.mark.parametrize("lacking", [*STEP, "rank 0"])
def test_only_the_first_task_of_a_step_asks(tmp_path, monkeypatch, lacking):
    script(tmp_path / "scontrol", f"echo '{PLUGIN.format('rapl')}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert of_this_step(STEP) == StepEnergy("7.0", "rapl", 0)
    others = {name: value for name, value in STEP.items() if name != lacking}
    assert of_this_step({**others, "SLURM_PROCID": "1"} if lacking == "rank 0" else others) is None


def test_a_node_reads_what_its_step_has_used(tmp_path, monkeypatch):
    for name, value in {**STEP, "PATH": f"{tmp_path}:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)
    script(tmp_path / "scontrol", f"echo '{EVERY_10_S.format('ipmi')}'")
    script(tmp_path / "sstat", '[ "$4" = --jobs=7.0 ] && echo 1234')
    reader = NodeReader(tmp_path)
    assert reader.read()["energy:slurm/ipmi"] == NodeCounter(1234.0, "J", period_s=10)
    needs = reader.absent["Slurm's energy of runs up to 10 s"]
    assert needs == "a source that Slurm reads when asked: it samples ipmi"
    script(tmp_path / "sstat", "echo sstat: error: no steps running for job 7 >&2; exit 1")
    assert "energy:slurm/ipmi" not in reader.read()
