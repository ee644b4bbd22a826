"""Tests of `nimc spack` with a real Spack: it builds environments, and the programs run.

The tests need SPACK_ROOT or a program `spack` on PATH. NIMC_TEST_MACHINE_FILE names a file with the
external packages of the machine, such as an MPI. NIMC_TEST_PACKAGES names a folder of recipes.
NIMC_TEST_MIRROR names a mirror of sources.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from conductor.block.readers import FomError
from records.errors import MachineError
from reframe_tests.spack import isolation, setup
from reframe_tests.spack.build import build, relocated_environment, why_no_network
from reframe_tests.spack.folders import layout
from reframe_tests.workload import load_workload

pytestmark = [
    pytest.mark.spack,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (os.environ.get("SPACK_ROOT") or shutil.which("spack")),
        reason="needs a Spack: SPACK_ROOT, or spack on PATH",
    ),
]


def path_of(variable):
    return Path(os.environ[variable]) if os.environ.get(variable) else None


def prepare(root, mirror=None):
    tree = layout("test", root)
    machine_file = path_of("NIMC_TEST_MACHINE_FILE")
    mirror = mirror or os.environ.get("NIMC_TEST_MIRROR")
    return tree, setup.setup(tree, path_of("NIMC_TEST_PACKAGES"), machine_file, mirror, print)


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("spack"))


@pytest.fixture(scope="module")
def built(ready, tmp_path_factory):
    """A function that builds an environment; it returns the record and the folder of logs.

    Spack runs with `--debug`, so it logs each call of a compiler.
    """
    tree, settings = ready
    logs = tmp_path_factory.mktemp("logs")
    script = tmp_path_factory.mktemp("debugging") / "bin" / "spack"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\ncd {logs} && exec {settings.spack}/bin/spack --debug "$@"\n')
    script.chmod(0o755)
    debugging = replace(settings, spack=str(script.parent.parent))
    return lambda stack: (build(tree, debugging, stack, 2, print), logs)


def concretized(tree, settings, stack, folder):
    """Concretize an environment without a build; return its concrete specs."""
    folder.mkdir(parents=True)
    (folder / "spack.yaml").write_text(relocated_environment(tree, settings, stack))
    concretize = ("-e", str(folder), "concretize")
    isolation.spack(tree, Path(settings.spack), *concretize, log_name="concretize")
    lock = json.loads((folder / "spack.lock").read_text())
    assert lock["roots"]
    specs = list(lock["concrete_specs"].values())
    # If Spack built Slurm, its srun would come before the srun of the host, and would not fit the
    # controller of the host.
    assert not [spec for spec in specs if spec["name"] == "slurm" and "external" not in spec]
    return specs


#: The environment of STREAM with arrays of 8 MB.
STREAM = "stream@1000000"
RUNS = [
    (STREAM, "stream", "STREAM_ITERATIONS=12 stream_c.exe"),
    ("proxyapps", "lulesh", "lulesh2.0 -s 15 -i 10"),
    ("proxyapps", "minife", "sh -c 'miniFE.x -nx 20 -verify_solution 1; cat miniFE*.yaml'"),
    ("proxyapps", "xsbench", "XSBench -m event -s small"),
    ("proxyapps", "amg", "amg -P 1 1 1 -n 24 24 24 -problem 1"),
    ("hpccg", "hpccg", "test_HPCCG 24 24 24"),
]


@pytest.mark.parametrize(("stack", "workload", "command"), RUNS)
def test_a_built_workload_proves_its_answer(built, tmp_path, stack, workload, command):
    software, _ = built(stack)
    folders = [f"{software.view}/bin", f"{software.mpi}/bin", os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(folders), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert load_workload(workload).parse(done.stdout).value > 0
    with pytest.raises(FomError):
        load_workload(workload).parse(done.stdout[: len(done.stdout) // 3])


@pytest.mark.parametrize(
    ("stack", "package", "more"),
    [
        ("proxyapps", "lulesh", {"-fopenmp", "-DUSE_MPI=1"}),
        ("proxyapps", "minife", {"-DHAVE_MPI"}),
        ("proxyapps", "xsbench", {"-fopenmp", "-DMPI", "-DOPENMP"}),
        ("proxyapps", "snap", {"-fopenmp"}),
        ("proxyapps", "amg2013", {"-fopenmp", "-DHYPRE_BIGINT"}),
        ("hpccg", "hpccg", {"-fopenmp", "-DUSING_MPI"}),
        (STREAM, "stream", {"-fopenmp", "-DSTREAM_ARRAY_SIZE=1000000"}),
    ],
)
def test_each_source_of_a_workload_is_compiled_with_optimisation(built, stack, package, more):
    """The test reads the final calls of the compiler, since recipes change flags of makefiles."""
    _, logs = built(stack)
    (log,) = logs.glob(f"spack-cc-{package}-*.out.log")
    calls = [line.split() for line in log.read_text().splitlines()]
    sources = re.compile(r"[\w./-]+\.(c|cc|cpp|f90)")
    compiled = [words for words in calls if any(map(sources.fullmatch, words))]
    assert compiled
    for words in compiled:
        # The compiler follows the last option -O.
        assert [word for word in words if word.startswith("-O")][-1:] in (["-O2"], ["-O3"]), words
        assert more <= set(words)


@pytest.mark.parametrize("stack", ["lammps", "openspeedshop", "profiling", STREAM, "tools"])
def test_spack_concretizes_each_environment(ready, stack):
    tree, settings = ready
    for spec in concretized(tree, settings, stack, tree.root / "only-concretized" / stack):
        # Spack silently ignores a preference that it cannot meet.
        if spec["name"] == "ucx":
            assert all(spec["parameters"][name] for name in ("verbs", "rc", "mlx5_dv", "rdmacm"))
        # CMake compiles these build types with -O3 or -O2.
        if spec["name"] == "lammps":
            assert spec["parameters"]["build_type"] in ("Release", "RelWithDebInfo")


SLURM = {"externals": [{"spec": "slurm@24.05.4", "prefix": "/usr"}]}


@pytest.mark.parametrize("slurm", [SLURM, None], ids=["with Slurm", "without"])
def test_an_mpi_without_a_machine_file_has_the_fast_network(ready, slurm):
    tree, settings = ready
    alone = replace(settings, machine_file=None)
    text = tree.host_packages_file.read_text()
    packages = {**yaml.safe_load(text)["packages"], "slurm": slurm or {}}
    tree.host_packages_file.write_text(yaml.safe_dump({"packages": packages}))
    try:
        folder = tree.root / "only-concretized" / ("with" if slurm else "without")
        specs = concretized(tree, alone, "proxyapps", folder)
    finally:
        tree.host_packages_file.write_text(text)
    (mpi,) = (spec for spec in specs if spec["name"] == "openmpi")
    assert mpi["parameters"]["schedulers"] == (["slurm"] if slurm else ["none"])
    assert len([spec for spec in specs if spec["name"] == "slurm"]) == bool(slurm)
    (ucx,) = (spec for spec in specs if spec["name"] == "ucx")
    assert "external" not in mpi
    assert mpi["parameters"]["fabrics"] == ["ucx"]
    assert ucx["parameters"]["verbs"] is True
    assert ucx["parameters"]["rc"] is True
    assert why_no_network(specs, Path("m.yaml")) is None


def test_a_machine_file_that_excludes_the_network_stops_the_build(ready, tmp_path):
    tree, settings = ready
    none = tmp_path / "none.yaml"
    none.write_text("packages: {openmpi: {require: ['fabrics=none schedulers=none']}}\n")
    with pytest.raises(MachineError, match=r"openmpi@\S+ without a fast network \(fabrics=none\)"):
        build(tree, replace(settings, machine_file=str(none)), "proxyapps", 2, print)
