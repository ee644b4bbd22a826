"""Every environment and recipe, read without Spack.

`spack_envs/builtin.json` lists what the pinned recipes offer. What only Spack itself can say (that
an environment concretizes, builds and runs) is in `tests/spack_envs/test_spack_real.py`, marked
`spack`.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from spack_envs.builder import pins, setup

FOLDER = pins.ENVIRONMENTS
RECIPES = FOLDER / "repo" / "spack_repo" / "nimc" / "packages"
BUILTIN = json.loads((FOLDER / "builtin.json").read_text())
VIRTUAL = {"mpi", "c", "cxx", "fortran"}
STACKS = pins.known_environments()
OWN = sorted(path.parent.name for path in RECIPES.glob("*/package.py"))


def calls(name: str, function: str) -> list[ast.Call]:
    tree = ast.parse((RECIPES / name / "package.py").read_text())
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
    ]


def first_words(name: str, function: str) -> list[str]:
    return [call.args[0].value for call in calls(name, function)]


def offered(package: str, what: str) -> set[str]:
    """Versions or variants that a package has, in builtin and in its own recipe."""
    own = package.replace("-", "_")
    mine = first_words(own, what.removesuffix("s")) if own in OWN else []
    return set(BUILTIN.get(package, {}).get(what, [])) | set(mine)


def specs_of(stack: str) -> list[str]:
    return yaml.safe_load((FOLDER / stack / "spack.yaml").read_text())["spack"]["specs"]


def check_spec(spec: str) -> None:
    package, version = re.match(r"([a-z0-9-]+)@([\w.-]+)", spec).groups()
    assert version in offered(package, "versions"), spec
    words = re.findall(r"[+~](\w+)|(\w+)=", spec.removeprefix(package))
    variants = {switch or value for switch, value in words}
    assert variants <= offered(package, "variants") | {"target"}, spec


def test_the_stacks_are_those_of_the_design():
    named = ["coral", "lammps", "openspeedshop", "profiling", "proxyapps", "stream", "tools"]
    assert named == STACKS


@pytest.mark.parametrize("stack", STACKS)
def test_environment_has_the_known_form(stack):
    text = (FOLDER / stack / "spack.yaml").read_text()
    assert text.startswith("# ")
    content = yaml.safe_load(text)["spack"]
    assert content.keys() - {"packages"} == {"specs", "view", "include", "repos"}
    machine, common = content["include"]
    assert machine == {"path": "$env/../machines/$NIMC_MACHINE.yaml", "optional": True}
    for path in (common, content["repos"]["nimc"]):
        assert (FOLDER / stack / path.replace("$env/", "")).exists()


@pytest.mark.parametrize("spec", [spec for stack in STACKS for spec in specs_of(stack)])
def test_every_spec_is_pinned_and_exists(spec):
    check_spec(spec)


def test_a_spec_that_does_not_exist_is_noticed():
    for wrong in ("stream@6.0", "hpccg@1.0-git +gpu", "minife@2.1.0 kind=ref"):
        with pytest.raises(AssertionError):
            check_spec(wrong)


def test_every_workload_and_tool_is_built_somewhere():
    built = {re.split("[@ ]", spec)[0] for stack in STACKS for spec in specs_of(stack)}
    proxies = {"stream", "hpccg", "lulesh", "lammps", "cns", "snap", "xsbench"}
    multirail = {"minife", "amg2013", "umt"}
    tools = {"perftest", "ucx", "papi", "mpip", "likwid", "osu-micro-benchmarks"}
    assert built == proxies | multirail | tools | {"openspeedshop"}
    # The MPI is the machine's where it has one, so no environment demands a version of it.
    common = yaml.safe_load((FOLDER / "common.yaml").read_text())["packages"]
    assert common["mpi"]["require"] == ["openmpi"]
    assert common["openmpi"] == {"prefer": ["@5.0.8"]}


def test_openspeedshop_may_build_what_setup_takes_from_the_machine():
    # Its recipe takes no flex but 2.6.1; that of cbtf-krell no libunwind but 1.2.1.
    content = yaml.safe_load((FOLDER / "openspeedshop" / "spack.yaml").read_text())["spack"]
    assert content["packages"] == {name: {"buildable": True} for name in ("flex", "libunwind")}
    assert "flex" in setup.BUILD_TOOLS


def test_openspeedshop_breaks_no_other():
    for stack in set(STACKS) - {"openspeedshop"}:
        assert not any("openspeedshop" in spec or "cbtf" in spec for spec in specs_of(stack))
    assert pins.load().environments == {"openspeedshop": "openspeedshop"}


def test_common_names_what_exists():
    common = yaml.safe_load((FOLDER / "common.yaml").read_text())
    assert common["packages"].keys() - {"all", "mpi"} <= BUILTIN.keys()
    network = yaml.safe_load((FOLDER / "network.yaml").read_text())["packages"]
    assert network.keys() == {"openmpi", "ucx"}
    for package, rule in network.items():
        (version,), (variants,) = common["packages"][package]["prefer"], rule["require"]
        check_spec(f"{package}{version} {variants}")


def test_own_repository():
    repo = yaml.safe_load((RECIPES.parent / "repo.yaml").read_text())
    assert repo == {"repo": {"namespace": "nimc", "api": "v2.2"}}
    assert OWN == ["cns", "hpccg", "mpip", "perftest", "snap", "stream", "umt", "xsbench"]


@pytest.mark.parametrize("name", OWN)
def test_recipe(name):
    tree = ast.parse((RECIPES / name / "package.py").read_text())
    assert ast.get_docstring(tree).startswith("Exists because ")
    assert len(ast.get_docstring(tree).splitlines()) == 1
    (package,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert package.name == name.title()
    for call in calls(name, "version"):
        (commit,) = [word.value.value for word in call.keywords if word.arg == "commit"]
        assert re.fullmatch("[0-9a-f]{40}", commit)
    assert first_words(name, "version")
    assigned = {t.id for n in package.body if isinstance(n, ast.Assign) for t in n.targets}
    assert {"git", "sanity_check_is_file"} <= assigned or name in BUILTIN
    assert "sanity_check_is_file" in assigned
    for dependency in first_words(name, "depends_on"):
        bare = re.split("[@+~ ]", dependency)[0]
        assert bare in BUILTIN.keys() | VIRTUAL
        switches = set(re.findall(r"[+~](\w+)", dependency))
        assert bare in VIRTUAL or switches <= set(BUILTIN[bare]["variants"])
    for patch in first_words(name, "patch"):
        assert (RECIPES / name / patch).is_file()


@pytest.mark.parametrize("name", OWN)
def test_recipe_overrides_only_what_builtin_has(name):
    text = (RECIPES / name / "package.py").read_text()
    extended = re.findall(r"from spack_repo\.builtin\.packages\.(\w+)\.", text)
    assert (extended == [name]) == (name in BUILTIN)


def test_pins_name_both_together():
    for pin in pins.load().pins.values():
        assert pin.spack.git == "https://github.com/spack/spack.git"
        assert pin.packages.git == "https://github.com/spack/spack-packages.git"
        assert Path(pin.packages.tag).name.startswith("v202")
