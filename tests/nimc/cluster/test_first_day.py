"""docs/first-day.md, followed literally on a cluster that nobody prepared."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from nimc.run.session import LOOK_PREFIX
from records.checkout import ROOT
from tests.literal_docs import commands
from tests.nimc.cluster.unprepared import INTERFACE, MODULE_SYSTEMS, login_shell, unprepared_or_skip
from tests.nimc.minicluster.driven import Cluster
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "first-day.md").read_text()
#: Makes an environment, which takes a minute and a network; the test links this one.
SETUP = "sh scripts/setup.sh wheels ucx"
MODULE_SYSTEM = next((name for name, path in MODULE_SYSTEMS.items() if path.exists()), None)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if MODULE_SYSTEM is None:
        pytest.skip("no modules: apt install lmod, or environment-modules")
    yield from unprepared_or_skip()


class Shell:
    """A login shell in a folder that nodes see, which remembers where it is."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        profile = MODULE_SYSTEMS[str(MODULE_SYSTEM)]
        (folder / "before").write_text(f". {profile}\ncd {folder}\n")

    def run(self, line: str, timeout_s: float = 200) -> subprocess.CompletedProcess[str]:
        before = (self.folder / "before").read_text()
        done = subprocess.run(
            ["bash", "-c", f"{before}{line}"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if line.partition(" ")[0] in ("git", "export"):  # what later lines of the shell build on
            kept = line.partition("&& ")[2] or line
            (self.folder / "before").write_text(f"{before}{kept}\n")
        return done


def _project(folder: Path) -> Path:
    """The checkout under test as a repository that can be cloned, changes included."""
    origin = folder / "origin"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(origin)], check=True)
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--modified", "--others"]
    changed = subprocess.run([*listed, "--exclude-standard"], capture_output=True, text=True)
    for name in filter(None, changed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            (origin / name).write_bytes((ROOT / name).read_bytes())
    author = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["add", "-A"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", "-C", str(origin), *author, *words], check=True)
    return origin


def _left(shell: Shell) -> str:
    """Jobs of Slurm, and folders of a job that looked at nodes."""
    return shell.run("squeue --noheader").stdout + "".join(
        map(str, shell.folder.rglob(f"{LOOK_PREFIX}*"))
    )


@pytest.mark.minicluster
@pytest.mark.long
def test_from_a_clone_to_a_report(cluster: Cluster) -> None:
    folder = cluster.state.parent
    environment = login_shell(cluster, folder / "nimc") | {"NIMC_URL": str(_project(folder))}
    shell = Shell(folder, environment)
    lines = commands(PAGE)
    assert SETUP in lines
    outputs: dict[str, str] = {}
    for line in lines:
        typed = f"ln -s {sys.prefix} .venv" if line == SETUP else line
        done = shell.run(typed, timeout_s=1500)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        outputs[line] = done.stdout
        if line == "nimc init mycluster":
            _check_files(folder / "nimc")
            _nodes_share_cores(folder / "nimc" / "site" / "mycluster.yaml")
            assert _left(shell) == ""
        if line == "nimc doctor --in-job":
            _check_doctor(done.stdout)
            assert _left(shell) == ""
            _stop_in_job(shell)
    (run,) = (folder / "nimc" / "results").glob("quick-*")
    report = run / "report" / "report.html"
    assert f"report:  {report}" in outputs["nimc run quick"]
    assert report.stat().st_size > 10_000
    samples = (run / "samples" / "stream.jsonl").read_text().splitlines()
    nodes = {json.loads(line)["arm"] for line in samples}
    assert {"off", "on"} <= nodes
    assert _left(shell) == ""


def _check_files(checkout: Path) -> None:
    site = (checkout / "site" / "mycluster.yaml").read_text()
    assert "policy: same_job" in site
    assert "batch takes no heterogeneous jobs" in site.replace("\n# ", " ")
    assert f"interface: {INTERFACE}" in site
    config = (checkout / "configs" / "mycluster.py").read_text()
    assert f'"modules_system": "{MODULE_SYSTEM}"' in config
    assert "#   gcc/12\n" in config
    assert "#   openmpi/4.1.4\n" in config


def _nodes_share_cores(site: Path) -> None:
    """What the file of a minicluster says: its nodes are namespaces on the same few cores."""
    text = site.read_text()
    assert "\nproof:" not in text
    site.write_text(f"{text}\nproof: {{min_share: 0.1, max_share: 4}}\n")


def _check_doctor(text: str) -> None:
    works = " ".join(text.partition("works: ")[2].partition("\n\n")[0].split()).split(", ")
    nodes = {"job on nodes", "shared folders", "locks", "interface on nodes"}
    assert nodes <= set(works), text
    assert text.rstrip().endswith("mycluster is ready")


def _stop_in_job(shell: Shell) -> None:
    """A job that cannot start is cancelled when the wait is over, and on Ctrl-C."""
    nodes = "node1,node2,node3"
    shell.run(f"scontrol update nodename={nodes} state=drain reason=test")
    late = shell.run("nimc doctor --in-job --wait 2s")
    assert late.returncode == 3
    assert "it had not started after 2 s" in " ".join(late.stdout.split())
    assert _left(shell) == ""

    before = (shell.folder / "before").read_text()
    waiting = subprocess.Popen(
        ["bash", "-c", f"{before}exec nimc doctor --in-job"],
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: shell.run("squeue --noheader").stdout != "", every_s=0.2, process=waiting)
    waiting.send_signal(signal.SIGINT)
    _, stderr = waiting.communicate(timeout=300)
    assert waiting.returncode == 128 + signal.SIGINT
    assert "stopped by SIGINT; no job is left" in stderr
    assert _left(shell) == ""
    shell.run(f"scontrol update nodename={nodes} state=resume")
    # They are `idle*` until the controller asked them.
    states = "sinfo --noheader --Node --format=%T --partition=batch"
    wait_until(lambda: set(shell.run(states).stdout.split()) == {"idle"}, every_s=0.2)
