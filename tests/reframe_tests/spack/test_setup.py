"""Tests of `nimc spack setup` with a script that stands in for Spack.

Further tests read the files of all environments. The tests in `test_spack_real.py` need a real
Spack.
"""

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from records.errors import InputError, MachineError
from reframe_tests.spack import externals, isolation, setup
from reframe_tests.spack.folders import layout
from reframe_tests.spack.settings import (
    ENVIRONMENTS_FOLDER,
    known_environments,
    load_pins,
    load_settings,
)
from tests.nimc.checkouts import program
from tests.reframe_tests.spack.fake import SPACK_STAND_IN, calls, install


def test_setup_isolates_the_spack_of_the_host(spack_root, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACK_ENV", "/of/the/user")
    monkeypatch.setenv("SPACK_DISABLE_LOCAL_CONFIG", "1")
    tree = layout("here", tmp_path / "state")
    settings = setup.setup(tree, tmp_path, None, f"file://{tmp_path}", print)
    assert (settings.spack, settings.version, settings.pinned) == (str(spack_root), "1.1.0", True)
    seen = dict(line.split("=", 1) for line in (spack_root / "environment").read_text().split())
    assert seen.keys() == {
        "SPACK_PYTHON",
        "SPACK_USER_CONFIG_PATH",
        "SPACK_SYSTEM_CONFIG_PATH",
        "SPACK_USER_CACHE_PATH",
    }
    inside = [path for name, path in seen.items() if name != "SPACK_PYTHON"]
    assert all(path.startswith(str(tree.root)) for path in inside)
    # srun does not print its version without a configuration file, and a host may have such a file
    # in jobs only.
    conf = isolation.isolated_environment(tree, {"SLURM_CONF": "/of/the/site"})["SLURM_CONF"]
    assert "ClusterName=" in Path(conf).read_text()
    config = yaml.safe_load((tree.config / "config.yaml").read_text())["config"]
    assert config["install_tree"]["root"] == str(tree.store)
    assert config["locks"] is True
    # Spack can move a package from a build cache only to a path that is not longer.
    assert config["install_tree"]["padded_length"] >= 128
    bootstrap = yaml.safe_load((tree.config / "bootstrap.yaml").read_text())
    assert bootstrap["bootstrap"]["enable"] is False
    # Without this file, Spack would clone recipes of its own choice, even without a network.
    repos = yaml.safe_load((tree.config / "repos.yaml").read_text())
    assert repos["repos"] == {"builtin": str(tmp_path)}
    mirrors = yaml.safe_load((tree.config / "mirrors.yaml").read_text())
    assert mirrors["mirrors"]["nimc"]["url"] == f"file://{tmp_path}"


@pytest.fixture
def other(tmp_path):
    """The folder of a second set of recipes."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "repo.yaml").touch()
    return folder


def test_each_setup_searches_for_compilers_and_for_external_packages(spack_root, tmp_path, other):
    tree = layout("here", tmp_path / "state")
    for packages in (tmp_path, tmp_path, other):
        setup.setup(tree, packages, None, None, print)
    searches = " ".join(calls(spack_root))
    assert (searches.count("compiler find"), searches.count("external find")) == (3, 6)


@pytest.mark.usefixtures("spack_root")
def test_a_second_setup_keeps_options_that_are_not_given(tmp_path, other):
    tree, mirror = layout("here", tmp_path / "state"), f"file://{tmp_path}"
    machine_file = tmp_path / "m.yaml"
    machine_file.write_text("packages: {}")
    first = setup.setup(tree, other, machine_file, mirror, print)
    assert (first.packages, first.machine_file, first.mirror) == (
        str(other), str(machine_file), mirror,
    )  # fmt: skip
    assert setup.setup(tree, None, None, None, print) == first
    mirrors = yaml.safe_load((tree.config / "mirrors.yaml").read_text())
    assert mirrors["mirrors"]["nimc"]["url"] == mirror
    forgetful = setup.setup(tree, other, None, None, print, forget=True)
    assert (forgetful.packages, forgetful.machine_file, forgetful.mirror) == (
        str(other),
        None,
        None,
    )
    assert yaml.safe_load((tree.config / "mirrors.yaml").read_text()) == {"mirrors": {}}
    assert setup.setup(tree, None, None, None, print) == forgetful
    setup.setup(tree, other, None, mirror, print)
    tree.settings_file.unlink()
    assert setup.setup(tree, other, None, None, print).mirror is None


@pytest.mark.usefixtures("spack_root")
def test_a_second_setup_forgets_files_that_are_gone(tmp_path, other):
    tree, machine_file = layout("here", tmp_path / "state"), tmp_path / "m.yaml"
    machine_file.write_text("packages: {}")
    setup.setup(tree, other, machine_file, None, print)
    machine_file.unlink()
    lines = []
    again = setup.setup(tree, None, None, None, lines.append)
    assert (again.packages, again.machine_file) == (str(other), None)
    assert any(line.startswith(f"{machine_file}: named by an earlier setup") for line in lines)


@pytest.mark.usefixtures("spack_root")
def test_setup_takes_the_libraries_that_pkg_config_finds(tmp_path, monkeypatch):
    """Spack itself finds programs only. An entry that a user wrote for a library remains."""
    script = (
        'case "$*" in\n  "--modversion pmix") echo 4.2.9 ;;\n'
        '  "--variable=prefix pmix") echo /usr/lib/pmix ;;\n'
        '  "--modversion munge") echo 0.5.15 ;;\n  "--variable=prefix munge") echo /usr ;;\n'
        "  *) exit 1 ;;\nesac"
    )
    program(tmp_path / "bin", "pkg-config", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(setup, "LIBRARIES", ("pmix", "munge", "none"))
    tree = layout("here", tmp_path / "state")
    tree.config.mkdir(parents=True)
    munge = {"externals": [{"spec": "munge@0.5.16", "prefix": "/opt"}]}
    tree.host_packages_file.write_text(yaml.safe_dump({"packages": {"munge": munge}}))
    setup.setup(tree, tmp_path, None, None, print)
    pmix = {"externals": [{"spec": "pmix@4.2.9", "prefix": "/usr/lib/pmix"}]}
    packages = yaml.safe_load(tree.host_packages_file.read_text())["packages"]
    assert packages == {"munge": munge, "pmix": pmix}


def compilers_of(folder, **programs):
    """Return the rules of a GCC with these compilers; make each program whose value is true."""
    for language, exists in programs.items():
        if exists:
            (folder / language).touch(0o755)
    named = {language: str(folder / language) for language in programs}
    gcc = {"spec": "gcc@14.2.0 languages=c", "extra_attributes": {"compilers": named}}
    return yaml.safe_dump({"packages": {"gcc": {"externals": [gcc]}}})


def test_setup_prints_the_languages_of_each_compiler_that_this_host_has(
    ready, tmp_path, monkeypatch, command
):
    tree, settings = ready
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    words = ("spack", "setup", "--machine", "here")
    tree.host_packages_file.write_text(compilers_of(tmp_path, c=True, cxx=True, fortran=False))
    output = " ".join(command(*words).split())
    assert "compilers: gcc@14.2.0 (C, C++)" in output
    assert "no Fortran compiler: apt install gfortran, or dnf install gcc-gfortran; then" in output
    (tmp_path / "fortran").touch(0o755)
    document = command.json(*words)
    assert document["compilers"] == {"gcc@14.2.0": ["C", "C++", "Fortran"]}
    assert document["packages"] == settings.packages


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["gcc@9.4.0", "gcc@12.2.0 languages:='c,c++'", "gcc@10.2"], "gcc@12.2.0"),
        (["llvm@17.0.6", "gcc@8.5.0"], "gcc@8.5.0"),
        (["llvm@9.0.1", "llvm@17.0.6"], "llvm@17.0.6"),
        (["absent@99", "llvm@9.0.1"], "llvm@9.0.1"),
        (["absent@99"], None),
    ],
)
def test_checks_compile_with_the_newest_gcc_or_else_the_newest_compiler(
    ready, tmp_path, specs, expected
):
    """The program of a compiler has the name of its spec. This host has no program of `absent`."""
    tree, settings = ready
    rules = {}
    for spec in specs:
        program = tmp_path / "compilers" / spec.partition(" ")[0]
        program.parent.mkdir(exist_ok=True)
        if not spec.startswith("absent"):
            program.touch(0o755)
        external = {"spec": spec, "extra_attributes": {"compilers": {"c": str(program)}}}
        rules.setdefault(spec.partition("@")[0], {"externals": []})["externals"].append(external)
    tree.host_packages_file.write_text(yaml.safe_dump({"packages": rules}))
    if expected:
        assert externals.c_compiler(tree, settings) == str(tmp_path / "compilers" / expected)
    else:
        with pytest.raises(InputError, match="Spack has no C and no C"):
            externals.c_compiler(tree, settings)


def test_setup_clones_the_pinned_spack_and_recipes_once_if_the_host_has_no_spack(
    tmp_path, monkeypatch
):
    cloned = []

    def clone(git, tag, commit, into):
        cloned.append((git, tag, commit))
        install(into)

    monkeypatch.setattr(setup, "find_spack", lambda: None)
    monkeypatch.setattr(setup, "clone", clone)
    tree, pins = layout("here", tmp_path / "state"), load_pins()
    for _ in range(2):
        settings = setup.setup(tree, None, None, None, print)
    spack, recipes = (
        tree.clone_folder(tree_name, getattr(pins, tree_name).commit)
        for tree_name in ("spack", "packages")
    )
    assert (settings.spack, settings.packages, settings.mirror) == (str(spack), None, None)
    assert cloned == [
        (source.git, source.tag, source.commit) for source in (pins.spack, pins.packages)
    ]
    repos = yaml.safe_load((tree.config / "repos.yaml").read_text())
    assert repos["repos"] == {"builtin": str(recipes / "repos/spack_repo/builtin")}
    assert yaml.safe_load((tree.config / "mirrors.yaml").read_text()) == {"mirrors": {}}
    assert load_settings(tree) == settings


def test_each_machine_has_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("NIMC_SPACK_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert layout("here").root == tmp_path / "nimc/spack/here"
    monkeypatch.setenv("NIMC_SPACK_DIR", "own")
    with pytest.raises(InputError, match="NIMC_SPACK_DIR: 'own' found; allowed: an absolute path"):
        layout("here")
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "own"))
    assert layout("here").root == tmp_path / "own/here"
    assert layout("here", tmp_path).root == tmp_path / "here"
    for name in ("../x", "a/b", ""):
        with pytest.raises(InputError, match="--machine: "):
            layout(name)


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("echo", "''"),
        ("echo develop", "'develop'"),
        (f"echo {'9' * 5000}", "'999"),
        ("echo no module named llnl >&2; exit 1", "no module named llnl"),
    ],
)
def test_the_pinned_spack_is_used_if_that_of_the_host_does_not_print_its_version(
    spack_root, tmp_path, other, line, quoted
):
    answer = 'echo "1.1.0 (2e90720)"'
    assert answer in SPACK_STAND_IN
    install(spack_root, SPACK_STAND_IN.replace(answer, line))
    tree = layout("here", tmp_path / "state")
    pinned = tree.clone_folder("spack", load_pins().spack.commit)
    install(pinned)
    messages: list[str] = []
    settings = setup.setup(tree, other, None, None, messages.append)
    assert settings.spack == str(pinned)
    assert messages[0].startswith(f"{spack_root}")
    assert quoted in messages[0]
    assert "\n" not in messages[0]


def test_a_search_that_fails_leaves_no_settings(spack_root, ready, other):
    """The configuration already names the new recipes, so no build may use the old settings."""
    tree, _ = ready
    failing = 'case "$*" in\n  *compiler*) exit 1 ;;'
    install(spack_root, SPACK_STAND_IN.replace('case "$*" in', failing))
    with pytest.raises(MachineError):
        setup.setup(tree, other, None, None, print)
    with pytest.raises(InputError, match="Spack is not set up for here"):
        load_settings(tree)


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
def test_setup_refuses_an_option_that_a_build_could_not_use(
    spack_root, tmp_path, name, text, words
):
    options = {"packages": tmp_path, "machine": None, "mirror": None}
    if name == "machine":
        (tmp_path / "m.yaml").write_text(text)
        text = tmp_path / "m.yaml"
    options[name] = text or tmp_path / "empty"
    tree = layout("here", tmp_path / "state")
    with pytest.raises(InputError, match=words):
        setup.setup(tree, options["packages"], options["machine"], options["mirror"], print)
    assert not tree.settings_file.exists()
    assert calls(spack_root) == []


def test_spack_takes_no_package_from_a_conda_environment(tmp_path):
    """`conda activate` sets CONDA_PREFIX and puts its `bin` first on PATH, often at each login."""
    environment = {"CONDA_PREFIX": "/home/u/miniconda3", "LOGNAME": "u"}
    path = "/home/u/miniconda3/bin:/home/u/miniconda3/condabin:/usr/local/bin:/usr/bin"
    seen = isolation.isolated_environment(layout("here", tmp_path), {**environment, "PATH": path})
    assert seen["PATH"] == "/home/u/miniconda3/condabin:/usr/local/bin:/usr/bin"
    # Without conda, PATH keeps all folders.
    seen = isolation.isolated_environment(layout("here", tmp_path), {"PATH": path})
    assert seen["PATH"] == path


def test_builds_see_no_programs_of_the_virtual_environment_and_have_a_users_name(
    tmp_path, monkeypatch
):
    # A job may have none of these variables.
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    own = f"{sys.prefix}/bin:{tmp_path}/linked/bin"
    (tmp_path / "linked").symlink_to(sys.prefix)
    environment = {"PATH": f"/usr/bin:{own}:/bin", "VIRTUAL_ENV": sys.prefix, "HOME": "/root"}
    tree = layout("here", tmp_path)
    seen = isolation.isolated_environment(tree, environment)
    in_venv = sys.prefix != sys.base_prefix
    assert seen["PATH"] == ("/usr/bin:/bin" if in_venv else f"/usr/bin:{own}:/bin")
    assert ("VIRTUAL_ENV" in seen, seen["HOME"]) == (False, "/root")
    assert seen["LOGNAME"] == pwd.getpwuid(os.getuid()).pw_name
    assert (
        isolation.isolated_environment(tree, {"PATH": "/bin", "LOGNAME": "other"})["LOGNAME"]
        == "other"
    )


def test_setup_does_not_use_an_old_spack_of_the_site_and_refuses_an_empty_root(
    spack_root, tmp_path, monkeypatch
):
    """The text is the version that Spack 0.23.1 prints. Spack's setup script sets SPACK_ROOT."""
    install(spack_root, SPACK_STAND_IN.replace("1.1.0 (2e90720)", "0.23.1 (2bfcc69fa870d3c6919)"))
    tree = layout("here", tmp_path / "state")
    pinned = tree.clone_folder("spack", load_pins().spack.commit)
    install(pinned)
    messages: list[str] = []
    settings = setup.setup(tree, tmp_path, None, None, messages.append)
    assert (settings.spack, settings.version) == (str(pinned), "1.1.0")
    assert messages[0].startswith(f"{spack_root}: Spack 0.23.1 is too old")
    assert calls(spack_root) == ["--color never --version"]
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="SPACK_ROOT"):
        setup.find_spack()


def test_clone_refuses_a_tag_that_names_another_commit(tmp_path):
    source = tmp_path / "source"
    for words in (
        ["init", "-q", "-b", "main", str(source)],
        ["-C", str(source), "-c", "user.name=a", "-c", "user.email=a@b"]
        + ["commit", "-q", "--allow-empty", "-m", "one"],
        ["-C", str(source), "tag", "v1"],
    ):
        subprocess.run(["git", *words], check=True)
    head = ["git", "-C", str(source), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    setup.clone(f"file://{source}", "v1", commit, tmp_path / "good")
    assert (tmp_path / "good" / ".git").is_dir()
    with pytest.raises(MachineError, match="not the pinned"):
        setup.clone(f"file://{source}", "v1", "0" * 40, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_a_mistake_in_the_file_of_pins_is_named(tmp_path):
    text = (ENVIRONMENTS_FOLDER / "pins.yaml").read_text()
    (tmp_path / "pins.yaml").write_text(text.replace("v1.1.0", "[1]"))
    line = 1 + text.splitlines().index("  tag: v1.1.0")
    with pytest.raises(InputError, match=rf"pins\.yaml:{line}: spack\.tag"):
        load_pins(tmp_path)
    (tmp_path / "pins.yaml").write_text("spack: [")
    with pytest.raises(InputError, match=r"pins\.yaml:2: invalid YAML"):
        load_pins(tmp_path)


FOLDER = ENVIRONMENTS_FOLDER
STACKS = [name.removesuffix("@SIZE") for name in known_environments()]
#: The recipe or makefile of each of these packages sets -O2 or -O3; the compile lines of a build
#: show this. The spec of each other workload must set the flags.
OPTIMISED = {"hpccg", "lammps", "lulesh", "minife", "stream"}
WORKLOADS = OPTIMISED | {"amg2013", "quicksilver", "snap", "xsbench"}
TOOLS = {"ucx", "papi", "mpip", "likwid", "osu-micro-benchmarks"}
TOOLS |= {"openspeedshop", "cbtf", "cbtf-krell"}


def specs_of(stack: str) -> list[str]:
    return yaml.safe_load((FOLDER / stack / "spack.yaml").read_text())["spack"]["specs"]


SPECS = {re.split("[@ ]", spec)[0]: spec for stack in STACKS for spec in specs_of(stack)}


def test_an_environment_builds_each_workload_and_each_tool():
    assert STACKS == [
        "hpccg",
        "lammps",
        "openspeedshop",
        "profiling",
        "proxyapps",
        "stream",
        "tools",
    ]
    assert SPECS.keys() == WORKLOADS | TOOLS
    # PAPI is in two environments: it is a tool itself, and Open|SpeedShop asks it for events.
    assert sum(len(specs_of(stack)) for stack in STACKS) == len(SPECS) + 1


@pytest.mark.parametrize("stack", STACKS)
def test_an_environment_has_the_expected_form(stack):
    text = (FOLDER / stack / "spack.yaml").read_text()
    assert text.startswith("# ")
    content = yaml.safe_load(text)["spack"]
    # An environment has no `repos`, since all recipes are public and pinned.
    assert content.keys() - {"packages"} == {"specs", "view", "include"}
    # Dependencies such as openssh, curl and perl must not come before those of the host on PATH.
    assert content["view"] == {"default": {"root": ".spack-env/view", "link": "roots"}}
    machine, common = content["include"]
    assert machine == {"path": "$env/../machines/$NIMC_MACHINE.yaml", "optional": True}
    assert (FOLDER / stack / common.replace("$env/", "")).exists()


def test_each_spec_names_a_release_or_a_commit_and_sets_flags_that_its_recipe_does_not_set():
    release, commit = r"[0-9][0-9.]*", r"git\.[0-9a-f]{40}=[a-z0-9.]+"
    for name, spec in SPECS.items():
        assert re.fullmatch(rf"[a-z0-9-]+@({release}|{commit})( .*)?", spec)
        if name in WORKLOADS - OPTIMISED:
            assert re.search(r' (c|cxx|f)flags="[^"]*-O[23]\b', spec), name
