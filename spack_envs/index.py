"""Lists versions and variants of the packages in the environments, from the pinned recipes.

Run it with Spack after `nimc spack setup` when `pins.yaml` or an environment has changed:

    spack -e ENVIRONMENT python spack_envs/index.py > spack_envs/builtin.json

Tests without Spack use the list to check that every spec, version, variant and dependency exists.
"""

import json
import re
import sys
from pathlib import Path

import spack.repo
import yaml

HERE = Path(sys.argv[0]).resolve().parent
DEPENDENCY = re.compile(r"depends_on\(\s*\"([a-z0-9-]+)")


def named() -> set[str]:
    """Packages named in environments, the common file and own recipes."""
    names = set(yaml.safe_load((HERE / "common.yaml").read_text())["packages"]) - {"all", "mpi"}
    for path in HERE.glob("*/spack.yaml"):
        specs = yaml.safe_load(path.read_text())["spack"]["specs"]
        names |= {re.split(r"[@ +~]", spec)[0] for spec in specs}
    for path in HERE.glob("repo/spack_repo/nimc/packages/*/package.py"):
        names |= set(DEPENDENCY.findall(path.read_text()))
    return names


def main() -> None:
    """Print the list as JSON."""
    builtin = next(repo for repo in spack.repo.PATH.repos if repo.namespace == "builtin")
    lines = []
    for name in sorted(named()):
        if not builtin.exists(name):
            continue
        package = builtin.get_pkg_class(name)
        versions = sorted(str(version) for version in package.versions)
        offer = {"versions": versions, "variants": sorted(package.variant_names())}
        lines.append(f"{json.dumps(name)}: {json.dumps(offer)}")
    print("{\n" + ",\n".join(lines) + "\n}")


main()
