"""Programs from Spack and from PATH; layouts of ranks, against factors found by hand."""

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
@pytest.mark.parametrize(
    ("machine", "reasons"),
    [
        ("localhost", ["test_HPCCG is not on PATH", "Spack is not set up for localhost"]),
        # On Slurm as well, before a job is submitted.
        pytest.param("minicluster", ["test_HPCCG is not on PATH"], marks=pytest.mark.slow),
    ],
)
def test_skipped_with_the_reason_of_each_environment(tmp_path, monkeypatch, machine, reasons):
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    variables = {"PATH": "/usr/bin:/bin", "NIMC_SPACK_DIR": str(tmp_path / "none")}
    done = reframe(tmp_path, machine, "hpccg", "-r", name="hpccg_quick", **variables)
    for reason in reasons:
        assert reason in done.stdout
    assert f"{len(reasons)} skipped" in done.stdout


@pytest.mark.skipif(
    shutil.which("test_HPCCG", path="/usr/bin:/bin") is not None, reason="HPCCG is installed here"
)
def test_a_campaign_is_told_why_its_check_was_skipped(tmp_path, monkeypatch):
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
    reason = why_failed(0, logs)
    assert reason.startswith("skipped: ")
    for part in ("test_HPCCG is not on PATH", "Spack is not set up for localhost"):
        assert part in reason


#: One run of one pair without writers; one that a busy host disturbed is repeated.
ONE = {"arms": "off", "pairs": 1, "warmups": 0, **VARIABLES}


def test_a_run_takes_each_case_from_one_environment_alone(tmp_path):
    program = script(tmp_path / "bin" / "test_HPCCG", "echo this is no HPCCG")
    text = (ROOT / "configs/localhost.py").read_text()
    config = tmp_path / "two.py"
    config.write_text(
        text.replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["wheels", "modules"]')
        .replace('"name": "spack"', '"name": "modules"')
        .replace('"features": ["spack"]', '"features": ["modules"]')
    )
    settings = {**ONE, "retries": 0, "nimc_dir": tmp_path / "run"}
    path = f"{program.parent}:{os.environ['PATH']}"
    done = reframe(
        tmp_path, config, "hpccg", "-r", name="hpccg_quick", settings=settings, PATH=path
    )
    assert "default+wheels runs it; each case runs on one partition and environment" in done.stdout
    assert "1 failure(s)" in done.stdout
    assert "1 skipped" in done.stdout
    assert len(samples_of(tmp_path / "run", "hpccg_quick")) == 1


@pytest.mark.skipif(not shutil.which("mpirun.openmpi"), reason="no mpirun.openmpi")
def test_open_mpi_runs_on_the_cpus_that_it_was_started_on():
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


#: Spack in ten lines: it chooses one version, and installs what prints a captured run.
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
    """Sets up such a Spack for localhost, which finds one compiler and says `spackcc 7.7.7`."""

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
def test_a_check_builds_its_program_and_says_how_it_was_made(tmp_path, set_up):
    set_up("stream", "stream_c.exe", "captures/stream/stream-1core.txt")
    settings = {**ONE, "layout_cores": 1, "nimc_dir": tmp_path / "run", "array_most": "2MiB"}
    words = ("stream", "-p", "spack", "-r")
    succeeded(reframe(tmp_path, "localhost", *words, name="stream_quick", settings=settings))
    sample = samples_of(tmp_path / "run", "stream_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    provenance = provenance_of(tmp_path / "run")
    spack = provenance["spack"]
    assert (spack["hash"], spack["spec"]) == ("aaa", "stream@1.0")
    assert provenance["compiler"] is None
    (built,) = (tmp_path / "state" / "localhost" / "environments").iterdir()
    # Two MiB of doubles are 2 * 1024 * 1024 / 8 elements.
    assert built.name == "stream@262144"


@pytest.mark.slow
def test_a_check_compiles_with_the_compiler_of_spack(tmp_path, set_up):
    set_up()
    settings = {**ONE, "nimc_dir": tmp_path / "run", "duration_s": 0.1, "size": "1MiB"}
    words = ("membench", "-p", "spack", "-r")
    succeeded(reframe(tmp_path, "localhost", *words, name="membench_quick", settings=settings))
    sample = samples_of(tmp_path / "run", "membench_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    assert provenance_of(tmp_path / "run")["compiler"] == "spackcc 7.7.7"


@pytest.mark.parametrize("exists", [True, False])
def test_the_program_that_the_site_names_is_run_though_spack_is_not_set_up(tmp_path, exists):
    """On a machine whose settings have no wheels."""
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


#: Apptainer as far as it is needed: it runs what the image, a script, is.
APPTAINER = '[ "$1" = exec ] || exit 9; shift; exec sh "$@"'


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["modules", "wheels"])
def test_a_program_in_a_container_is_that_of_an_environment(tmp_path, feature):
    """As in docs/workloads.md; the program is on no PATH but that of the environment."""
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
    settings = {**ONE, "nimc_dir": tmp_path / "run", "edge": 20, "iterations": 100}
    words = (tmp_path, config, "lulesh", "-r")
    succeeded(reframe(*words, name="lulesh_quick", settings={**settings, "layout_cores": 1}))
    sample = samples_of(tmp_path / "run", "lulesh_quick")[-1]
    assert sample["outcome"] == "accepted", sample["reason"]
    # The captured run's microseconds a zone and cycle, times its zones and cycles.
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
        # As many ranks on each node.
        *((largest_cube_edge, n, edge) for n, edge in (((512, 8), 8), ((16, 8), 2), ((100, 2), 4))),
        *((largest_cube_edge, n, edge) for n, edge in (((27, 2), 2), ((7, 4), 1))),
        *((near_square, (n,), edges) for n, edges in ((1, (1, 1)), (7, (1, 7)), (12, (3, 4)))),
        *((near_square, (n,), edges) for n, edges in ((16, (4, 4)), (18, (3, 6)))),
        *(
            (near_cube, (n,), edges)
            for n, edges in ((1, (1, 1, 1)), (8, (2, 2, 2)), (12, (2, 2, 3)))
        ),
        # Of 16 cubes, 1 x 4 x 4 has the same longest edge and more surface.
        *((near_cube, (n,), edges) for n, edges in ((16, (2, 2, 4)), (28, (2, 2, 7)))),
        *((near_cube, (n,), edges) for n, edges in ((128, (4, 4, 8)), (360, (6, 6, 10)))),
        (near_cube, (13,), (1, 1, 13)),
    ],
)
def test_layouts_of_ranks(layout, arguments, expected):
    assert layout(*arguments) == expected
