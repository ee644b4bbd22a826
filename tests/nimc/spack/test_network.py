"""What a lock says of the MPI's network, in the form of Spack 1.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from nimc.spack.build import lacking

HERE = Path("machines/m.yaml")
UCX = {"name": "ucx", "version": "1.19.0", "parameters": {"verbs": True, "rc": True}}


def openmpi(fabrics, **more):
    return {"name": "openmpi", "version": "5.0.8", "parameters": {"fabrics": fabrics}, **more}


@pytest.mark.parametrize(
    "specs",
    [
        [],
        [openmpi(["ucx"]), UCX],
        [openmpi(["cma", "ofi"])],
        [openmpi(["none"], external={"path": "/usr"})],
        # Nothing of this environment communicates through UCX.
        [{**UCX, "parameters": {"verbs": False, "rc": False}}],
        [{"name": "mpich", "version": "4.3", "parameters": {"netmod": "ofi"}}],
    ],
)
def test_a_fast_network_or_none_to_build(specs):
    assert lacking(specs, HERE) is None


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([openmpi(["none"])], "openmpi@5.0.8 without a fast network (fabrics=none)"),
        ([openmpi("none")], "(fabrics=none)"),
        ([openmpi(["cma", "knem"])], "(fabrics=cma,knem)"),
        (
            [{"name": "mpich", "version": "4.3", "parameters": {"netmod": "tcp"}}],
            "mpich@4.3 without a fast network (netmod=tcp)",
        ),
        (
            [openmpi(["ucx"]), {**UCX, "parameters": {"verbs": False, "rc": False}}],
            "ucx@1.19.0 without verbs and rc",
        ),
        ([openmpi(["ucx"]), {**UCX, "parameters": {"verbs": True, "rc": False}}], "without rc,"),
    ],
)
def test_what_is_missing_and_where_to_set_it(specs, words):
    said = lacking(specs, HERE)
    assert words in said
    assert "machines/m.yaml" in said
