"""Tests of `nimc spack build` with a short script that stands in for Spack."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from records.errors import InputError, MachineError
from records.files import private_lock
from reframe_tests.spack import externals, folders
from reframe_tests.spack.build import build, relocated_environment, why_no_network
from reframe_tests.spack.settings import ENVIRONMENTS_FOLDER
from tests.reframe_tests.spack.fake import calls, install

#: The environment that builds STREAM with arrays of a thousand elements.
STREAM = "stream@1000"


def test_an_environment_is_built_again_only_if_its_inputs_or_prefixes_have_changed(
    spack_root, ready, tmp_path
):
    layout, settings = ready
    lines = []
    built = build(layout, settings, STREAM, 3, lines.append)
    assert [spec["name"] for spec in built.specs] == ["stream"]  # the record has roots only
    assert built.specs[0]["prefix"] == str(spack_root)
    steps = [call.split()[4] for call in calls(spack_root)]
    assert steps == ["concretize", "install", "find"]
    assert " install -j 3 --fail-fast" in calls(spack_root)[1]
    assert re.fullmatch(r"stream@1000: built in \d+ s", lines[-1])
    assert built.mpi is None
    assert 0 <= built.concretize_s < 60
    assert 0 <= built.install_s < 60
    assert build(layout, settings, STREAM, 3, lines.append) == built
    assert len(calls(spack_root)) == 3
    assert lines[-1] == "stream@1000: up to date"
    layout.host_packages_file.write_text(f"{layout.host_packages_file.read_text()}# changed\n")
    build(layout, settings, STREAM, 1, print)
    assert len(calls(spack_root)) == 6
    stamp = json.loads(layout.built_file(STREAM).read_text())
    stamp["specs"][0]["prefix"] = str(tmp_path / "removed")
    layout.built_file(STREAM).write_text(json.dumps(stamp))
    build(layout, settings, STREAM, 1, print)
    assert len(calls(spack_root)) == 9
    (tmp_path / "m.yaml").write_text("packages: {}\n")
    build(layout, replace(settings, machine_file=str(tmp_path / "m.yaml")), STREAM, 1, print)
    assert len(calls(spack_root)) == 12


def test_a_build_finds_a_compiler_that_was_installed_after_the_setup(spack_root, ready):
    layout, settings = ready
    packages = layout.host_packages_file.read_text()
    (spack_root / "found").write_text(packages)
    layout.host_packages_file.write_text("packages: {}\n")
    again = f'compiler*) cp "$here/found" {layout.host_packages_file} ;;\n  *concretize*)'
    change_spack(spack_root, "*concretize*)", again)
    lines = []
    built = build(layout, settings, STREAM, 1, lines.append)
    assert calls(spack_root)[0].endswith(" compiler find --scope user")
    assert layout.host_packages_file.read_text() == packages
    assert not [line for line in lines if "Spack has no" in line]
    assert build(layout, settings, STREAM, 1, lines.append) == built
    assert lines[-1] == "stream@1000: up to date"


def change_spack(root, old, new):
    """Replace a text in the script that stands in for Spack."""
    install(root, (root / "bin" / "spack").read_text().replace(old, new))


def choose(root, *specs):
    """Let the script that stands in for Spack choose these concrete specs from now on."""
    lock = {"roots": [{"hash": "aaa", "spec": "stream"}], "concrete_specs": dict(enumerate(specs))}
    (root / "lock").write_text(json.dumps(lock))
    roots = """echo '{"roots": [{"hash": "aaa", "spec": "stream"}]}'"""
    change_spack(root, roots, 'cat "$here/lock"')


def test_an_mpi_without_the_fast_network_is_not_built(spack_root, ready):
    layout, settings = ready
    plain = {"name": "openmpi", "version": "4.1.8", "parameters": {"fabrics": "none"}}
    choose(spack_root, plain)
    with pytest.raises(MachineError, match=r"openmpi@4\.1\.8 without a fast network") as error:
        build(layout, settings, STREAM, 1, print)
    assert str(ENVIRONMENTS_FOLDER / "machines" / "here.yaml") in str(error.value)
    assert not [call for call in calls(spack_root) if " install " in call]
    choose(spack_root, {**plain, "external": {"path": "/usr"}})
    change_spack(spack_root, "'bbb\\tgmake", "'ccc\\tmpich\\t4.3\\t/mpi\\tmpich@4.3\\nbbb\\tgmake")
    built = build(layout, settings, STREAM, 1, print)
    assert (built.mpi, built.specs[0]["mpi"]) == ("/mpi", "mpich@4.3/ccc")
    assert calls(spack_root)[-1].endswith("{ arch=architecture}{compilers}")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([f"==> Installing umt-5.3.0-{'a' * 32} [2/7]"], ["umt-5.3.0 [2/7]"]),
        # Since version 1.2, Spack prints one line for each step of a package.
        (
            ["[ ] 4agc6df gettext@1.0 starting", "[ ] 4agc6df gettext@1.0 build (2s)"]
            + ["[+] 4agc6df gettext@1.0 /opt (9s)", "[ ] 5bhd7eg umt@5.3.0 (0s)"],
            ["gettext@1.0", "umt@5.3.0"],
        ),
    ],
)
def test_a_build_prints_the_package_that_spack_installs(spack_root, ready, lines, words):
    shown = "\n".join([*lines, "==> Installing stream"])
    change_spack(spack_root, "==> Installing stream", shown)
    printed = []
    build(*ready, STREAM, 1, printed.append)
    packages = [f"stream@1000: {word}" for word in words]
    assert printed[1 : 2 + len(words)] == ["stream@1000: building", *packages]


@pytest.mark.parametrize("text", ["", '{"specs": [1]}'])
def test_an_unreadable_record_of_a_build_is_named_and_the_build_is_repeated(
    ready, monkeypatch, tmp_path, text, command
):
    layout, settings = ready
    built, lines = build(layout, settings, STREAM, 1, print), []
    layout.built_file(STREAM).write_text(text)
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    command("spack", "info", "--machine", "here", code=2)
    assert command.err.startswith(f"nimc: {layout.built_file(STREAM)}: not what a build writes")
    again = build(layout, settings, STREAM, 1, lines.append)
    assert again.specs == built.specs
    assert str(layout.built_file(STREAM)) in lines[0]


def test_the_message_of_a_failure_names_the_log(spack_root, ready):
    layout, settings = ready
    (spack_root / "broken").touch()
    with pytest.raises(
        MachineError,
        match=r"stream@1000: Spack failed: cannot be solved \(log: .*stream@1000\.log\)",
    ):
        build(layout, settings, STREAM, 1, print)
    assert not layout.built_file(STREAM).exists()
    assert "cannot be solved" in layout.log(STREAM).read_text()


def test_the_message_of_a_failed_build_names_the_package(spack_root, ready):
    change_spack(
        spack_root,
        'echo "==> Installing stream"',
        """printf '==> Installing gmake-4.3-%s [1/2]\\n' s24lewxrja7bzjdtzh4drt5rfcqdjamr
    printf '==> Installing umt-5.3.0-%s [2/2]\\n' dji66aaankufp35p3uku3xwvaczrsnpq
    sleep 0.2
    printf "==> Error: ProcessError: Command exited with status 2:\\n    'make' '-j2'\\n" >&2
    printf '==> Error: Terminating after first install failure\\n' >&2
    exit 1""",
    )
    fault = (
        "stream@1000: Spack failed: umt-5.3.0: ProcessError: Command exited with status 2:"
        " 'make' '-j2' (log: "
    )
    with pytest.raises(MachineError, match=re.escape(fault)):
        build(*ready, STREAM, 1, print)


def test_a_relocated_environment_names_its_files_by_absolute_paths(ready, tmp_path):
    content = yaml.safe_load(relocated_environment(*ready, "proxyapps"))["spack"]
    assert content["repos"] == {"builtin": str(tmp_path)}
    assert content["include"][0]["path"] == str(ENVIRONMENTS_FOLDER / "machines/here.yaml")
    assert "$" not in json.dumps(content)


def test_stream_is_built_for_the_size_in_its_name_and_its_spec_names_no_folder(ready):
    content = yaml.safe_load(relocated_environment(*ready, "stream@250000000"))["spack"]
    (spec,) = content["specs"]
    assert " stream_array_size=250000000 " in spec
    (header,) = re.findall(r' -include ([^ "]+)', spec)
    assert "/" not in spec  # the hash of the spec does not depend on the checkout's folder
    ((assignment),) = content["packages"]["stream"]["package_attributes"]["build_targets"]
    assert "#define NTIMES" in Path(assignment.removeprefix("CPATH="), header).read_text()


@pytest.mark.parametrize("name", ["stream", "stream@", "stream@0", "stream@1e9", "lammps@1000"])
def test_an_environment_with_a_wrong_or_missing_size_is_refused(ready, name):
    with pytest.raises(InputError, match=f"environment '{name}': "):
        build(*ready, name, 1, print)


@pytest.mark.parametrize("named", [[], ["openmpi"], ["openmpi", "ucx"], ["mpi"]])
def test_packages_that_the_machine_file_does_not_name_must_have_the_network(ready, tmp_path, named):
    layout, settings = ready
    file = tmp_path / "m.yaml"
    file.write_text(yaml.safe_dump({"packages": {name: {"buildable": False} for name in named}}))
    settings = replace(settings, machine_file=str(file))
    packages = yaml.safe_load(relocated_environment(layout, settings, "tools"))["spack"]["packages"]
    assert packages.keys() == {"mpi", "openmpi", "ucx"} - set(named)
    assert all("require" in rule for rule in packages.values())
    # The environment's own rules for its packages remain.
    kept = yaml.safe_load(relocated_environment(layout, settings, "proxyapps"))["spack"]["packages"]
    assert kept["snap"] == {"package_attributes": {"parallel": False}}


@pytest.mark.parametrize(
    ("externals", "mpi"),
    [
        ([], "openmpi"),
        (["openmpi"], "openmpi"),
        (["cray-mpich", "libfabric"], "cray-mpich"),
        # With several of them, the file must say which, in its own rule `mpi`.
        (["mpich", "cray-mpich"], "openmpi"),
    ],
)
def test_the_mpi_of_the_machine_is_required(ready, tmp_path, externals, mpi):
    layout, settings = ready
    file = tmp_path / "m.yaml"
    rules = {name: {"externals": [{"spec": f"{name}@9", "prefix": "/opt"}]} for name in externals}
    file.write_text(yaml.safe_dump({"packages": rules}))
    settings = replace(settings, machine_file=str(file))
    packages = yaml.safe_load(relocated_environment(layout, settings, "tools"))["spack"]["packages"]
    assert packages["mpi"] == {"require": [mpi]}
    common = yaml.safe_load((ENVIRONMENTS_FOLDER / "common.yaml").read_text())["packages"]
    assert "mpi" not in common  # Spack would join both rules, which nothing satisfies


def test_a_machine_file_that_is_gone_ends_the_build(ready, tmp_path):
    layout, settings = ready
    gone = str(tmp_path / "m.yaml")
    with pytest.raises(InputError, match=re.escape(f"{gone}: the machine's file of packages is")):
        build(layout, replace(settings, machine_file=gone), STREAM, 1, print)


def test_externals_of_a_sites_spack_are_known(ready, spack_root):
    """Spack finds no package of the host that a site's administrator has written there."""
    layout, settings = ready
    packages = yaml.safe_load(layout.host_packages_file.read_text())["packages"]
    layout.host_packages_file.write_text("packages: {}\n")
    slurm = {"externals": [{"spec": "slurm@23.02", "prefix": "/usr"}]}
    file = spack_root / "etc" / "spack" / "packages.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump({"packages": {**packages, "slurm": slurm}}))
    assert externals.compilers(layout, settings).keys() == {"gcc@14.2.0"}
    assert externals.has_host_slurm(layout, settings)


@pytest.mark.parametrize("source", ["host", "machine's file"])
def test_mpi_is_built_with_slurm_only_if_the_host_has_slurm(ready, tmp_path, source):
    layout, settings = ready

    def schedulers():
        content = yaml.safe_load(relocated_environment(layout, settings, "proxyapps"))["spack"]
        return content["packages"]["openmpi"]["require"]

    assert schedulers() == ["fabrics=ucx schedulers=none"]
    slurm = {"externals": [{"spec": "slurm@22.05.8", "prefix": "/usr"}]}
    packages = yaml.safe_load(layout.host_packages_file.read_text())["packages"]
    file = layout.host_packages_file
    if source != "host":
        file, packages = tmp_path / "m.yaml", {}
        settings = replace(settings, machine_file=str(file))
    file.write_text(yaml.safe_dump({"packages": {**packages, "slurm": slurm}}))
    assert schedulers() == ["fabrics=ucx schedulers=slurm"]
    # Spack never builds Slurm itself.
    common = yaml.safe_load((ENVIRONMENTS_FOLDER / "common.yaml").read_text())["packages"]
    assert common["slurm"] == {"buildable": False}


@pytest.mark.usefixtures("ready")
def test_the_commands_build_and_info_print_the_environment(tmp_path, monkeypatch, command):
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    here = ("--machine", "here")
    built = command.json("spack", "build", STREAM, *here)
    assert built["environments"][0]["environment"] == STREAM
    shown = command("spack", "info", *here)
    assert shown.splitlines()[1].split()[:3] == [STREAM, "stream", "5.10"]
    command("spack", "build", "strem", *here, code=2)
    assert (
        "allowed are hpccg, lammps, openspeedshop, profiling, proxyapps, stream@SIZE, tools"
        in command.err
    )
    command("spack", "build", STREAM, "--machine", "elsewhere", code=2)
    assert "nimc spack setup --machine elsewhere" in command.err


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """The path of a lock that the site has committed for the machine `here`.

    The lock is in a copy of the folder of environments.
    """
    copy = tmp_path / "spack_envs"
    shutil.copytree(ENVIRONMENTS_FOLDER, copy)
    monkeypatch.setattr("reframe_tests.spack.build.ENVIRONMENTS_FOLDER", copy)
    path = copy / "locks" / "here" / "stream@1000.lock"
    path.parent.mkdir(parents=True)
    path.write_text('{"roots": [{"hash": "aaa", "spec": "stream"}], "note": "committed"}')
    return path


def test_a_build_follows_a_committed_lock(spack_root, ready, locked):
    # Spack does not change a lock that has all specs of the environment.
    change_spack(spack_root, "*concretize*)", "*--force*)")
    built = build(*ready, STREAM, 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "committed"
    assert [call for call in calls(spack_root) if "--force" in call] == []
    locked.write_text(locked.read_text().replace("committed", "moved on"))
    build(*ready, STREAM, 1, print)
    assert json.loads(Path(built.lock).read_text())["note"] == "moved on"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"roots": [', "not a lock of Spack's"),
        ('{"roots": [{"hash": "zzz"}]}', "does not match the stream@1000 environment"),
    ],
)
def test_a_committed_lock_that_does_not_fit_is_refused(ready, locked, text, fault):
    locked.write_text(text)
    with pytest.raises(MachineError, match=rf"here/stream@1000\.lock: {fault}"):
        build(*ready, STREAM, 1, print)


def test_only_one_process_can_hold_the_lock_of_a_build(tmp_path):
    path = tmp_path / "locks" / "x.lock"
    with folders.locked(path), private_lock(path) as other:
        assert not other.acquire()
    with private_lock(path) as other:
        assert other.acquire()


def openmpi(fabrics, **more):
    return {"name": "openmpi", "version": "5.0.8", "parameters": {"fabrics": fabrics}, **more}


def mpich(netmod):
    return {"name": "mpich", "version": "4.3", "parameters": {"netmod": netmod}}


def ucx(verbs, rc):
    return {"name": "ucx", "version": "1.19.0", "parameters": {"verbs": verbs, "rc": rc}}


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([], None),
        ([openmpi(["ucx"]), ucx(True, True)], None),
        ([openmpi(["cma", "ofi"])], None),
        ([openmpi(["none"], external={"path": "/usr"})], None),
        # This environment has no MPI that uses UCX.
        ([ucx(False, False)], None),
        ([mpich("ofi")], None),
        ([openmpi(["none"])], "openmpi@5.0.8 without a fast network (fabrics=none)"),
        ([openmpi("none")], "(fabrics=none)"),
        ([openmpi(["cma", "knem"])], "(fabrics=cma,knem)"),
        ([mpich("tcp")], "mpich@4.3 without a fast network (netmod=tcp)"),
        ([openmpi(["ucx"]), ucx(False, False)], "ucx@1.19.0 without verbs and rc"),
        ([openmpi(["ucx"]), ucx(True, False)], "without rc,"),
    ],
)
def test_the_reason_names_what_an_mpi_lacks_and_the_file_to_change(specs, words):
    fault = why_no_network(specs, Path("machines/m.yaml"))
    assert fault is None if words is None else words in fault and "machines/m.yaml" in fault
