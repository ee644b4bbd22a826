"""`nimc init` as it is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nimc.base.errors import InputError, MachineError
from nimc.cli import hosts
from nimc.cluster.init.learn import ClusterFacts
from tests.nimc.cluster.made import found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("site", "configs"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(hosts, "ROOT", tmp_path)
    monkeypatch.setattr(hosts, "learn", lambda _wait_s, _tell: found())
    return tmp_path


def test_both_files_are_written_and_never_again(root: Path) -> None:
    done = CliRunner().invoke(hosts.init_command, ["box"])
    assert done.exit_code == 0, done.exception
    site = root / "site" / "box.yaml"
    text = site.read_text()
    assert (root / "configs" / "box.py").exists()
    assert "to fill in, if wanted: nic, node_mtti" in done.output
    again = CliRunner().invoke(hosts.init_command, ["box"])
    assert isinstance(again.exception, InputError)
    assert f"{site}: exists" in str(again.exception)
    assert site.read_text() == text


@pytest.mark.parametrize("planted", ["site/box.yaml", "configs/box.py"])
def test_a_planted_link_is_neither_followed_nor_replaced(root: Path, planted: str) -> None:
    (root / planted).symlink_to(root / "elsewhere")
    done = CliRunner().invoke(hosts.init_command, ["box"])
    assert isinstance(done.exception, InputError)
    assert [path.relative_to(root).as_posix() for path in root.glob("*/*")] == [planted]
    assert not (root / "elsewhere").exists()


def test_both_files_are_written_or_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*_: object) -> ClusterFacts:
        (root / "configs" / "box.py").write_text("another's\n")
        return found()

    monkeypatch.setattr(hosts, "learn", meanwhile)
    done = CliRunner().invoke(hosts.init_command, ["box"])
    assert isinstance(done.exception, MachineError)
    assert str(done.exception) == f"{root / 'configs' / 'box.py'}: File exists"
    assert [path.name for path in root.glob("*/*")] == ["box.py"]
    assert (root / "configs" / "box.py").read_text() == "another's\n"


@pytest.mark.parametrize("name", ["Box", "../x", "a-b", "9x", "", "a" * 41])
def test_a_name_must_be_one_of_a_module(root: Path, name: str) -> None:
    done = CliRunner().invoke(hosts.init_command, [name])
    assert isinstance(done.exception, InputError)
    assert not list(root.glob("*/*"))


def test_no_job_cannot_be_waited_for(root: Path) -> None:
    done = CliRunner().invoke(hosts.init_command, ["box", "--no-job", "--wait", "2h"])
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == "--wait: cannot be combined with --no-job; allowed: one of them"
    assert not list(root.glob("*/*"))


def test_without_slurm_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hosts, "ROOT", tmp_path)
    for folder in ("site", "configs"):
        (tmp_path / folder).mkdir()
    done = CliRunner().invoke(hosts.init_command, ["box", "--no-job"])
    assert isinstance(done.exception, MachineError)
    assert str(done.exception).startswith("scontrol --oneliner show partition: ")
    assert "\n" not in str(done.exception)
