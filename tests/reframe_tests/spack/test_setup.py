"""`nimc spack setup`, with a script in the place of Spack; and every environment, read without it.

What only Spack itself can say is in `test_spack_real.py`.
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
from tests.reframe_tests.spack.fake import FAKE, calls, install


def test_setup_takes_the_spack_at_hand_and_isolates_it(spack_root, tmp_path, monkeypatch):
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
    # srun does not say its version without a configuration, and may have one in jobs only.
    conf = isolation.isolated_environment(tree, {"SLURM_CONF": "/of/the/site"})["SLURM_CONF"]
    assert "ClusterName=" in Path(conf).read_text()
    config = yaml.safe_load((tree.config / "config.yaml").read_text())["config"]
    assert config["install_tree"]["root"] == str(tree.store)
    assert config["locks"] is True
    # Packages from a build cache can only be moved to a path that is no longer.
    assert config["install_tree"]["padded_length"] >= 128
    bootstrap = yaml.safe_load((tree.config / "bootstrap.yaml").read_text())
    assert bootstrap["bootstrap"]["enable"] is False
    # Recipes that Spack chose by itself would be cloned, whatever the network.
    repos = yaml.safe_load((tree.config / "repos.yaml").read_text())
    assert repos["repos"] == {"builtin": str(tmp_path)}
    mirrors = yaml.safe_load((tree.config / "mirrors.yaml").read_text())
    assert mirrors["mirrors"]["nimc"]["url"] == f"file://{tmp_path}"


@pytest.fixture
def other(tmp_path):
    """Other recipes."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "repo.yaml").touch()
    return folder


def test_each_setup_searches_what_is_never_built_and_what_may_be(spack_root, tmp_path, other):
    tree = layout("here", tmp_path / "state")
    for packages in (tmp_path, tmp_path, other):
        setup.setup(tree, packages, None, None, print)
    searches = " ".join(calls(spack_root))
    assert (searches.count("compiler find"), searches.count("external find")) == (3, 6)


@pytest.mark.usefixtures("spack_root")
def test_options_that_are_not_given_are_as_before(tmp_path, other):
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
    tree.settings_file.unlink()
    assert setup.setup(tree, other, None, None, print).mirror is None


@pytest.mark.usefixtures("spack_root")
def test_libraries_of_the_host_are_taken_as_pkg_config_has_them(tmp_path, monkeypatch):
    """Spack finds programs; what a user wrote of a library stays."""
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
    """The rules of a GCC with these programs, each there if it says so."""
    for language, exists in programs.items():
        if exists:
            (folder / language).touch(0o755)
    named = {language: str(folder / language) for language in programs}
    gcc = {"spec": "gcc@14.2.0 languages=c", "extra_attributes": {"compilers": named}}
    return yaml.safe_dump({"packages": {"gcc": {"externals": [gcc]}}})


def test_compilers_are_named_with_their_languages_on_this_host(
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
    """A compiler's program has the name of its spec; that of `absent` is not on this host."""
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


def test_without_a_spack_the_pinned_one_and_its_recipes_are_cloned_once(tmp_path, monkeypatch):
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


def test_a_machine_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("NIMC_SPACK_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert layout("here").root == tmp_path / "nimc/spack/here"
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "own"))
    assert layout("here").root == tmp_path / "own/here"
    assert layout("here", tmp_path).root == tmp_path / "here"
    for name in ("../x", "a/b", ""):
        with pytest.raises(InputError, match="--machine: "):
            layout(name)


@pytest.mark.parametrize(
    ("printed", "quoted"),
    [("", "''"), ("develop", "'develop'"), ("9" * 5000, "'999")],
)
def test_a_spack_without_a_version_that_can_be_read_is_refused(
    spack_root, tmp_path, other, printed, quoted
):
    install(spack_root, FAKE.replace("1.1.0 (2e90720)", printed))
    with pytest.raises(MachineError, match=re.escape(quoted)):
        setup.setup(layout("here", tmp_path / "state"), other, None, None, print)


def test_a_search_that_fails_leaves_no_settings(spack_root, ready, other):
    """The configuration is that of other recipes already: nothing may be built with the old."""
    tree, _ = ready
    install(spack_root, FAKE.replace('case "$*" in', 'case "$*" in\n  *compiler*) exit 1 ;;'))
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
def test_setup_refuses_what_a_build_could_not_use(spack_root, tmp_path, name, text, words):
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
    # Without conda, all folders stay.
    seen = isolation.isolated_environment(layout("here", tmp_path), {"PATH": path})
    assert seen["PATH"] == path


def test_builds_see_no_wheels_of_this_python_and_have_a_users_name(tmp_path, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):  # as in a job
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


def test_setup_leaves_an_old_spack_of_the_site_and_refuses_an_empty_root(
    spack_root, tmp_path, monkeypatch
):
    """Spack 0.23.1 prints its version so; Spack's set-up script exports SPACK_ROOT."""
    install(spack_root, FAKE.replace("1.1.0 (2e90720)", "0.23.1 (2bfcc69fa870d3c6919)"))
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


def test_clone_refuses_a_moved_tag(tmp_path):
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


def test_pins_file_with_a_mistake(tmp_path):
    text = (ENVIRONMENTS_FOLDER / "pins.yaml").read_text()
    (tmp_path / "pins.yaml").write_text(text.replace("v1.1.0", "[1]"))
    with pytest.raises(InputError, match=r"pins\.yaml: spack\.tag"):
        load_pins(tmp_path)


FOLDER = ENVIRONMENTS_FOLDER
STACKS = [name.removesuffix("@SIZE") for name in known_environments()]
#: Packages that are compiled with -O2 or -O3 by what their recipe or makefile says, as the compile
#: lines of a build show. Those of other workloads must be given their flags.
OPTIMISED = {"hpccg", "lammps", "lulesh", "minife", "stream"}
WORKLOADS = OPTIMISED | {"amg2013", "quicksilver", "snap", "xsbench"}
TOOLS = {"ucx", "papi", "mpip", "likwid", "osu-micro-benchmarks"}
TOOLS |= {"openspeedshop", "cbtf", "cbtf-krell"}


def specs_of(stack: str) -> list[str]:
    return yaml.safe_load((FOLDER / stack / "spack.yaml").read_text())["spack"]["specs"]


SPECS = {re.split("[@ ]", spec)[0]: spec for stack in STACKS for spec in specs_of(stack)}


def test_every_workload_and_tool_is_built_in_one_environment():
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
    # PAPI counts by itself, and is what Open|SpeedShop asks which events there are.
    assert sum(len(specs_of(stack)) for stack in STACKS) == len(SPECS) + 1


@pytest.mark.parametrize("stack", STACKS)
def test_environment_has_the_known_form(stack):
    text = (FOLDER / stack / "spack.yaml").read_text()
    assert text.startswith("# ")
    content = yaml.safe_load(text)["spack"]
    # Without `repos`: recipes are the public ones alone, pinned.
    assert content.keys() - {"packages"} == {"specs", "view", "include"}
    # What the programs need must not come before the host's on PATH: openssh, curl, perl.
    assert content["view"] == {"default": {"root": ".spack-env/view", "link": "roots"}}
    machine, common = content["include"]
    assert machine == {"path": "$env/../machines/$NIMC_MACHINE.yaml", "optional": True}
    assert (FOLDER / stack / common.replace("$env/", "")).exists()


def test_every_spec_names_a_release_or_a_commit_and_optimisation_where_its_recipe_drops_it():
    release, commit = r"[0-9][0-9.]*", r"git\.[0-9a-f]{40}=[a-z0-9.]+"
    for name, spec in SPECS.items():
        assert re.fullmatch(rf"[a-z0-9-]+@({release}|{commit})( .*)?", spec)
        if name in WORKLOADS - OPTIMISED:
            assert re.search(r' (c|cxx|f)flags="[^"]*-O[23]\b', spec), name
