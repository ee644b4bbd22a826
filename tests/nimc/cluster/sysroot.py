"""A node made of files, on which prologs and epilogs of remedies are run.

The shell that runs them can be killed before a given command.
"""

import shutil
import subprocess
from pathlib import Path

from nimc.cluster.root_remedies import ROOT_REMEDIES, parameter_values, render
from tests.conductor.sysfs import write

BIN = Path(__file__).with_name("bin")
STATE = "var/lib/nimc"
IB = "sys/class/infiniband/mlx5_0/device/msi_irqs"
CPU = "sys/devices/system/cpu"
INTEL = "vendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold 6148"
NODE = {
    f"{IB}/125": "msix",
    f"{IB}/126": "msix",
    "proc/irq/125/smp_affinity_list": "0-7",
    "proc/irq/126/smp_affinity_list": "3",
    "proc/irq/99/smp_affinity_list": "1",  # an interrupt of another device
    "proc/cpuinfo": INTEL,
    f"{CPU}/cpu0/topology/physical_package_id": "0",
    f"{CPU}/cpu1/topology/physical_package_id": "0",
    f"{CPU}/cpu2/topology/physical_package_id": "1",
    f"{CPU}/cpu3/online": "0",
    "msr/0/0xC8B": "600",
    "msr/2/0xC8B": "7e0",
}
#: Remedy -> the values that an operator sets, and the files that have changed afterwards.
CHANGED = {
    "irq_affinity": (
        ["cpus=5,4"],
        {"proc/irq/125/smp_affinity_list": "4-5", "proc/irq/126/smp_affinity_list": "4-5"},
    ),
    "ddio_ways": (["mask=400"], {"msr/0/0xC8B": "400", "msr/2/0xC8B": "400"}),
}
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_OVERSUBSCRIBE": "NO"}

#: Shell code that kills its shell before command number $1, also in a pipeline or substitution.
_KILL_BEFORE = """set -T; at=$1 count=0
trap '((++count == at)) && kill -9 $$' DEBUG
. "$2"
"""


def node(root: Path) -> Path:
    write(root, NODE)
    shutil.copytree(BIN, root / "bin")
    return root


def content(root: Path) -> dict[str, bytes]:
    """Return all files: path -> bytes. The folder of the state has none if all is reverted."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def changed(before: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {**before, **{path: f"{text}\n".encode() for path, text in CHANGED[name][1].items()}}


def scripts(name: str, folder: Path) -> dict[str, Path]:
    remedy = ROOT_REMEDIES[name]
    chosen = parameter_values(remedy, CHANGED[name][0])
    paths = {}
    for part in ("prolog", "epilog"):
        paths[part] = folder / f"{name}.{part}"
        paths[part].write_text(render(remedy, chosen, part))
    return paths


def run(script: Path, root: Path, kill_at: int | None = None, **env: str):
    """Run a script with `sh`, as Slurm does, or with bash to kill it before a command."""
    line = ["sh", str(script)]
    if kill_at is not None:
        line = ["bash", "-c", _KILL_BEFORE, "bash", str(kill_at), str(script)]
    feature = f"nimc_{script.stem}&rack1"
    # This waits for all processes of the script, since a write to sysfs may outlive its shell.
    return subprocess.run(
        line,
        env={**JOB, "SLURM_JOB_CONSTRAINTS": feature, "NIMC_SYSROOT": str(root), **env},
        capture_output=True,
        text=True,
        check=False,
    )
