"""docs/first-day.md is followed literally, on a minicluster without preparation for nimc."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from nimc.run.session import INSPECTION_FOLDER_PREFIX
from records.checkout import ROOT
from tests.literal_docs import commands
from tests.nimc.cluster.unprepared import INTERFACE, MODULE_SYSTEMS, login_shell, unprepared_or_skip
from tests.nimc.minicluster.driven import Cluster
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "first-day.md").read_text()
#: This command makes a Python environment, which takes a minute and needs a network. The test links
#: its own environment instead.
SETUP = "sh scripts/setup.sh wheels ucx"
MODULE_SYSTEM = next((name for name, path in MODULE_SYSTEMS.items() if path.exists()), None)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if MODULE_SYSTEM is None:
        pytest.skip("no modules: apt install lmod, or environment-modules")
    yield from unprepared_or_skip()


class Shell:
    """A login shell in a folder that nodes see.

    It keeps the current folder and the variables that lines set.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self.remembered = f". {MODULE_SYSTEMS[str(MODULE_SYSTEM)]}\ncd {folder}\n"

    def command(self, line: str) -> list[str]:
        """Return the command of a shell that runs the remembered lines and then this line."""
        return ["bash", "-c", f"{self.remembered}{line}"]

    def run(self, line: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
        completed = subprocess.run(
            self.command(line),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if line.startswith("git "):  # `git clone ... && cd FOLDER`
            self.remembered += line.partition("&& ")[2] + "\n"
        elif line.startswith("export "):
            self.remembered += f"{line}\n"
        return completed


def _clonable_project(folder: Path) -> Path:
    """Return a repository of the checkout under test, with its uncommitted changes."""
    origin = folder / "origin"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(origin)], check=True)
    list_changes = ["git", "-C", str(ROOT), "ls-files", "-z", "--modified", "--others"]
    changes = subprocess.run(
        [*list_changes, "--exclude-standard"], capture_output=True, text=True
    ).stdout
    for name in filter(None, changes.split("\0")):
        if (ROOT / name).is_file():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / name).write_bytes((ROOT / name).read_bytes())
    author = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["add", "-A"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", "-C", str(origin), *author, *words], check=True)
    return origin


def _leftovers(shell: Shell) -> str:
    """Return jobs that are still in Slurm's queue, and folders of inspections."""
    jobs = shell.run("squeue --noheader").stdout
    return jobs + "".join(map(str, shell.folder.rglob(f"{INSPECTION_FOLDER_PREFIX}*")))


@pytest.mark.minicluster
@pytest.mark.long
def test_from_a_clone_to_a_report(cluster: Cluster) -> None:
    folder = cluster.state.parent
    repository = _clonable_project(folder)
    environment = login_shell(cluster, folder / "nimc") | {"NIMC_URL": str(repository)}
    shell = Shell(folder, environment)
    lines = commands(PAGE)
    assert SETUP in lines
    outputs: dict[str, str] = {}
    for line in lines:
        typed = f"ln -s {sys.prefix} .venv" if line == SETUP else line
        completed = shell.run(typed, timeout_s=1500)
        assert completed.returncode == 0, f"{line}\n{completed.stdout}{completed.stderr}"
        outputs[line] = completed.stdout
        if line == "nimc init mycluster":
            _assert_files_of_the_machine(folder / "nimc")
            _let_nodes_share_cores(folder / "nimc" / "site" / "mycluster.yaml")
            assert _leftovers(shell) == ""
        if line == "nimc doctor --in-job":
            _assert_ready(completed.stdout)
            assert _leftovers(shell) == ""
            _assert_a_job_that_cannot_start_is_cancelled_after_the_wait(shell)
            _assert_a_job_that_cannot_start_is_cancelled_on_ctrl_c(shell)
    (run,) = (folder / "nimc" / "results").glob("quick-*")
    report = run / "report" / "report.html"
    assert f"report:  {report}" in outputs["nimc run quick"]
    assert report.stat().st_size > 10_000
    samples = (run / "samples" / "stream.jsonl").read_text().splitlines()
    arms = {json.loads(line)["arm"] for line in samples}
    assert {"off", "on"} <= arms
    assert _leftovers(shell) == ""


def _assert_files_of_the_machine(checkout: Path) -> None:
    site = (checkout / "site" / "mycluster.yaml").read_text()
    assert "policy: same_job" in site
    assert "heterogeneous" in site  # the reason: the partition takes no heterogeneous jobs
    assert f"interface: {INTERFACE}" in site
    config = (checkout / "configs" / "mycluster.py").read_text()
    assert f'"modules_system": "{MODULE_SYSTEM}"' in config
    assert "#   gcc/12\n" in config
    assert "#   openmpi/4.1.4\n" in config


def _let_nodes_share_cores(site: Path) -> None:
    """Add the limits of a minicluster's file, since its nodes share the few cores of this host."""
    text = site.read_text()
    assert "\nproof:" not in text
    site.write_text(f"{text}\nproof: {{min_share: 0.1, max_share: 4}}\n")


def _assert_ready(text: str) -> None:
    """Assert that `nimc doctor` lists checks of nodes as working, and ends with 'is ready'."""
    works = " ".join(text.partition("works: ")[2].partition("\n\n")[0].split()).split(", ")
    nodes = {"job on nodes", "shared folders", "locks", "interface on nodes"}
    assert nodes <= set(works), text
    assert text.rstrip().endswith("mycluster is ready")


@contextmanager
def _drained_nodes(shell: Shell) -> Iterator[None]:
    """Drains all nodes, so that no job starts."""
    nodes = "node1,node2,node3"
    shell.run(f"scontrol update nodename={nodes} state=drain reason=test")
    yield
    shell.run(f"scontrol update nodename={nodes} state=resume")
    # Nodes are `idle*` until the controller has contacted them.
    states = "sinfo --noheader --Node --format=%T --partition=batch"
    wait_until(lambda: set(shell.run(states).stdout.split()) == {"idle"}, every_s=0.2)


def _assert_a_job_that_cannot_start_is_cancelled_after_the_wait(shell: Shell) -> None:
    with _drained_nodes(shell):
        late = shell.run("nimc doctor --in-job --wait 2s")
        assert late.returncode == 3
        assert "after 2 s" in " ".join(late.stdout.split())
        assert _leftovers(shell) == ""


def _assert_a_job_that_cannot_start_is_cancelled_on_ctrl_c(shell: Shell) -> None:
    with _drained_nodes(shell):
        doctor = subprocess.Popen(
            shell.command("exec nimc doctor --in-job"),
            env=shell.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: shell.run("squeue --noheader").stdout, every_s=0.2, process=doctor)
        doctor.send_signal(signal.SIGINT)
        _, err = doctor.communicate(timeout=300)
        assert doctor.returncode == 128 + signal.SIGINT
        assert "SIGINT" in err
        assert _leftovers(shell) == ""
