"""Tests of checks whose programs come from Spack, from PATH or from the file of a site.

Further tests compare layouts of ranks with factors that were computed by hand.
"""

import hashlib
import json
import os
import runpy
import shutil

import pytest

from nimc.campaign.plan import block_plan, logs_of
from nimc.campaign.request import load_request
from nimc.run.runner import why_failed
from records.checkout import ROOT
from reframe_tests.binaries import largest_cube_edge, near_cube, near_square
from reframe_tests.spack.folders import layout as spack_layout
from reframe_tests.spack.setup import setup
from tests.reframe_tests.reframe_call import (
    plan_of,
    provenance_of,
    ran,
    reframe,
    samples_of,
    script,
    succeeded,
)
from tests.undisturbed import VARIABLES


@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
@pytest.mark.slow
def test_a_check_for_slurm_is_skipped_before_it_submits_a_job(tmp_path, monkeypatch):
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    variables = {"PATH": "/usr/bin:/bin", "NIMC_SPACK_DIR": str(tmp_path / "none")}
    done = reframe(tmp_path, "minicluster", "hpccg", "-r", name="hpccg_quick", **variables)
    assert "test_HPCCG is not on PATH" in done.stdout
    assert "1 skipped" in done.stdout


@pytest.mark.slow
def test_flags_of_an_environment_choose_the_processor_and_leave_the_programs_optimised(tmp_path):
    text = (ROOT / "configs" / "localhost.py").read_text()
    config = tmp_path / "arm.py"
    config.write_text(text.replace('"cc": "cc",', '"cc": "cc", "cflags": ["-g3", "-mcpu=a64fx"],'))
    checks = ["-c", ROOT / "reframe_tests/membench.py", "-p", "wheels", "--dry-run"]
    succeeded(reframe(tmp_path, config, "stream", *checks, name="(stream|membench)"))
    (stream,) = tmp_path.glob("stage/*/*/*/stream/rfm_build.sh")
    assert "-O3 -mcpu=a64fx -fopenmp" in stream.read_text()
    (membench,) = tmp_path.glob("stage/*/*/*/membench/rfm_build.sh")
    (make,) = (line for line in membench.read_text().splitlines() if line.startswith("make"))
    compiled = succeeded(ran("sh", "-c", f"{make} -n -B", cwd=ROOT / "reframe_tests/src/membench"))
    assert "cc -O3 -g -g3 -mcpu=a64fx -std=c11" in compiled


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
def test_a_skipped_check_names_a_reason_for_each_environment(tmp_path, monkeypatch):
    """ReFrame prints the reasons, and the campaign finds them in ReFrame's report."""
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    campaign = tmp_path / "c.yaml"
    campaign.write_text("name: c\nworkloads: [{check: hpccg, expect: 5s}]\narms: [off, spin, aa]\n")
    request = load_request(campaign, "localhost")
    (case,) = request.campaign.cases
    logs = logs_of(tmp_path / "run", case, 0)
    logs.mkdir(parents=True)
    block_plan(request, case, 0, 6, tmp_path / "run", seed=1).save(logs / "plan.json")
    report = f"--report-file={logs / 'reframe.json'}"
    variables = {"PATH": "/usr/bin:/bin", "NIMC_SPACK_DIR": str(tmp_path / "none")}
    settings = {"block_file": logs / "plan.json"}
    done = reframe(tmp_path, "localhost", "hpccg", "-r", report, settings=settings, **variables)
    assert done.returncode == 0
    assert "2 skipped" in done.stdout
    reason = why_failed(0, logs)
    assert reason.startswith("skipped: ")
    for part in ("test_HPCCG is not on PATH", "Spack is not set up for localhost"):
        assert part in done.stdout
        assert part in reason


#: Variables of a check for one run without writers. If a busy host disturbs the run, the run is
#: repeated.
ONE_RUN = {"arms": "off", "pairs": 1, "warmups": 0, **VARIABLES}


@pytest.mark.slow
def test_each_case_runs_in_one_environment_only(tmp_path):
    program = script(tmp_path / "bin" / "test_HPCCG", "echo this is no HPCCG")
    text = (ROOT / "configs/localhost.py").read_text()
    config = tmp_path / "two.py"
    config.write_text(
        text.replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["wheels", "modules"]')
        .replace('"name": "spack"', '"name": "modules"')
        .replace('"features": ["spack"]', '"features": ["modules"]')
    )
    settings = {**ONE_RUN, "retries": 0, "nimc_dir": tmp_path / "run"}
    path = f"{program.parent}:{os.environ['PATH']}"
    done = reframe(
        tmp_path, config, "hpccg", "-r", name="hpccg_quick", settings=settings, PATH=path
    )
    assert "default+wheels runs it; each case runs on one partition and environment" in done.stdout
    assert "1 failure(s)" in done.stdout
    assert "1 skipped" in done.stdout
    assert len(samples_of(tmp_path / "run", "hpccg_quick")) == 1


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="no mpirun.openmpi")
def test_open_mpi_keeps_its_ranks_on_the_processors_on_which_it_was_started():
    (system,) = runpy.run_path(str(ROOT / "configs/localhost.py"))["site_configuration"]["systems"]
    variables = {
        name: value for name, value in system["partitions"][0]["env_vars"] if name != "PATH"
    }
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    last = max(os.sched_getaffinity(0))
    status = ["grep", "Cpus_allowed_list", "/proc/self/status"]
    words = ["taskset", "-c", str(last), "mpirun.openmpi", "-n", "1", *status]
    done = ran(*words, env={**os.environ, **as_root, **variables})
    assert done.stdout.split() == ["Cpus_allowed_list:", str(last)]


#: A stand-in for Spack. It concretizes each package to one version, and it installs a program that
#: prints a captured output.
SPACK = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
shift 2
case "$*" in
  --version) echo "1.1.0 (2e90720)" ;;
  *"compiler find"*) cp "$here/packages.yaml" "$SPACK_USER_CONFIG_PATH" ;;
  *concretize*) echo '{{"roots": [{{"hash": "aaa", "spec": "{package}"}}]}}' > "$2/spack.lock" ;;
  *install*)
    mkdir -p "$2/.spack-env/view/bin"
    printf '#!/bin/sh\ncat {capture}\n' > "$2/.spack-env/view/bin/{program}"
    chmod +x "$2/.spack-env/view/bin/{program}" ;;
  *find*) printf 'aaa\t{package}\t1.0\t%s\t{package}@1.0\n' "$here" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path, monkeypatch):
    """A function that sets up the stand-in SPACK for localhost.

    SPACK finds one compiler; this compiler prints `spackcc 7.7.7` as its version.
    """

    def set_up(package="", program="", capture=""):
        root = tmp_path / "spack"
        text = SPACK.format(package=package, program=program, capture=ROOT / "tests" / capture)
        script(root / "bin" / "spack", text)
        compiler = script(
            root / "cc", 'test "$1" = --version && echo spackcc 7.7.7 || exec cc "$@" -O0'
        )
        external = {"spec": "gcc@7", "extra_attributes": {"compilers": {"c": str(compiler)}}}
        (root / "packages.yaml").write_text(
            json.dumps({"packages": {"gcc": {"externals": [external]}}})
        )
        monkeypatch.setenv("SPACK_ROOT", str(root))
        monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
        (tmp_path / "repo.yaml").write_text("repo: {}\n")
        setup(spack_layout("localhost", None), tmp_path, None, None, print)

    return set_up


@pytest.mark.slow
def test_a_check_builds_its_program_and_records_the_spec_of_spack(tmp_path, set_up):
    set_up("stream", "stream_c.exe", "captures/stream/stream-1core.txt")
    settings = {**ONE_RUN, "layout_cores": 1, "nimc_dir": tmp_path / "run", "array_most": "2MiB"}
    words = ("stream", "-p", "spack", "-r")
    succeeded(reframe(tmp_path, "localhost", *words, name="stream_quick", settings=settings))
    sample = samples_of(tmp_path / "run", "stream_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    provenance = provenance_of(tmp_path / "run")
    spack = provenance["spack"]
    assert (spack["hash"], spack["spec"]) == ("aaa", "stream@1.0")
    assert provenance["compiler"] is None
    (built,) = (tmp_path / "state" / "localhost" / "environments").iterdir()
    # An array of 2 MiB has 2 * 1024 * 1024 / 8 doubles.
    assert built.name == "stream@262144"


@pytest.mark.slow
def test_a_check_compiles_with_the_compiler_of_spack(tmp_path, set_up):
    set_up()
    settings = {**ONE_RUN, "nimc_dir": tmp_path / "run", "duration_s": 0.1, "size": "1MiB"}
    words = ("membench", "-p", "spack", "-r")
    succeeded(reframe(tmp_path, "localhost", *words, name="membench_quick", settings=settings))
    sample = samples_of(tmp_path / "run", "membench_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    assert provenance_of(tmp_path / "run")["compiler"] == "spackcc 7.7.7"


@pytest.mark.slow
def test_a_build_that_fails_is_not_replaced_by_another_program(tmp_path, set_up):
    """The wheels have a program, too. Samples with it would be those of another build."""
    set_up("hpccg", "test_HPCCG", "captures/hpccg/n1.txt")
    spack = tmp_path / "spack/bin/spack"
    log = tmp_path / "installs"
    spack.write_text(spack.read_text().replace("*install*)", f"*install*) echo >>{log}; exit 1"))
    program = script(tmp_path / "bin" / "test_HPCCG", "echo this is no HPCCG")
    config = tmp_path / "two.py"
    text = (ROOT / "configs/localhost.py").read_text()
    config.write_text(
        text.replace('"launcher": "mpiexec"', '"launcher": "local"').replace(
            '"environs": ["wheels", "spack"]', '"environs": ["spack", "wheels"]'
        )
    )
    settings = {**ONE_RUN, "retries": 0, "nimc_dir": tmp_path / "run"}
    path = f"{program.parent}:{os.environ['PATH']}"
    words = (tmp_path, config, "hpccg", "-r")
    done = reframe(*words, name="hpccg_quick", settings=settings, PATH=path)
    assert "1 failure(s)" in done.stdout
    assert "1 skipped" in done.stdout
    assert log.read_text().count("\n") == 1
    assert not (tmp_path / "run" / "samples" / "hpccg_quick.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
def test_a_program_that_the_site_file_names_needs_no_spack(tmp_path, exists):
    """The settings of the machine have no environment of wheels.

    If the program does not exist, the check is skipped and names the entry of the site file.
    """
    program = tmp_path / "main.Linux.gfortran.mpi.exe"
    if exists:
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
    variables = {"NIMC_MINICLUSTER": str(tmp_path), "NIMC_SPACK_DIR": str(tmp_path / "none")}
    words = (tmp_path, tmp_path / "own.py", "cns", "--dry-run" if exists else "-r")
    done = reframe(*words, name="cns_quick", settings={"layout_cores": 1}, **variables)
    if not exists:
        assert f"site/minicluster.yaml: programs: {program} is no program on this" in done.stdout
        assert "1 skipped" in done.stdout
        return
    succeeded(done)
    plan = plan_of(tmp_path, "cns_quick")
    assert plan["program"] == str(program)
    assert plan["treatments"][0]["start"]["command"] == [str(program), "inputs"]


#: A stand-in for Apptainer: it runs the image, which is a script here.
APPTAINER = '[ "$1" = exec ] || exit 9; shift; exec sh "$@"'


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["modules", "wheels"])
def test_an_environment_can_provide_a_program_in_a_container(tmp_path, feature):
    """docs/workloads.md describes these settings; only this environment's PATH has the program."""
    image = tmp_path / "lulesh.sif"
    image.write_text(
        f'[ "$*" = "lulesh2.0 -s 20 -i 100" ] && cat {ROOT}/tests/captures/lulesh/n1-i100.txt'
    )
    script(tmp_path / "bin" / "lulesh2.0", f'exec apptainer exec {image} lulesh2.0 "$@"')
    script(tmp_path / "system" / "apptainer", APPTAINER)
    config = tmp_path / "own.py"
    path = f"{tmp_path}/bin:{tmp_path}/system:$PATH"
    config.write_text(
        (ROOT / "configs/localhost.py")
        .read_text()
        .replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["container"]')
        .replace('"name": "spack"', f'"name": "container", "env_vars": [["PATH", "{path}"]]')
        .replace('"features": ["spack"]', f'"features": ["{feature}"]')
    )
    settings = {**ONE_RUN, "nimc_dir": tmp_path / "run", "edge": 20, "iterations": 100}
    words = (tmp_path, config, "lulesh", "-r")
    succeeded(reframe(*words, name="lulesh_quick", settings={**settings, "layout_cores": 1}))
    sample = samples_of(tmp_path / "run", "lulesh_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    # The captured run prints microseconds for each zone and cycle. The figure of merit is this time
    # multiplied by the number of zones and the number of cycles.
    assert sample["fom"] == pytest.approx(1.2818067e-6 * 20**3 * 100)
    provenance = provenance_of(tmp_path / "run")
    assert provenance["environment"] == "container"
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    assert provenance["program"]["images"] == {str(image): digest}


@pytest.mark.parametrize(
    ("layout", "arguments", "expected"),
    [
        *(
            (largest_cube_edge, (n,), edge)
            for n, edge in ((1, 1), (7, 1), (8, 2), (26, 2), (27, 3))
        ),
        # The second argument is the number of nodes; each node must get the same number of ranks.
        *((largest_cube_edge, n, edge) for n, edge in (((512, 8), 8), ((16, 8), 2), ((100, 2), 4))),
        *((largest_cube_edge, n, edge) for n, edge in (((27, 2), 2), ((7, 4), 1))),
        *((near_square, (n,), edges) for n, edges in ((1, (1, 1)), (7, (1, 7)), (12, (3, 4)))),
        *((near_square, (n,), edges) for n, edges in ((16, (4, 4)), (18, (3, 6)))),
        *(
            (near_cube, (n,), edges)
            for n, edges in ((1, (1, 1, 1)), (8, (2, 2, 2)), (12, (2, 2, 3)))
        ),
        # A box of 1 x 4 x 4 would also hold 16 cubes and have the same longest edge, but it has a
        # larger surface than 2 x 2 x 4.
        *((near_cube, (n,), edges) for n, edges in ((16, (2, 2, 4)), (28, (2, 2, 7)))),
        *((near_cube, (n,), edges) for n, edges in ((128, (4, 4, 8)), (360, (6, 6, 10)))),
        (near_cube, (13,), (1, 1, 13)),
    ],
)
def test_layouts_of_ranks_are_those_computed_by_hand(layout, arguments, expected):
    assert layout(*arguments) == expected
