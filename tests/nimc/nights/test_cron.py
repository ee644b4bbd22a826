"""A night that a real cron starts, in namespaces of its own: no service of this host is touched."""

import os
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from nimc.nights.summary import load
from tests.nimc.conftest import ROOT
from tests.nimc.nights.conftest import Box

pytestmark = pytest.mark.slow

#: In a mount and process namespace whose /var/spool/cron, /etc/crontab and /run are empty.
_INSIDE = """\
set -e
mount -t tmpfs none /var/spool/cron
mkdir /var/spool/cron/crontabs
mount -t tmpfs none /run
mount --bind /dev/null /etc/crontab
mount -t tmpfs none /etc/cron.d
"""


def inside(script: str, *, network: bool = True) -> list[str]:
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*apart, *([] if network else ["--net"]), "sh", "-c", script]


def need_namespaces() -> None:
    if os.geteuid() != 0:
        pytest.skip("cron needs root to run jobs")
    if subprocess.run(inside("true"), capture_output=True).returncode:
        pytest.skip("this host lets nobody make namespaces")


def test_cron_starts_the_night_that_init_installs(box: Box) -> None:
    need_namespaces()
    if shutil.which("cron", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("no cron (apt install cron)")
    start = datetime.now() + timedelta(seconds=75)
    end = start + timedelta(hours=1)
    box.describe(window=f'{{start: "{start:%H:%M}", end: "{end:%H:%M}"}}')
    reframe = box.folder / "reframe"  # says where it would look for sbatch: cron's PATH is short
    reframe.write_text(
        reframe.read_text().replace("exec", f'echo "$PATH" > {box.folder}/path\nexec')
    )
    nimc = f"{sys.executable} -c 'from nimc.cli.main import main; main()'"
    script = f"""{_INSIDE}
printf 'PYTHONPATH={ROOT}\\nNIMC_REFRAME={box.folder}/reframe\\n7 7 7 7 7 true\\n' | crontab -
for once in 1 2; do {nimc} nightly init {box.file} --cron --install; done
crontab -l > {box.folder}/table
exec /usr/sbin/cron -f
"""
    cron = subprocess.Popen(
        inside(script),
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"/opt/slurm/bin:{os.environ['PATH']}"},
        start_new_session=True,
    )
    try:
        until_s = time.monotonic() + 300
        while not any(each.finished_s for each in box.nights()):
            assert cron.poll() is None
            assert time.monotonic() < until_s, log_of(box)
            time.sleep(0.5)
    finally:
        cron.kill()  # unshare ignores SIGTERM; what it started ends with it
        cron.wait()
    assert box.night().outcome == "measured", log_of(box)
    assert box.night().night == start.date()
    assert (box.folder / "path").read_text().startswith("/opt/slurm/bin:")
    table = (box.folder / "table").read_text().splitlines()
    assert table[:3] == [
        f"PYTHONPATH={ROOT}",
        f"NIMC_REFRAME={box.folder}/reframe",
        "7 7 7 7 7 true",
    ]
    assert sum("nightly run" in line for line in table) == 1  # installed twice


def log_of(box: Box) -> str:
    log = box.nimc.results / "nights" / "box.log"
    return log.read_text() if log.exists() else "no log"


def test_gitlabs_script_runs_as_written_without_network(box: Box, tmp_path: Path) -> None:
    """Each job's lines, in one shell as the runner does it, and the artifacts that they promise."""
    need_namespaces()
    import yaml

    from nimc.nights import install
    from nimc.nights.description import load as describe

    nimc = tmp_path / "nimc"
    nimc.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from nimc.cli.main import main; main()' \"$@\"\n"
    )
    nimc.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NIMC_REFRAME": str(box.folder / "reframe"),
        "CI_PIPELINE_ID": "7",
    }

    def job(described: dict[str, object]) -> Path:
        place = Path(described["at"])  # type: ignore[arg-type]
        place.mkdir(exist_ok=True)
        script = "\n".join(["set -eo pipefail", f"cd {place}", *described["script"]])  # type: ignore[misc]
        command = ["unshare", "--net", "bash", "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for each in described["artifacts"]["paths"]:  # type: ignore[index]
            assert (place / each.replace("$CI_PIPELINE_ID", "7")).stat().st_size > 0
        return place

    nightly = describe(str(box.file))
    parent = yaml.safe_load(install.gitlab_parent(nightly, [str(nimc)], "UTC", jacamar=False))
    place = job(parent["plan box"] | {"at": tmp_path / "plan"})
    child = yaml.safe_load(
        (place / "nimc-box.yml")
        .read_text()
        .replace(str(Path(sys.executable).parent / "nimc"), str(nimc))
    )
    assert list(child) == ["stages", "measure", "case stream"]
    measured = job(child["measure"] | {"at": tmp_path / "measure"})
    assert load(measured / "summary-7.json").outcome == "measured"
    job(child["case stream"] | {"at": measured})  # its artifacts are passed on
    assert 'failures="0"' in (measured / "case.xml").read_text()

    # The next night, in the same folder, is not run: nothing of this one is reported.
    environment["CI_PIPELINE_ID"] = "8"
    now = datetime.now()
    start, end = (f"{now + timedelta(hours=hours):%H:%M}" for hours in (2, 3))
    box.describe(window=f'{{start: "{start}", end: "{end}"}}')
    job(child["measure"] | {"at": measured, "artifacts": {"paths": ["summary-8.json"]}})
    assert [each.name for each in measured.glob("summary-*")] == ["summary-8.json"]
    job(child["case stream"] | {"at": measured})
    for name in ("junit.xml", "case.xml"):
        assert "<skipped" in (measured / name).read_text()
    # Nor if nothing says how it ended, as when the job before was killed.
    environment["CI_PIPELINE_ID"] = "9"
    with pytest.raises(AssertionError, match=r"summary-9\.json: No such file"):
        job(child["case stream"] | {"at": measured})
    assert (measured / "case.xml").read_text() == ""
