"""A checkout with a machine `box`, and stand-ins for programs."""

from pathlib import Path

from records.checkout import ROOT

#: Site file of one host that is origin and target.
SITE = "name: box\ndescription: a box\norigins: {policy: same_host}\ninjector: ucx\n"


def checkout(folder: Path, config: str, site: str = SITE, name: str = "box") -> Path:
    """Give a folder this project's checks and the files of a machine; returns the folder."""
    (folder / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    for file, text in ((f"configs/{name}.py", config), (f"site/{name}.yaml", site)):
        (folder / file).parent.mkdir()
        (folder / file).write_text(text)
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    """Write a script for `sh` to a folder, which is made if it does not exist; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
