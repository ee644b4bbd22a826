"""Campaign files: what is refused, where, and what the user reads."""

import pytest

from tests.nimc.campaign.campaign_files import faults, load

SMALL = """\
name: small
workloads:
  - check: stream
arms: [off, on]
"""


def test_defaults_are_the_documented_ones_and_quantities_become_si(tmp_path):
    campaign = load(tmp_path, SMALL)
    assert campaign.arms == ["off", "on"]
    assert campaign.workloads[0].name == "stream"
    assert (campaign.pairs.floor, campaign.pairs.maximum) == (8, 24)
    assert campaign.pairs.precision is None
    assert (campaign.verify.min_share, campaign.verify.retries) == (None, 2)
    assert campaign.run_timeout == 3600.0
    text = SMALL.replace("check: stream", "{check: lammps, case: melt, expect: 2min}")
    campaign = load(tmp_path, f"{text}run_timeout: 1.5h\npairs: {{floor: 6, precision: 2%}}\n")
    assert (campaign.workloads[0].expect, campaign.run_timeout) == (120.0, 5400.0)
    assert campaign.pairs.precision == 0.02


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("sed: 1", "sed: unknown key 'sed', did you mean 'seed'?; allowed: arms,"),
        ("pairs: {floor: 5}", "pairs.floor: 5 found; allowed: a whole number from 6"),
        ("pairs: {floor: 10, cap: 8}", "pairs.cap: 8 is below pairs.floor; allowed:"),
        ("pairs: {precision: 1}", "pairs.precision: 1 found; allowed: a number between"),
        ("run_timeout: 30", "run_timeout: '30' is not a duration; write a number and"),
        ("run_timeout: 0s", "run_timeout: '0s' found; allowed: a length of time with"),
        ("verify: {retries: '3'}", "verify.retries: '3' found; allowed: a whole number"),
        ("verify: 3", "verify: 3 found; allowed: a mapping"),
        ("seed: true", "seed: true found; allowed: a whole number from 0"),
        ("name: other", "duplicate key 'name', first in line 1"),
        ("injector: {message: 64}", "injector.message: '64' is not a size;"),
        ("injector: {rate: 500MB}", "injector.rate: '500MB' is not a rate;"),
        ("injector: {name: verbs}", "injector.name: 'verbs' found;"),
        (
            "injector: {name: ib_write_bw}",
            "injector.name: 'ib_write_bw' found, did you mean 'perftest'?; allowed: auto ",
        ),
        ("injector: {name: perftst}", "injector.name: 'perftst' found, did you mean 'perftest'?"),
    ],
)
def test_a_fault_is_reported_with_its_line_and_what_is_allowed(tmp_path, added, expected):
    (line,) = faults(tmp_path, f"{SMALL}{added}\n")
    assert line.startswith(f"c.yaml:5: {expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SMALL.replace("off, on", "on, spin"), ["4: arms: 'off' and another arm are needed; allo"]),
        (SMALL.replace("off, on", "off"), ["4: arms: 'off' and another arm are needed; allowed: "]),
        (SMALL.replace("off, on", "off, on, on"), ["4: arms: duplicate arm 'on'; allowed: "]),
        (SMALL.replace("off, on", "off, onn"), ["4: arms: unknown arm 'onn'"]),
        (SMALL.replace("name: small", "name: ../up"), ["1: name: '../up' found; allowed: "]),
        # A file that is no mapping.
        *((text, ["1: "]) for text in ("", "- a\n", "word\n", "3\n", "~\n")),
        # All at once.
        (
            """\
name: small
arms: [off, on]
workloads:
  - check: stream
    set: {iteration: 3}
  - check: straem
  - check: stream
  - {check: lammps, case: stream, set: {steps: 5}}
""",
            [
                "5: workloads[0].set.iteration: unknown variable 'iteration', did you mean 'itera",
                "6: workloads[1].check: unknown workload 'straem', did you mean 'stream'?;",
                "7: workloads[2].case: duplicate case name 'stream'; allowed: another",
                "8: workloads[3].case: duplicate case name 'stream'; allowed: another",
            ],
        ),
        ("name: small\nworkloads: []\n", ["2: workloads: a list found;"]),
    ],
)
def test_every_fault_is_reported(tmp_path, text, expected):
    lines = faults(tmp_path, text)
    for line, begin in zip(lines, expected, strict=True):
        assert line.startswith(f"c.yaml:{begin}")
    assert ("; a campaign is a mapping of name, title," in lines[0]) == (expected == ["1: "])


def test_many_faults_are_cut_short(tmp_path):
    lines = faults(tmp_path, SMALL + "".join(f"x{i}: 1\n" for i in range(30)))
    assert (len(lines), lines[-1]) == (11, "c.yaml: 20 more errors")
