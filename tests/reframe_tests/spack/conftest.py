"""Fixtures with a script that stands in for Spack, and with a machine that is set up with it."""

import sys

import pytest
import yaml

from reframe_tests.spack import setup
from reframe_tests.spack.folders import layout
from tests.reframe_tests.spack.fake import install


@pytest.fixture
def spack_root(tmp_path, monkeypatch):
    root = tmp_path / "spack"
    (tmp_path / "repo.yaml").write_text("repo: {}\n")
    install(root)
    monkeypatch.setenv("SPACK_ROOT", str(root))
    monkeypatch.setattr(setup, "LIBRARIES", ())
    return root


@pytest.fixture
def ready(spack_root, tmp_path, monkeypatch):
    monkeypatch.setattr("records.machine.site.known_machines", lambda _: ["elsewhere", "here"])
    tree = layout("here", tmp_path / "state")
    settings = setup.setup(tree, tmp_path, None, None, print)
    (spack_root / "calls").unlink()
    programs = dict.fromkeys(("c", "cxx", "fortran"), sys.executable)
    gcc = {"spec": "gcc@14.2.0", "extra_attributes": {"compilers": programs}}
    tree.host_packages_file.write_text(yaml.safe_dump({"packages": {"gcc": {"externals": [gcc]}}}))
    return tree, settings
