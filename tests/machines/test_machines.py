"""Tests each machine in a box with `nimc init`, `doctor`, `plan` and the first job script."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from records.checkout import ROOT
from records.machine.fabrics import FABRICS
from tests.machines.box import MACHINES, programs, unpack
from tests.reframe_tests.reframe_call import reframe, succeeded

NAMES = sorted(path.parent.name for path in MACHINES.glob("*/right.yaml"))
#: Folders of the checkout that the commands read.
_FOLDERS = (
    "analysis",
    "campaigns",
    "conductor",
    "docs",
    "nimc",
    "records",
    "reframe_tests",
    "scripts",
    "spack_envs",
    "testbed",
    "tests",
)


def right(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = yaml.safe_load((MACHINES / name / "right.yaml").read_text())
    return facts


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy this checkout, without the files of its machines."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "conductor/mpi_put/mpi_put").unlink(missing_ok=True)  # built for the real host
    for name in ("site", "configs"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module")
def box(checkout: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that answers requests for a machine in a box."""
    command = [sys.executable, "-m", "tests.machines.box"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=checkout, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_first_contact(name, checkout, box, tmp_path, monkeypatch):
    facts = right(name)
    unpack(name, tmp_path / "root")
    for variable, value in programs(name, tmp_path / "bin").items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    commands = [
        ["init", name],
        ["doctor", "--machine", name, "--in-job", "--json"],
        ["plan", "quick", "--machine", name, "--json"],
        ["plan", "single_node", "--machine", name, "--json"],
    ]
    root = str(tmp_path / "root")
    init, doctor, *plans = answers(
        box, root=root, machine=name, environment=dict(os.environ), commands=commands
    )
    assert init[0] == 0, init
    check_site((checkout / "site" / f"{name}.yaml").read_text(), facts)
    check_doctor(doctor, facts)
    for status, out, err in plans:
        assert (status, err) == (0, ""), err
        planned = json.loads(out)
        assert planned["why"] == ""
        node_lines = [line for line in planned["warnings"] if "when nodes were inspected" in line]
        assert bool(node_lines) == (facts["doctor"] == 3), node_lines
        assert {"stream", "lammps"} <= {case["case"] for case in planned["cases"]}
    check_job(name, checkout, tmp_path, facts)


def answers(box: "subprocess.Popen[str]", **request: object) -> list[Any]:
    """Send a request; return exit status, standard output and standard error of each command."""
    assert box.stdin
    assert box.stdout
    print(json.dumps(request), file=box.stdin, flush=True)
    line = box.stdout.readline()
    assert line, "the request failed"
    return list(json.loads(line))


def check_site(text: str, facts: dict[str, Any]) -> None:
    """Check that a site file has the right values.

    Other keys that depend on hardware must be missing, except on a machine of the fabric 'shared
    memory'.
    """
    site = yaml.safe_load(text)
    hardware = {"injector", "device", "rails", "interface", "facts"}
    assert {key: site.get(key) for key in facts["site"]} == facts["site"]
    if facts["fabric"] != "shared memory":
        assert hardware & site.keys() == hardware & facts["site"].keys()
    words = " ".join(text.replace("\n# ", " ").split())
    for part in facts.get("says", ()):
        assert part in words


def check_doctor(answer: list[Any], facts: dict[str, Any]) -> None:
    status, out, err = answer
    assert status == facts["doctor"], out + err
    document = json.loads(out)
    rows = {row["what"]: row for row in document["findings"]}
    for subject, (state, part) in facts["findings"].items():
        assert (rows[subject]["state"], part in rows[subject]["detail"]) == (state, True), rows[
            subject
        ]
    restricts = {"processor on nodes", "memory-side cache on nodes"}
    assert restricts & rows.keys() == restricts & facts["findings"].keys()
    kinds = {device["transport"] for device in document["host"]["rdma"]}
    assert kinds == {facts["fabric"], *facts.get("others", ())} - {"tcp", "shared memory"}


def check_job(name: str, checkout: Path, folder: Path, facts: dict[str, Any]) -> None:
    """Check the job that ReFrame would submit for STREAM, and how STREAM is compiled.

    STREAM uses the environment `wheels`.
    """
    partition = facts["site"].get("origins", {}).get("partition", "batch")
    words = ["--dry-run", f"--system={name}:{partition}", "-p", "^wheels$"]
    succeeded(reframe(folder, name, "stream", *words, root=checkout))
    (job,) = (folder / "stage").glob("*/*/*/stream/rfm_job.sh")
    assert set(facts.get("job", ())) <= set(job.read_text().splitlines())
    if "stream_array" in facts:
        built = job.with_name("rfm_build.sh").read_text()
        assert re.findall(r"-DSTREAM_ARRAY_SIZE=([0-9]+)", built) == [str(facts["stream_array"])]


def test_each_fabric_of_the_table_has_a_machine():
    assert {right(name)["fabric"] for name in NAMES} == set(FABRICS)


def test_lines_of_a_box_become_files_and_links(tmp_path, monkeypatch):
    from tests.machines import box

    (tmp_path / "x").mkdir()
    (tmp_path / "x/kernel.txt").write_text(
        "# of x\na[0-1,7]/{n/2*2+1} = {n%2}\\t{n}\nb -> a0\nc !\nd = \n"
    )
    monkeypatch.setattr(box, "MACHINES", tmp_path)
    unpack("x", tmp_path / "root")
    root = tmp_path / "root"
    assert [(root / path).read_text() for path in ("a0/1", "a1/1", "a7/7", "b/1", "d")] == [
        "0\t0\n",
        "1\t1\n",
        "1\t7\n",
        "0\t0\n",
        "\n",
    ]
    with pytest.raises(OSError, match="directory"):
        (root / "c").read_text()
