"""Versions as programs tell them, in answers seen of each."""

import pytest

from nimc.machine import program as versions

#: perftest 6.06, Open MPI 4.1.4, MPICH 5.0.2 and Slurm 22.05.8, of Debian 12 and the wheels.
ANSWERS = {
    "ib_write_bw": ("Version: 6.06\n", "Version: 6.06"),
    "mpirun": (
        "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
        "mpirun (Open MPI) 4.1.4",
    ),
    "mpiexec": (
        "HYDRA build details:\n    Version:                                 5.0.2\n"
        "    Release Date:                            Fri Sep 25 20:45:26 UTC 2026\n",
        "Version: 5.0.2",
    ),
    "srun": ("slurm-wlm 22.05.8\n", "slurm-wlm 22.05.8"),
}


def program(folder, name, answer, status):
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}END\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_programs(tmp_path, name):
    answer, version = ANSWERS[name]
    path = program(tmp_path, name, answer, 1 if name == "ib_write_bw" else 0)
    assert versions.version_of(str(path)) == version


def test_programs_without_a_version_are_left_out(tmp_path, monkeypatch):
    program(tmp_path, "srun", "srun: error: no answer from 10.1.0.2:6817\n", 1)
    program(tmp_path, "mpirun", "mpirun (Open MPI) 4.1.4\n", 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(versions, "WHEELS", ("click", "no-such-wheel"))
    found = versions.detect_versions()
    assert found["mpirun"] == "mpirun (Open MPI) 4.1.4"
    assert "srun" not in found
    assert found["wheel click"][0].isdigit()
    assert "wheel no-such-wheel" not in found
    assert versions.version_of("") is None
