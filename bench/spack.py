"""Measures the time that `nimc spack` takes to concretize, to build, and to find nothing to do."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import BenchRow, cost_of, row_with_upper_limit
from reframe_tests.spack import setup
from reframe_tests.spack.build import build
from reframe_tests.spack.folders import layout

#: Aim: time of a build that is up to date, seconds.
NO_OP_AIM_S = 2.0


def run() -> list[BenchRow]:
    """Measure the environments that NIMC_BENCH_STACKS names; no rows without Spack."""
    if not (os.environ.get("SPACK_ROOT") or shutil.which("spack")):
        print("spack: not measured: no Spack found (SPACK_ROOT, or spack on PATH)")
        return []
    stacks = os.environ.get("NIMC_BENCH_STACKS", "stream@1000000").split(",")
    with tempfile.TemporaryDirectory() as folder:
        return [row for name in stacks for row in _rows(Path(folder), name)]


def _rows(folder: Path, name: str) -> list[BenchRow]:
    def path_of(variable: str) -> Path | None:
        return Path(os.environ[variable]) if os.environ.get(variable) else None

    folders = layout("bench", folder)
    packages = path_of("NIMC_TEST_PACKAGES")
    machine = path_of("NIMC_TEST_MACHINE_FILE")
    settings = setup.setup(folders, packages, machine, os.environ.get("NIMC_TEST_MIRROR"), print)
    fresh = build(folders, settings, name, os.cpu_count() or 1, print)
    no_op_s = _command_s(folder, "build", name, "--machine", "bench")
    return [
        BenchRow(f"{name}: concretizing", fresh.concretize_s, "s"),
        BenchRow(f"{name}: building from scratch", fresh.install_s, "s"),
        row_with_upper_limit(f"{name}: no-op", no_op_s, "s", NO_OP_AIM_S),
    ]


def _command_s(root: Path, *words: str) -> float:
    """Return the time that `nimc spack` takes, its start included, seconds."""
    nimc = [sys.executable, "-c", "from nimc.cli.main import main; main()"]
    command = [*nimc, "spack", *words]
    environment = {**os.environ, "NIMC_SPACK_DIR": str(root)}
    output = subprocess.DEVNULL
    return cost_of(
        lambda: subprocess.run(command, check=True, env=environment, stdout=output)
    ).wall_s
