"""A packed run (a crate), and made keys for its signature."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nimc.crate.archive import MANIFEST, make_zip, manifest
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run
from tests.in_process import call
from tests.nimc.nimc_without_figures import render

AUTHORS = ("--author", "Muster, Eva", "--author", "A centre")


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a synthetic run of two cases. Its crate, a zip file, is beside it."""
    run_samples = [*samples(STREAM, pairs=8), *samples(LAMMPS, pairs=8)]
    run = write_run(
        tmp_path_factory.mktemp("packed") / "synthetic-run", run_samples, header(commit="0a" * 20)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.page.render", render)
        status, _, err = call(["pack", run, *AUTHORS])
    assert status == 0, err
    return run


@pytest.fixture
def run(packed: Path, tmp_path: Path) -> Path:
    """Returns a copy of the run."""
    return Path(shutil.copytree(packed, tmp_path / "results" / packed.name))


@pytest.fixture
def crate(packed: Path, run: Path) -> Path:
    """Returns a copy of the crate, beside the copy of the run."""
    return Path(shutil.copy(packed.with_suffix(".zip"), run.parent))


def reseal(crate: Path, files: dict[str, bytes]) -> None:
    """Write a crate with these files and a matching manifest."""
    crate.write_bytes(make_zip({**files, MANIFEST: manifest(files)}))


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Omit the report's figures, which take most of the time of packing."""
    monkeypatch.setattr("analysis.report.page.render", render)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Returns a key without a passphrase. A file of allowed signers has it as `ann@site`."""
    path = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, env={**os.environ, "HOME": str(tmp_path)})
    public = path.with_suffix(".pub").read_text()
    (tmp_path / "allowed").write_text(f'ann@site namespaces="nimc" {public}')
    return path
