"""What is installed: tables keep foreign lines, systemd and GitLab understand what they get."""

import shutil
import subprocess
from inspect import signature
from pathlib import Path

import pytest
import yaml

from nimc.base.errors import InputError, MachineError
from nimc.base.programs import ProgramAnswer
from nimc.nights import install
from nimc.run import session
from tests.nimc.nights.made import TEXT, nightly

NIMC = ["/opt/n m/nimc"]
RUN = [*NIMC, "nightly", "run", "box"]


def test_cron_gets_one_line_with_its_percent_signs_escaped(tmp_path: Path) -> None:
    block = install.cron_block(nightly(tmp_path), [*RUN, "50%"])
    log = tmp_path / "results" / "nights" / "box.log"
    assert block.splitlines() == [
        f"# BEGIN nimc nightly {tmp_path}/box.yaml",
        f"# made by 'nimc nightly init {tmp_path}/box.yaml --cron', which replaces these lines",
        "0 22 * * 1,2,3,4,5 '/opt/n m/nimc' nightly run box 50\\%"
        f" > {log} 2>&1",
        f"# END nimc nightly {tmp_path}/box.yaml",
    ]  # fmt: skip


def test_scrontab_gets_options_of_a_job_that_outlasts_the_window(tmp_path: Path) -> None:
    folder = tmp_path / "50%j"
    folder.mkdir()
    found = nightly(folder, job="[--partition=cron, --comment=$USER]")
    lines = install.scrontab_block(found, RUN).splitlines()
    assert "#SCRON --time=435" in lines  # seven hours and a quarter
    # %j would be the job's number.
    assert f"#SCRON --output={tmp_path}/50%%j/results/nights/box.log" in lines
    assert lines[-4:-2] == ["#SCRON --partition=cron", "#SCRON --comment=$USER"]
    assert lines[-2] == "0 22 * * 1,2,3,4,5 '/opt/n m/nimc' nightly run box"
    parent = yaml.safe_load(install.gitlab_parent(found, NIMC, "Europe/Berlin", jacamar=True))
    options = parent["plan box"]["variables"]["SCHEDULER_PARAMETERS"]
    assert options == "--time=15 --partition=cron --comment=$$USER"
    (script,) = parent["plan box"]["script"]
    assert script.endswith(" --gitlab --child --jacamar > nimc-box.yml")


def test_every_day_is_a_star(tmp_path: Path) -> None:
    nightly(tmp_path)
    text = (tmp_path / "box.yaml").read_text()
    every = nightly(tmp_path, text.replace(", days: [mon, tue, wed, thu, fri]", ""))
    assert install.cron_times(every) == "0 22 * * *"
    weekend = nightly(tmp_path, text.replace("mon, tue, wed, thu, fri", "sat, sun"))
    assert install.cron_times(weekend) == "0 22 * * 0,6"  # crontab(5): 0 is Sunday


@pytest.mark.parametrize("name", ["a b", "a\\b"])
def test_scrontab_refuses_a_log_that_its_options_cannot_name(tmp_path: Path, name: str) -> None:
    found = nightly(tmp_path, TEXT.format(campaign="c.yaml", results=f"'{tmp_path}/{name}'"))
    with pytest.raises(InputError, match=r"box.yaml:5: results: .*; allowed: a path without"):
        install.scrontab_block(found, RUN)


def test_only_its_own_lines_of_a_table_change() -> None:
    block = "# BEGIN nimc nightly a\nnew\n# END nimc nightly a\n"
    old = "# BEGIN nimc nightly a\nold\nolder\n# END nimc nightly a\n"
    other = "# BEGIN nimc nightly ab\nkeep\n# END nimc nightly ab\n"
    mine = "MAILTO=me\n5 4 * * * backup\n"
    assert install.merged_crontab("", block) == block
    assert install.merged_crontab(mine + old + other, block) == mine + block + other
    assert install.merged_crontab(mine + other, block) == mine + other + block
    assert install.merged_crontab(install.merged_crontab(mine + old, block), block) == mine + block
    odd = "# a form feed \x0c and \udce9, a byte of Latin-1\n"  # as install.table reads it
    assert install.merged_crontab(odd, block) == odd + block
    torn = "# BEGIN nimc nightly a\nold\n"  # somebody removed the end: nothing is lost
    assert install.merged_crontab(torn + mine, block) == torn + mine + block


def test_nightlies_of_one_name_in_two_folders_are_installed_beside_each_other(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    found = [nightly(tmp_path / name) for name in ("a", "b")]
    first, second = (install.cron_block(each, RUN) for each in found)
    assert install.merged_crontab(first, second) == first + second
    units = [set(install.systemd_units(each, RUN)) for each in found]
    assert not units[0] & units[1]


def test_systemd_lets_a_night_stop_its_campaign_and_starts_it(tmp_path: Path) -> None:
    service, timer = install.systemd_units(nightly(tmp_path), RUN).values()
    found = dict(line.split("=", 1) for line in service.splitlines() if "=" in line)
    assert int(found["TimeoutStopSec"]) > signature(session.stop).parameters["within_s"].default
    assert found["KillMode"] == "mixed"  # a campaign that ends by itself is a failed one
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 22:00:00\n" in timer


def test_units_are_written_and_the_timer_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def ask(command: list[str]) -> ProgramAnswer:
        asked.append(command)
        return ProgramAnswer("systemctl", 1 if command[-1] == "bad.timer" else 0, "", "no bus")

    monkeypatch.setattr(install, "ask", ask)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    texts = install.systemd_units(nightly(tmp_path), RUN)
    folder = tmp_path / "config/systemd/user"
    for _ in range(2):
        assert str(folder) in install.units(texts)
    assert {path.name: path.read_text() for path in folder.iterdir()} == texts
    timer = next(name for name in texts if name.endswith(".timer"))
    systemctl = ["systemctl", "--user"]
    assert asked[2:] == [[*systemctl, "daemon-reload"], [*systemctl, "enable", "--now", timer]]
    with pytest.raises(
        MachineError, match=r"enable --now bad.timer: exit status 1: no bus; the un"
    ):
        install.units({"bad.timer": ""})


def test_a_table_that_cannot_be_read_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def ask(command: list[str], **_: str) -> ProgramAnswer:
        asked.append(command)
        return ProgramAnswer("crontab", 1, "", "you are not allowed to use this program")

    monkeypatch.setattr(install, "ask", ask)
    with pytest.raises(MachineError, match="crontab: exit status 1: you are not allowed"):
        install.table("crontab", "x")
    assert asked == [["crontab", "-l"]]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze")
    program = tmp_path / "a $x 100%" / "nimc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = [str(program), "nightly", "run", "box"]
    texts = install.systemd_units(nightly(tmp_path), command)
    service, timer = texts
    assert (service.partition("-")[0], service.rpartition(".")[2]) == ("nimc", "service")
    assert timer == service.replace(".service", ".timer")
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in texts]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nimc-box" not in done.stderr
    spoilt = tmp_path / "nimc-bad.timer"
    spoilt.write_text(texts[timer].replace("22:00:00", "26:00:00"))
    bad = subprocess.run(["systemd-analyze", "verify", spoilt], capture_output=True, text=True)
    assert "nimc-bad" in bad.stderr  # it would have said so


@pytest.mark.parametrize("jacamar", [False, True])
def test_the_pipeline_plans_then_triggers_a_job_for_each_case(
    tmp_path: Path, jacamar: bool
) -> None:
    found = nightly(tmp_path, job="[--partition=cron, --nodes=1]", runner_tags="[box]")
    text = install.gitlab_parent(found, NIMC, "Europe/Berlin", jacamar=jacamar)
    assert (
        "0 22 * * 1,2,3,4,5 in the time zone Europe/Berlin\n" in text.splitlines(keepends=True)[0]
    )
    parent = yaml.safe_load(text)
    assert parent["stages"] == ["plan", "night"]
    made, trigger = parent["plan box"], parent["night box"]
    assert made["artifacts"]["paths"] == ["nimc-box.yml"]
    assert trigger["trigger"] == {
        "include": [{"artifact": "nimc-box.yml", "job": "plan box"}],
        "strategy": "depend",
    }
    night = yaml.safe_load(install.gitlab_child(found, NIMC, ["stream", "a@n=2"], jacamar=jacamar))
    assert list(night) == ["stages", "measure", "case stream", "case a@n=2"]
    for name, job in night.items():
        if name == "stages":
            continue
        assert job["stage"] in night["stages"]
        assert job["tags"] == ["box"]
        assert job["artifacts"]["when"] == "always"
        assert ("SITE_ID_TOKEN" in job.get("id_tokens", {})) == jacamar
        options = job["variables"].get("SCHEDULER_PARAMETERS")
        minutes = 435 if name == "measure" else 15
        assert options == (f"--time={minutes} --partition=cron --nodes=1" if jacamar else None)
    # A night that is slower exits with 1; the pipeline goes on to the job of the case.
    assert night["measure"]["allow_failure"] == {"exit_codes": [1]}
    for case in ("case stream", "case a@n=2"):
        assert night[case]["needs"] == [{"job": "measure", "artifacts": True}]
        assert night[case]["when"] == "always"
        assert night[case]["artifacts"]["reports"] == {"junit": "case.xml"}
