"""The campaigns of the project give the cases that they gave before there were factors."""

from __future__ import annotations

import pytest

from nimc.base.checkout import ROOT
from nimc.campaign.plan import plan
from nimc.campaign.prepare import prepare

#: Campaign -> its cases, recorded before scales became a factor.
CASES = {
    "quick": ["stream", "lammps"],
    "held": ["stream", "lammps"],
    "single_node": ["stream", "lammps", "hpccg", "lulesh", "snap", "xsbench", "cns"],
    "scaling": [f"lammps@{n}" for n in (4, 32, 64, 128, 256, 512)],
    "scaling_quick": ["lammps@2", "lammps@4"],
    "scaling_rxe": ["lammps@2"],
    "simulation_check": ["lammps@1", "lammps@2", "lammps@4"],
    # NUMA's 28 cells are treatments of one case now (test_omitted).
    "numa": ["numa"],
    "nodes": ["stream"],
    # On one host: no rails, and only one node.
    "multirail": ["umt", "umt_openmp", "amg", "amg_openmp", "lulesh", "lulesh_openmp", "minife"],
    "multirail_quick": ["amg", "minife"],
    "throttling": ["stream-dram", "stream-llc", "lammps"],
    "throttling_quick": ["stream"],
    "loaded_latency": ["latency"],
    "intensity": ["intensity"],
    "core_reservation": ["stream-dram", "stream-llc", "lammps"],
    "slowdown": ["membench", "stream", "hpccg", "lammps"],
    "slowdown_quick": ["membench", "stream", "hpccg", "lammps"],
    "core_reservation_quick": ["stream-dram", "stream-llc", "lammps"],
}
#: Campaigns that need several nodes.
OF_CLUSTERS = {"core_reservation_scaling": [f"lammps@{n}" for n in (4, 16, 32)]}
SWEEPS = ("contention_model", "contention_emulated", "regimes", "regimes_quick")
#: Of example_slurm: 32 cores a socket; sockets begin at the NUMA nodes 0 and 4.
CALIBRATION = [(0, 0), (4, 4)]


def cases_of(name: str, machine: str) -> list[str]:
    campaign = prepare(ROOT / "campaigns" / f"{name}.yaml", machine).campaign
    return [case.name for case in campaign.cases]


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    assert cases_of(name, "localhost") == CASES[name]


def test_cases_of_sweeps() -> None:
    assert cases_of("contention_model", "example_slurm") == [
        f"sweep@n{n}-c{comp}-m{comm}" for comp, comm in CALIBRATION for n in range(1, 33)
    ]
    found = cases_of("contention_emulated", "example_slurm")
    expected = {f"sweep@n{n}-c{i}-m{j}" for n in range(1, 33) for i in range(8) for j in range(8)}
    assert len(found) == len(expected)
    assert set(found) == expected
    for name in ("regimes", "regimes_quick"):
        numbers = (1, 2, 4, 8, 16, 32)
        assert cases_of(name, "example_slurm") == [f"regimes@n{n}-c0-m0" for n in numbers]


def test_every_campaign_is_recorded() -> None:
    shipped = {path.stem for path in (ROOT / "campaigns").glob("*.yaml")}
    assert shipped == {*CASES, *SWEEPS, *OF_CLUSTERS}


@pytest.mark.parametrize("name", OF_CLUSTERS)
def test_cases_of_clusters(name: str) -> None:
    assert cases_of(name, "example_slurm") == OF_CLUSTERS[name]


def test_the_throttling_sweep_is_short_to_write_and_crosses_rates_with_a_reserved_core() -> None:
    path = ROOT / "campaigns/throttling.yaml"
    assert len(path.read_text().splitlines()) <= 30
    asked = prepare(path, "example_slurm")
    for case in plan(asked.campaign, asked.site).cases:
        assert case.factors_within == {
            "rate": [0, "10%", "25%", "50%", "75%", "full"],
            "reserved_cores": [0, 1],
        }
        rates = {(t.baseline, t.factors["rate"]) for t in case.treatments if t.role == "effect"}
        assert rates == {
            (baseline, rate)
            for baseline in ("off", "off@reserved_cores=1")
            for rate in ("10%", "25%", "50%", "75%", "full")
        }
        # Origins are other nodes: no control. Two baselines, each with five rates and A/A.
        assert len(case.treatments) == 2 * (1 + 5 + 1)
