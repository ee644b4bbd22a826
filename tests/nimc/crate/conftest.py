"""A packed run, and keys made for the tests."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A synthetic run of two cases in a chain."""
    made = [*samples(STREAM, pairs=8), *samples(LAMMPS, pairs=8)]
    return write_run(tmp_path / "results" / "synthetic-run", made, header())


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key without a passphrase, and a file of allowed signers that has it as `ann@site`."""
    path = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, env={**os.environ, "HOME": str(tmp_path)})
    public = path.with_suffix(".pub").read_text()
    (tmp_path / "allowed").write_text(f'ann@site namespaces="nimc" {public}')
    return path
