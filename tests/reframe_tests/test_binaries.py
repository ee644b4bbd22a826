"""Programs from Spack and from PATH; without one a check is skipped, and says why.

Layouts of ranks, against factors found by hand.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
import pytest
from nimc.base.checkout import ROOT
from nimc.spack.setup import setup
from nimc.spack.tool import layout
from tests.undisturbed import SETTINGS
from reframe_tests.binaries import largest_cube, near_cube, near_square


@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
@pytest.mark.parametrize(
    ("machine", "reasons"),
    [
        (
            "localhost",
            [
                "test_HPCCG is not on PATH; 'nimc spack' builds it",
                "Spack is not set up for localhost: nimc spack setup",
            ],
        ),
        # On Slurm as well, before a job is submitted.
        ("minicluster", ["test_HPCCG is not on PATH; 'nimc spack' builds it"]),
    ],
)
def test_skipped_with_the_reason_of_each_environment(tmp_path, machine, reasons):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPACK_ROOT"},
        "PATH": "/usr/bin:/bin",
        "NIMC_SPACK_DIR": str(tmp_path / "none"),
        "PYTHONPATH": str(ROOT),
    }
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/{machine}.py"]
    check = ["-c", f"{ROOT}/reframe_tests/hpccg.py", "-n", "^hpccg_quick$"]
    done = subprocess.run(
        [*reframe, *check, "--prefix", str(tmp_path), "-r"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    for reason in reasons:
        assert reason in done.stdout
    assert f"{len(reasons)} skipped" in done.stdout


def test_a_run_takes_each_case_from_one_environment_alone(tmp_path):
    program = tmp_path / "bin" / "test_HPCCG"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho this is no HPCCG\n")
    program.chmod(0o755)
    settings = (ROOT / "configs/localhost.py").read_text()
    (tmp_path / "two.py").write_text(
        settings.replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["wheels", "modules"]')
        .replace('"name": "spack"', '"name": "modules"')
        .replace('"features": ["spack"]', '"features": ["modules"]')
    )
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{tmp_path}/two.py"]
    check = ["-c", f"{ROOT}/reframe_tests/hpccg.py", "-n", "^hpccg_quick$"]
    settings = ("arms=off", "pairs=1", "warmups=0", "retries=0", f"nimc_dir={tmp_path}/run")
    for setting in (*settings, *SETTINGS):
        check += ["-S", f"hpccg_quick.{setting}"]
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [*reframe, *check, "--prefix", str(tmp_path), "-r"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "default+wheels runs it; each case runs on one partition and environment" in done.stdout
    assert "1 failure(s)" in done.stdout
    assert "1 skipped" in done.stdout
    assert len((tmp_path / "run/samples/hpccg_quick.jsonl").read_text().splitlines()) == 1


#: Spack in ten lines: it chooses one version, and installs what prints a captured run of HPCCG.
SPACK = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
shift 2
case "$*" in
  --version) echo "1.1.0 (2e90720)" ;;
  *concretize*) echo '{{"roots": [{{"hash": "aaa", "spec": "hpccg"}}]}}' > "$2/spack.lock" ;;
  *install*)
    mkdir -p "$2/.spack-env/view/bin"
    printf '#!/bin/sh\\ncat {capture}\\n' > "$2/.spack-env/view/bin/test_HPCCG"
    chmod +x "$2/.spack-env/view/bin/test_HPCCG" ;;
  *find*) printf 'aaa\\thpccg\\t1.0\\t%s\\thpccg@1.0\\n' "$here" ;;
esac
"""


def test_a_check_builds_its_program_and_says_how_it_was_made(tmp_path, monkeypatch):
    script = tmp_path / "spack" / "bin" / "spack"
    script.parent.mkdir(parents=True)
    script.write_text(SPACK.format(capture=ROOT / "tests/captures/hpccg/n1.txt"))
    script.chmod(0o755)
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "spack"))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    (tmp_path / "repo.yaml").write_text("repo: {}\n")
    setup(layout("localhost", None), tmp_path, None, None, print)
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{ROOT}/configs/localhost.py"]
    check = ["-c", f"{ROOT}/reframe_tests/hpccg.py", "-n", "^hpccg_quick$", "-p", "spack"]
    settings = ("arms=off", "pairs=1", "warmups=0", f"nimc_dir={tmp_path}/run", "layout_cores=1")
    for setting in (*settings, *SETTINGS):
        check += ["-S", f"hpccg_quick.{setting}"]
    done = subprocess.run(
        [*reframe, *check, "--prefix", str(tmp_path), "-r"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (tmp_path / "run/samples/hpccg_quick.jsonl").read_text().splitlines()
    sample = json.loads(line)
    assert sample["outcome"] == "kept", sample["reason"]
    (record,) = (tmp_path / "run/provenance").glob("*.json")
    spack = json.loads(record.read_text())["spack"]
    assert (spack["hash"], spack["spec"]) == ("aaa", "hpccg@1.0")


def run_cns(tmp_path, program):
    """`cns_quick` on a machine whose file names a program; its settings have no wheels."""
    (tmp_path / "machine.yaml").write_text(
        f"origins: {{policy: same_host}}\ndevice: null\ninterface: null\n"
        f"programs: {{cns: {program}}}\n"
    )
    settings = (ROOT / "configs/localhost.py").read_text()
    (tmp_path / "own.py").write_text(
        settings.replace('"name": "localhost"', '"name": "minicluster"')
        .replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["spack"]')
    )
    reframe = [str(Path(sys.executable).parent / "reframe"), "-C", f"{tmp_path}/own.py"]
    check = ["-c", f"{ROOT}/reframe_tests/cns.py", "-n", "^cns_quick$"]
    settings = ("arms=off", "pairs=1", "warmups=0", f"nimc_dir={tmp_path}/run", "layout_cores=1")
    for setting in (*settings, *SETTINGS):
        check += ["-S", f"cns_quick.{setting}"]
    variables = {"NIMC_MINICLUSTER": str(tmp_path), "NIMC_SPACK_DIR": str(tmp_path / "none")}
    return subprocess.run(
        [*reframe, *check, "--prefix", str(tmp_path), "-r"],
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


def test_the_program_that_the_site_names_is_run_though_spack_is_not_set_up(tmp_path):
    program = tmp_path / "main.Linux.gfortran.mpi.exe"
    program.write_text(f"#!/bin/sh\ncat {ROOT}/tests/captures/cns/n1.txt\n")
    program.chmod(0o755)
    done = run_cns(tmp_path, program)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (tmp_path / "run/samples/cns_quick.jsonl").read_text().splitlines()
    assert json.loads(line)["outcome"] == "kept"
    (record,) = (tmp_path / "run/provenance").glob("*.json")
    assert json.loads(record.read_text())["program"]["path"] == str(program)


def test_a_program_that_the_site_names_and_is_not_there_is_reported(tmp_path):
    done = run_cns(tmp_path, "/nowhere/cns")
    assert "site/minicluster.yaml: programs: /nowhere/cns is no program on this host" in done.stdout
    assert "1 skipped" in done.stdout


@pytest.mark.parametrize(("count", "edge"), [(1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (64, 4)])
def test_largest_cube(count, edge):
    assert largest_cube(count) == edge


@pytest.mark.parametrize(
    ("count", "nodes", "edge"), [(512, 8, 8), (16, 8, 2), (100, 2, 4), (27, 2, 2), (7, 4, 1)]
)
def test_a_cube_has_as_many_ranks_on_each_node(count, nodes, edge):
    assert largest_cube(count, nodes) == edge


@pytest.mark.parametrize(
    ("count", "factors"), [(1, (1, 1)), (7, (1, 7)), (12, (3, 4)), (16, (4, 4)), (18, (3, 6))]
)
def test_near_square(count, factors):
    assert near_square(count) == factors


@pytest.mark.parametrize(
    ("count", "factors"), [(1, (1, 1, 1)), (8, (2, 2, 2)), (12, (2, 2, 3)), (13, (1, 1, 13))]
)
def test_near_cube(count, factors):
    assert near_cube(count) == factors
