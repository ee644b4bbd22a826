"""`nimc spack`, with a Spack that is a script of ten lines in the real one's place."""

from __future__ import annotations

import json
import multiprocessing
import os
import pwd
import re
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from analysis.errors import InputError, MachineError
from campaigns.commands.spack import command
from spack_envs.builder import pins, setup, tool
from spack_envs.builder.build import build, digest_of, placed
from spack_envs.builder.layout import layout

FAKE = """#!/bin/sh
# Notes each call; behaves as Spack does, as far as nimc asks.
here=$(cd "$(dirname "$0")/.." && pwd)
echo "$@" >> "$here/calls"
env | grep ^SPACK_ | sort > "$here/environment"
shift 2
case "$*" in
  --version) echo "1.1.0 (2e90720)" ;;
  *concretize*)
    [ ! -e "$here/broken" ] || { echo "==> Error: cannot be solved" >&2; exit 1; }
    echo '{"roots": [{"hash": "aaa", "spec": "stream"}]}' > "$2/spack.lock" ;;
  *install*)
    echo "==> Installing stream"
    log="$SPACK_USER_CONFIG_PATH/../logs/stream.log"
    timeout 5 sh -c "until grep -q Installing '$log'; do sleep 0.02; done" \\
      || { echo "==> Error: the log does not grow while Spack works" >&2; exit 1; } ;;
  *find*)
    printf 'aaa\\tstream\\t5.10\\t%s\\tstream@5.10+openmp\\n' "$here"
    printf 'bbb\\tgmake\\t4.4\\t/usr\\tgmake@4.4\\n' ;;
esac
"""


@pytest.fixture
def spack_root(tmp_path, monkeypatch):
    root = tmp_path / "spack"
    (tmp_path / "repo.yaml").write_text("repo: {}\n")
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "spack").write_text(FAKE)
    (root / "bin" / "spack").chmod(0o755)
    monkeypatch.setenv("SPACK_ROOT", str(root))
    return root


@pytest.fixture
def ready(spack_root, tmp_path):
    place = layout("here", tmp_path / "state")
    settings = setup.setup(place, tmp_path, None, None, print)
    (spack_root / "calls").unlink()
    return place, settings


def calls(root):
    path = root / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_setup_takes_the_spack_at_hand_and_isolates_it(spack_root, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACK_ENV", "/of/the/user")
    monkeypatch.setenv("SPACK_DISABLE_LOCAL_CONFIG", "1")
    place = layout("here", tmp_path / "state")
    settings = setup.setup(place, tmp_path, None, f"file://{tmp_path}", print)
    assert (settings.spack, settings.version, settings.pinned) == (str(spack_root), "1.1.0", True)
    seen = dict(line.split("=", 1) for line in (spack_root / "environment").read_text().split())
    assert seen.keys() == {
        "SPACK_PYTHON",
        "SPACK_USER_CONFIG_PATH",
        "SPACK_SYSTEM_CONFIG_PATH",
        "SPACK_USER_CACHE_PATH",
    }
    inside = [path for name, path in seen.items() if name != "SPACK_PYTHON"]
    assert all(path.startswith(str(place.root)) for path in inside)
    config = yaml.safe_load((place.config / "config.yaml").read_text())["config"]
    assert config["install_tree"]["root"] == str(place.store)
    assert config["locks"] is True
    # Packages from a build cache can only be moved to a path that is no longer.
    assert config["install_tree"]["padded_length"] >= 128
    bootstrap = yaml.safe_load((place.config / "bootstrap.yaml").read_text())
    assert bootstrap["bootstrap"]["enable"] is False
    # Recipes that Spack chose by itself would be cloned, whatever the network.
    repos = yaml.safe_load((place.config / "repos.yaml").read_text())
    assert repos["repos"] == {"builtin": str(tmp_path)}
    mirrors = yaml.safe_load((place.config / "mirrors.yaml").read_text())
    assert mirrors["mirrors"]["nimc"]["url"] == f"file://{tmp_path}"


def test_a_search_that_was_cut_off_is_made_again(spack_root, tmp_path):
    place = layout("here", tmp_path / "state")
    place.config.mkdir(parents=True)
    (place.config / "packages.yaml").write_text("packages: {}\n")
    setup.setup(place, tmp_path, None, None, print)
    setup.setup(place, tmp_path, None, None, print)
    finds = [call for call in calls(spack_root) if "external find" in call]
    assert len(finds) == 2  # what is never built, and what may be: once each


def test_other_recipes_make_setup_search_again(spack_root, tmp_path):
    place, other = layout("here", tmp_path / "state"), tmp_path / "other"
    other.mkdir()
    (other / "repo.yaml").touch()
    place.config.mkdir(parents=True)
    (place.config / "packages.yaml").write_text("packages: {}\n")
    for packages in (tmp_path, tmp_path, other):
        setup.setup(place, packages, None, None, print)
    finds = [call for call in calls(spack_root) if "compiler find" in call]
    assert len(finds) == 2


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("packages", None, r"--packages: .*/empty has no repo\.yaml; allowed: the folder repos/"),
        ("machine", "", r"--machine-file: .*/m\.yaml has no section 'packages'; allowed"),
        ("machine", "packages: [openmpi]", r"--machine-file: .*/m\.yaml has no section 'packages'"),
        ("machine", "packages: {openmpi: 4}", r"a mapping for each package"),
        ("machine", "packages: {", r"--machine-file: .*/m\.yaml: while parsing a flow node"),
        ("mirror", "/srv/mirror", r"--mirror: '/srv/mirror' is no URL; allowed: file:///FOLDER"),
        ("mirror", "file:///not/there", r"--mirror: /not/there is not a folder"),
    ],
)
def test_setup_refuses_what_a_build_could_not_use(spack_root, tmp_path, name, text, words):
    given = {"packages": tmp_path, "machine": None, "mirror": None}
    if name == "machine":
        (tmp_path / "m.yaml").write_text(text)
        text = tmp_path / "m.yaml"
    given[name] = text or tmp_path / "empty"
    place = layout("here", tmp_path / "state")
    with pytest.raises(InputError, match=words):
        setup.setup(place, given["packages"], given["machine"], given["mirror"], print)
    assert not place.settings.exists()
    assert calls(spack_root) == []


def test_builds_do_not_see_the_wheels_of_this_python(tmp_path):
    own = f"{sys.prefix}/bin:{tmp_path}/linked/bin"
    (tmp_path / "linked").symlink_to(sys.prefix)
    seen = tool.isolated(
        layout("here", tmp_path),
        {"PATH": f"/usr/bin:{own}:/bin", "VIRTUAL_ENV": sys.prefix, "HOME": "/root"},
    )
    in_venv = sys.prefix != sys.base_prefix
    assert seen["PATH"] == ("/usr/bin:/bin" if in_venv else f"/usr/bin:{own}:/bin")
    assert "VIRTUAL_ENV" not in seen
    assert seen["HOME"] == "/root"


def test_builds_have_a_users_name_where_a_job_has_none(tmp_path, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    place, me = layout("here", tmp_path), pwd.getpwuid(os.getuid()).pw_name
    assert tool.isolated(place, {"PATH": "/bin"})["LOGNAME"] == me
    assert tool.isolated(place, {"PATH": "/bin", "LOGNAME": "other"})["LOGNAME"] == "other"


def test_setup_refuses_an_old_spack_and_an_empty_root(spack_root, tmp_path, monkeypatch):
    text = FAKE.replace("1.1.0", "0.23.1")
    (spack_root / "bin" / "spack").write_text(text)
    with pytest.raises(MachineError, match=r"0\.23\.1 is too old"):
        setup.setup(layout("here", tmp_path / "state"), tmp_path, None, None, print)
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="SPACK_ROOT"):
        setup.find_spack()


def test_build_keeps_roots_only_and_is_a_no_op_the_second_time(spack_root, ready):
    place, settings = ready
    said = []
    built = build(place, settings, "stream", 3, said.append)
    assert [spec["name"] for spec in built.specs] == ["stream"]
    assert built.specs[0]["prefix"] == str(spack_root)
    steps = [call.split()[4] for call in calls(spack_root)]
    assert steps == ["concretize", "install", "find"]
    (spack_root / "calls").unlink()
    again = build(place, settings, "stream", 3, said.append)
    assert again == built
    assert calls(spack_root) == []
    assert said[-1] == "stream: up to date"


def test_build_starts_again_where_inputs_or_prefixes_changed(spack_root, ready, tmp_path):
    place, settings = ready
    build(place, settings, "stream", 1, print)
    first = len(calls(spack_root))
    (place.config / "packages.yaml").write_text("packages: {}\n")
    build(place, settings, "stream", 1, print)
    assert len(calls(spack_root)) == 2 * first
    stamp = json.loads(place.stamp("stream").read_text())
    stamp["specs"][0]["prefix"] = str(tmp_path / "removed")
    place.stamp("stream").write_text(json.dumps(stamp))
    build(place, settings, "stream", 1, print)
    assert len(calls(spack_root)) == 3 * first - 1  # the versions were chosen already


def chosen(root, *specs):
    """Spack's choice from now on, as in a lock."""
    lock = {"roots": [{"hash": "aaa", "spec": "stream"}], "concrete_specs": dict(enumerate(specs))}
    (root / "lock").write_text(json.dumps(lock))
    script = (root / "bin" / "spack").read_text()
    old = """echo '{"roots": [{"hash": "aaa", "spec": "stream"}]}'"""
    (root / "bin" / "spack").write_text(script.replace(old, 'cat "$here/lock"'))


def test_an_mpi_without_the_fast_network_is_not_built(spack_root, ready):
    place, settings = ready
    plain = {"name": "openmpi", "version": "4.1.8", "parameters": {"fabrics": "none"}}
    chosen(spack_root, plain)
    with pytest.raises(MachineError, match=r"openmpi@4\.1\.8 without a fast network") as error:
        build(place, settings, "stream", 1, print)
    assert str(pins.ENVIRONMENTS / "machines" / "here.yaml") in str(error.value)
    assert not [call for call in calls(spack_root) if " install " in call]
    chosen(spack_root, {**plain, "external": {"path": "/usr"}})
    (place.environment("stream") / "chosen").unlink()
    assert build(place, settings, "stream", 1, print).specs


def test_a_build_says_which_package_it_is_at(spack_root, ready):
    place, settings = ready
    script = (spack_root / "bin" / "spack").read_text()
    line = f"==> Installing umt-5.3.0-{'a' * 32} [2/7]"
    (spack_root / "bin" / "spack").write_text(script.replace("==> Installing stream", line))
    said = []
    build(place, settings, "stream", 1, said.append)
    assert said[1:3] == ["stream: building", "stream: umt-5.3.0 [2/7]"]


@pytest.mark.parametrize("cut", ['{"roots": [{"ha', "[]"])
def test_a_lock_that_was_cut_off_is_made_again(ready, cut):
    place, settings = ready
    build(place, settings, "stream", 1, print)
    lock, said = place.environment("stream") / "spack.lock", []
    lock.write_text(cut)
    place.stamp("stream").unlink()
    build(place, settings, "stream", 1, said.append)
    assert [line for line in said if str(lock) in line and line.endswith("removed")]
    assert json.loads(lock.read_text())["roots"]


@pytest.mark.parametrize("text", ["", '{"specs": [1]}'])
def test_a_record_that_cannot_be_read_is_named_and_made_again(ready, monkeypatch, tmp_path, text):
    place, settings = ready
    built, said = build(place, settings, "stream", 1, print), []
    place.stamp("stream").write_text(text)
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    shown = CliRunner().invoke(command, ["info", "--machine", "here"])
    assert str(shown.exception).startswith(f"{place.stamp('stream')}: not what nimc spack build")
    again = build(place, settings, "stream", 1, said.append)
    assert again.specs == built.specs
    assert str(place.stamp("stream")) in said[0]


def test_a_failure_is_one_line_with_the_log(spack_root, ready):
    place, settings = ready
    (spack_root / "broken").touch()
    with pytest.raises(MachineError, match=r"at stream: cannot be solved \(log: .*stream\.log\)"):
        build(place, settings, "stream", 1, print)
    assert not place.stamp("stream").exists()
    assert "cannot be solved" in place.log("stream").read_text()


def test_a_failed_build_names_its_package(spack_root, ready):
    place, settings = ready
    script = (spack_root / "bin" / "spack").read_text()
    (spack_root / "bin" / "spack").write_text(
        script.replace(
            'echo "==> Installing stream"',
            """printf '==> Installing gmake-4.3-%s [1/2]\\n' s24lewxrja7bzjdtzh4drt5rfcqdjamr
    printf '==> Installing umt-5.3.0-%s [2/2]\\n' dji66aaankufp35p3uku3xwvaczrsnpq
    sleep 0.2
    printf "==> Error: ProcessError: Command exited with status 2:\\n    'make' '-j2'\\n" >&2
    printf '==> Error: Terminating after first install failure\\n' >&2
    exit 1""",
        )
    )
    said = "at stream: umt-5.3.0: ProcessError: Command exited with status 2: 'make' '-j2' (log: "
    with pytest.raises(MachineError, match=re.escape(said)):
        build(place, settings, "stream", 1, print)


def test_placed_environment_stands_anywhere(ready, tmp_path):
    place, settings = ready
    content = yaml.safe_load(placed(place, settings, "proxyapps"))["spack"]
    assert content["repos"]["builtin"] == str(tmp_path)
    assert list(content["repos"]) == ["nimc", "builtin"]  # the first has precedence
    assert content["repos"]["nimc"] == str(pins.ENVIRONMENTS / "repo/spack_repo/nimc")
    assert content["include"][0]["path"] == str(pins.ENVIRONMENTS / "machines/here.yaml")
    assert "$" not in json.dumps(content)


@pytest.mark.parametrize("named", [[], ["openmpi"], ["openmpi", "ucx"], ["mpi"]])
def test_the_network_is_required_of_what_the_machine_does_not_name(ready, tmp_path, named):
    place, settings = ready
    file = tmp_path / "m.yaml"
    file.write_text(yaml.safe_dump({"packages": {name: {"buildable": False} for name in named}}))
    settings = replace(settings, machine_file=str(file))
    packages = yaml.safe_load(placed(place, settings, "tools"))["spack"]["packages"]
    assert packages.keys() == {"openmpi", "ucx"} - set(named)
    assert all("require" in rule for rule in packages.values())
    # What an environment says of its packages stays.
    kept = yaml.safe_load(placed(place, settings, "openspeedshop"))["spack"]["packages"]
    assert kept["flex"] == {"buildable": True}


def test_digest_follows_every_input(ready):
    place, settings = ready
    text = placed(place, settings, "stream")
    first = digest_of(place, settings, "stream", text)
    assert digest_of(place, settings, "stream", text) == first
    assert digest_of(place, settings, "stream", text + " ") != first
    (place.config / "packages.yaml").write_text("packages: {gcc: {}}\n")
    assert digest_of(place, settings, "stream", text) != first


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """A lock that the site committed for the machine `here`; the environments are a copy."""
    copy = tmp_path / "spack_envs"
    shutil.copytree(pins.ENVIRONMENTS, copy)
    monkeypatch.setattr(pins, "ENVIRONMENTS", copy)
    path = copy / "locks" / "here" / "stream.lock"
    path.parent.mkdir(parents=True)
    path.write_text('{"roots": [{"hash": "aaa", "spec": "stream"}], "note": "committed"}')
    return path


def test_a_committed_lock_is_taken_and_decides_what_is_built(spack_root, ready, locked):
    place, settings = ready
    script = (spack_root / "bin" / "spack").read_text()
    # Spack leaves a lock alone that has all that the environment asks for.
    (spack_root / "bin" / "spack").write_text(script.replace("*concretize*)", "*--force*)"))
    built = build(place, settings, "stream", 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "committed"
    assert [call for call in calls(spack_root) if "--force" in call] == []
    locked.write_text(locked.read_text().replace("committed", "moved on"))
    build(place, settings, "stream", 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "moved on"


def test_a_committed_lock_that_cannot_be_read_is_named(ready, locked):
    locked.write_text('{"roots": [')
    with pytest.raises(MachineError, match=r"here/stream\.lock: not a lock of Spack's"):
        build(*ready, "stream", 1, print)


def test_a_committed_lock_of_another_choice_is_refused(ready, locked):
    locked.write_text('{"roots": [{"hash": "zzz", "spec": "stream@4"}]}')
    with pytest.raises(
        MachineError, match=r"here/stream\.lock: does not match the stream environment"
    ):
        build(*ready, "stream", 1, print)


def _hold(path, seconds, order):
    with tool.locked(path):
        order.append(time.monotonic())
        time.sleep(seconds)
        order.append(time.monotonic())


def test_two_holders_never_overlap(tmp_path):
    with multiprocessing.Manager() as manager:
        order = manager.list()
        both = [
            multiprocessing.Process(target=_hold, args=(tmp_path / "x.lock", 0.2, order))
            for _ in range(2)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join()
        times = list(order)
    assert len(times) == 4
    assert times == sorted(times)
    assert times[2] >= times[1]


def test_clone_refuses_a_moved_tag(tmp_path):
    source = tmp_path / "source"
    for words in (
        ["init", "-q", "-b", "main", str(source)],
        ["-C", str(source), *("-c", "user.name=a", "-c", "user.email=a@b")]
        + ["commit", "-q", "--allow-empty", "-m", "one"],
        ["-C", str(source), "tag", "v1"],
    ):
        tool._git(*words)
    commit = tool._git("-C", str(source), "rev-parse", "HEAD").strip()
    tool.clone(f"file://{source}", "v1", commit, tmp_path / "good")
    assert (tmp_path / "good" / ".git").is_dir()
    with pytest.raises(MachineError, match="not the pinned"):
        tool.clone(f"file://{source}", "v1", "0" * 40, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


@pytest.mark.usefixtures("ready")
def test_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    run = CliRunner().invoke
    built = run(command, ["build", "stream", "--machine", "here", "--json"])
    assert json.loads(built.stdout)["environments"][0]["environment"] == "stream"
    shown = run(command, ["info", "--machine", "here"])
    assert shown.stdout.splitlines()[1].split()[:3] == ["stream", "stream", "5.10"]
    wrong = run(command, ["build", "strem", "--machine", "here"])
    assert isinstance(wrong.exception, InputError)
    assert "allowed are coral, lammps" in str(wrong.exception)
    nowhere = run(command, ["build", "stream", "--machine", "elsewhere"])
    assert "nimc spack setup --machine elsewhere" in str(nowhere.exception)
    early = run(command, ["mirror", str(tmp_path / "m"), "lammps", "--machine", "here"])
    assert "not built" in str(early.exception)


def test_pins_file_with_a_mistake(tmp_path):
    text = (pins.ENVIRONMENTS / "pins.yaml").read_text()
    (tmp_path / "pins.yaml").write_text(text.replace("v1.1.0", "[1]"))
    with pytest.raises(InputError, match=r"pins\.yaml: pins\.default\.spack\.tag"):
        pins.load(tmp_path)
    (tmp_path / "pins.yaml").write_text(text.replace("openspeedshop: openspeedshop", "stream: old"))
    with pytest.raises(InputError, match="unknown pin 'old'; allowed: default"):
        pins.load(tmp_path)


def test_digest_follows_patches_of_recipes(ready, tmp_path, monkeypatch):
    place, settings = ready
    copy = shutil.copytree(pins.ENVIRONMENTS, tmp_path / "spack_envs")
    monkeypatch.setattr(pins, "ENVIRONMENTS", copy)
    first = digest_of(place, settings, "stream", "")
    (copy / "repo" / "spack_repo" / "nimc" / "packages" / "stream" / "new.patch").write_text(
        "--- a"
    )
    assert digest_of(place, settings, "stream", "") != first
