"""Every environment, read without Spack.

What only Spack itself can say (that an environment concretizes, how it compiles, and that programs
run) is in `tests/nimc/spack/test_spack_real.py`, marked `spack`.
"""

from __future__ import annotations

import re

import pytest
import yaml

from nimc.spack import setup

FOLDER = setup.ENVIRONMENTS
STACKS = setup.known_environments()
#: Packages that are compiled with -O2 or -O3 by what their recipe or makefile says, as the compile
#: lines of a build show. Those of other workloads must be given their flags.
OPTIMISED = {"hpccg", "lammps", "lulesh", "minife", "stream"}
WORKLOADS = OPTIMISED | {"amg2013", "snap", "xsbench"}
TOOLS = {"ucx", "papi", "mpip", "likwid", "osu-micro-benchmarks"}


def specs_of(stack: str) -> list[str]:
    return yaml.safe_load((FOLDER / stack / "spack.yaml").read_text())["spack"]["specs"]


SPECS = {re.split("[@ ]", spec)[0]: spec for stack in STACKS for spec in specs_of(stack)}


def test_every_workload_and_tool_is_built_in_one_environment():
    assert STACKS == ["hpccg", "lammps", "profiling", "proxyapps", "stream", "tools"]
    assert SPECS.keys() == WORKLOADS | TOOLS
    assert sum(len(specs_of(stack)) for stack in STACKS) == len(SPECS)


@pytest.mark.parametrize("stack", STACKS)
def test_environment_has_the_known_form(stack):
    text = (FOLDER / stack / "spack.yaml").read_text()
    assert text.startswith("# ")
    content = yaml.safe_load(text)["spack"]
    # Without `repos`: recipes are the public ones alone, pinned.
    assert content.keys() - {"packages"} == {"specs", "view", "include"}
    machine, common = content["include"]
    assert machine == {"path": "$env/../machines/$NIMC_MACHINE.yaml", "optional": True}
    assert (FOLDER / stack / common.replace("$env/", "")).exists()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_spec_names_a_release_or_a_commit(spec):
    release, commit = r"[0-9][0-9.]*", r"git\.[0-9a-f]{40}=[a-z0-9.]+"
    assert re.fullmatch(rf"[a-z0-9-]+@({release}|{commit})( .*)?", spec)


@pytest.mark.parametrize("name", sorted(WORKLOADS - OPTIMISED))
def test_a_workload_whose_recipe_drops_optimisation_is_given_it(name):
    assert re.search(r' [cf]flags="[^"]*-O[23]\b', SPECS[name])


def test_common_and_network_speak_of_the_same_packages():
    common = yaml.safe_load((FOLDER / "common.yaml").read_text())["packages"]
    network = yaml.safe_load((FOLDER / "network.yaml").read_text())["packages"]
    assert common.keys() - {"all", "mpi"} == network.keys() == {"openmpi", "ucx"}
    # The MPI is the machine's if it has one, so no environment demands a version of it.
    assert common["mpi"]["require"] == ["openmpi"]
    assert common["openmpi"] == {"prefer": ["@5.0.8"]}


def test_spack_and_its_recipes_are_pinned_together():
    # They belong together: Spack 1.1.0 reads the package API of recipes v2025.11.0.
    found = setup.load_pins()
    assert (found.spack.tag, found.packages.tag) == ("v1.1.0", "v2025.11.0")
