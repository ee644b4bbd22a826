"""Programs from Spack and from PATH; layouts of ranks, against factors found by hand."""

import os
import shutil

import pytest

from records.checkout import ROOT
from reframe_tests.binaries import largest_cube, near_cube, near_square
from reframe_tests.spack.setup import layout as spack_layout
from reframe_tests.spack.setup import setup
from tests.reframe_tests.command import provenance_of, reframe, samples_of, script, succeeded
from tests.undisturbed import VARIABLES


@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
@pytest.mark.parametrize(
    ("machine", "reasons"),
    [
        ("localhost", ["test_HPCCG is not on PATH", "Spack is not set up for localhost"]),
        # On Slurm as well, before a job is submitted.
        ("minicluster", ["test_HPCCG is not on PATH"]),
    ],
)
def test_skipped_with_the_reason_of_each_environment(tmp_path, monkeypatch, machine, reasons):
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    variables = {"PATH": "/usr/bin:/bin", "NIMC_SPACK_DIR": str(tmp_path / "none")}
    done = reframe(tmp_path, machine, "hpccg", "-r", name="hpccg_quick", **variables)
    for reason in reasons:
        assert reason in done.stdout
    assert f"{len(reasons)} skipped" in done.stdout


#: One run of one pair without writers.
ONE = {"arms": "off", "pairs": 1, "warmups": 0, **VARIABLES}


def test_a_run_takes_each_case_from_one_environment_alone(tmp_path):
    program = script(tmp_path / "bin" / "test_HPCCG", "echo this is no HPCCG")
    settings = (ROOT / "configs/localhost.py").read_text()
    config = tmp_path / "two.py"
    config.write_text(
        settings.replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["wheels", "modules"]')
        .replace('"name": "spack"', '"name": "modules"')
        .replace('"features": ["spack"]', '"features": ["modules"]')
    )
    given = {**ONE, "retries": 0, "nimc_dir": tmp_path / "run"}
    path = f"{program.parent}:{os.environ['PATH']}"
    done = reframe(tmp_path, config, "hpccg", "-r", name="hpccg_quick", settings=given, PATH=path)
    assert "default+wheels runs it; each case runs on one partition and environment" in done.stdout
    assert "1 failure(s)" in done.stdout
    assert "1 skipped" in done.stdout
    assert len(samples_of(tmp_path / "run", "hpccg_quick")) == 1


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
    capture = ROOT / "tests/captures/hpccg/n1.txt"
    script(tmp_path / "spack" / "bin" / "spack", SPACK.format(capture=capture))
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "spack"))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    (tmp_path / "repo.yaml").write_text("repo: {}\n")
    setup(spack_layout("localhost", None), tmp_path, None, None, print)
    given = {**ONE, "layout_cores": 1, "nimc_dir": tmp_path / "run"}
    words = ("-p", "spack", "-r")
    succeeded(reframe(tmp_path, "localhost", "hpccg", *words, name="hpccg_quick", settings=given))
    (sample,) = samples_of(tmp_path / "run", "hpccg_quick")
    assert sample["outcome"] == "kept", sample["reason"]
    spack = provenance_of(tmp_path / "run")["spack"]
    assert (spack["hash"], spack["spec"]) == ("aaa", "hpccg@1.0")


@pytest.mark.parametrize("there", [True, False])
def test_the_program_that_the_site_names_is_run_though_spack_is_not_set_up(tmp_path, there):
    """On a machine whose settings have no wheels."""
    program = tmp_path / "main.Linux.gfortran.mpi.exe"
    if there:
        script(program, f"cat {ROOT}/tests/captures/cns/n1.txt")
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
    given = {**ONE, "layout_cores": 1, "nimc_dir": tmp_path / "run"}
    variables = {"NIMC_MINICLUSTER": str(tmp_path), "NIMC_SPACK_DIR": str(tmp_path / "none")}
    words = (tmp_path, tmp_path / "own.py", "cns", "-r")
    done = reframe(*words, name="cns_quick", settings=given, **variables)
    if not there:
        assert f"site/minicluster.yaml: programs: {program} is no program on this" in done.stdout
        assert "1 skipped" in done.stdout
        return
    succeeded(done)
    (sample,) = samples_of(tmp_path / "run", "cns_quick")
    assert sample["outcome"] == "kept"
    assert provenance_of(tmp_path / "run")["program"]["path"] == str(program)


@pytest.mark.parametrize(
    ("layout", "arguments", "expected"),
    [
        *((largest_cube, (n,), edge) for n, edge in ((1, 1), (7, 1), (8, 2), (26, 2), (27, 3))),
        # As many ranks on each node.
        *((largest_cube, n, edge) for n, edge in (((512, 8), 8), ((16, 8), 2), ((100, 2), 4))),
        *((largest_cube, n, edge) for n, edge in (((27, 2), 2), ((7, 4), 1))),
        *((near_square, (n,), of) for n, of in ((1, (1, 1)), (7, (1, 7)), (12, (3, 4)))),
        *((near_square, (n,), of) for n, of in ((16, (4, 4)), (18, (3, 6)))),
        *((near_cube, (n,), of) for n, of in ((1, (1, 1, 1)), (8, (2, 2, 2)), (12, (2, 2, 3)))),
        (near_cube, (13,), (1, 1, 13)),
    ],
)
def test_layouts_of_ranks(layout, arguments, expected):
    assert layout(*arguments) == expected
