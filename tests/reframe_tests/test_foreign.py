"""Checks of others under the mixin: what each run's own output says, and what is refused.

The outputs are written here, figures by hand; ReFrame sets the checks up as it does for a run.
"""

# ruff: noqa: RUF012 - the body of a check is ReFrame's own language.
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core import runtime
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_before,
    sanity_function,
    variable,
)
from reframe.core.exceptions import ReframeError

from analysis.checkout import ROOT
from injection.conductor import UNREAD
from reframe_tests import foreign
from reframe_tests.mixin import NimcMixin
from reframe_tests.own_figure import direction, si, suffixed
from tests.injection.test_store import SAMPLE
from tests.undisturbed import VARIABLES

#: A run whose figure of merit the check has yet to read.
UNREAD_SAMPLE = replace(
    SAMPLE, case="case", workload="case", fom=None, fom_unit="", fom_better="lower"
)


class timed(rfm.RunOnlyRegressionTest):
    """What somebody else wrote: nothing of it knows of the mixin."""

    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
    executable = "true"

    @sanity_function
    def ends_well(self):
        return sn.assert_found("all is well", self.stdout)

    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)

    @performance_function("MB/s")
    def copy(self):
        return sn.extractsingle(r"copy (\S+)", self.stdout, 1, float)


class victim(timed, NimcMixin):
    pass


class constant(timed, NimcMixin):
    @performance_function("ms")
    def step(self):
        return 3.0


class from_a_file(timed, NimcMixin):
    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", "result.txt", 1, float)


class accepts_all(timed, NimcMixin):
    @sanity_function
    def ends_well(self):
        return sn.assert_true(True)


class reads_the_error_output(timed, NimcMixin):
    @sanity_function
    def ends_well(self):
        return sn.assert_not_found("warning", self.stderr)


class with_path(timed, NimcMixin):
    @sanity_function
    def ends_well(self):
        return sn.assert_found("all is well", f"{self.stagedir}/{self.stdout}")


class in_furlongs(timed, NimcMixin):
    @performance_function("furlongs")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


class old_syntax(rfm.RunOnlyRegressionTest):
    """Patterns set by hooks, the unit in the reference, as excalibur-tests have it."""

    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
    executable = "true"
    reference = {"*": {"flops": (8.0, -0.2, None, "Gflops/seconds")}}

    @run_before("sanity")
    def set_sanity_patterns(self):
        self.sanity_patterns = sn.assert_found("all is well", self.stdout)

    @run_before("performance")
    def set_perf_patterns(self):
        self.perf_patterns = {"flops": sn.extractsingle(r"step (\S+)", self.stdout, 1, float)}


class old_victim(old_syntax, NimcMixin):
    pass


class late(timed):
    """Evaluates in a hook what it finds in the output."""

    @run_before("performance")
    def set_perf_vars(self):
        found = sn.extractsingle(r"step (\S+)", self.stdout, 1, float).evaluate()
        self.perf_variables = {"late": sn.make_performance_function(lambda: found, "us")}


class late_victim(late, NimcMixin):
    pass


@rfm.xfail("a known failure")
class fails_as_expected(timed, NimcMixin):
    pass


class swept(timed, NimcMixin):
    threads = parameter([1, 2])


class compiles_only(rfm.CompileOnlyRegressionTest, NimcMixin):
    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]


class has_our_hook(timed):
    @run_before("run")
    def learn_machine(self):
        pass


class has_our_hook_too(has_our_hook, NimcMixin):
    pass


class has_our_variable(timed):
    message = variable(str, value="")


class contained(timed, NimcMixin):
    @run_before("run")
    def choose_image(self):
        self.container_platform = "Docker"
        self.container_platform.image = "image"
        self.container_platform.command = "true"


class any_number(timed, NimcMixin):
    num_tasks = 0


class mixin_first(NimcMixin, timed):
    pass


@pytest.fixture
def reframe(tmp_path):
    """Makes a check and sets it up, its folders under tmp_path; other variables as named."""
    options = {"systems/prefix": str(tmp_path)}
    with runtime.temp_runtime(f"{ROOT}/configs/localhost.py", options=options):
        partition = runtime.runtime().system.partitions[0]
        environ = next(each for each in partition.environs if each.name == "wheels")

        def make(cls: type, variant: int = 0, **variables: Any) -> Any:
            check = cls(variant_num=variant) if cls.num_variants > 1 else cls()
            for name, value in variables.items():
                setattr(check, name, value)
            check.setup(partition, environ)
            return check

        yield make


def read(check: Any, tmp_path: Path, *outputs: str, errors: str = "") -> list[dict[str, Any]]:
    """Samples of a block whose runs printed `outputs`; an empty one stands for a rejected run."""
    check.put_conductor()
    check.take_patterns()
    logs = tmp_path / "logs"
    logs.mkdir()
    with (logs / UNREAD).open("w") as unread:
        for pair, output in enumerate(outputs):
            sample = replace(UNREAD_SAMPLE, pair=pair, outcome="kept" if output else "rejected")
            print(json.dumps(sample.as_dict()), file=unread)
            (logs / f"{pair}-off-0.out").write_text(output)
            (logs / f"{pair}-off-0.err").write_text(errors)
    foreign.read_block(check._own, tmp_path / "run", "case", logs)
    assert not (logs / UNREAD).exists()
    text = (tmp_path / "run/samples/case.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


GOOD = "step 2.5\ncopy 40\nall is well\n"


def test_each_run_is_read_from_its_own_output(reframe, tmp_path):
    other = "step 4\ncopy 20\nall is well\n"
    first, second = read(reframe(victim), tmp_path, GOOD, other)
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (0.0025, "s", "lower")
    assert second["fom"] == 0.004
    assert first["fom_extra"] == {"copy_b_s": 40e6}
    assert second["fom_extra"] == {"copy_b_s": 20e6}
    (note,) = first["notes"]
    assert "step of check victim, lower is better (by its unit alone); the first of 2" in note


def test_a_run_that_fails_the_sanity_of_the_check_has_no_figure(reframe, tmp_path):
    good, wrong, without = read(reframe(victim), tmp_path, GOOD, "step 2\n", "all is well\n")
    assert good["outcome"] == "kept"
    assert (wrong["outcome"], wrong["fom"]) == ("no_fom", None)
    assert wrong["reason"].startswith("sanity: pattern 'all is well' not found")
    assert (without["outcome"], without["fom"]) == ("no_fom", None)
    assert without["reason"].startswith("step: ")


@pytest.mark.parametrize("figure", ["0", "-1", "inf", "nan"])
def test_a_figure_that_is_no_positive_number_is_none(reframe, tmp_path, figure):
    (sample,) = read(reframe(victim), tmp_path, f"step {figure}\nall is well\n")
    assert (sample["outcome"], sample["fom"]) == ("no_fom", None)


def test_a_rejected_run_stays_so_and_has_the_unit_of_its_case(reframe, tmp_path):
    rejected, kept = read(reframe(victim, figure="copy"), tmp_path, "", GOOD)
    assert (rejected["outcome"], rejected["fom"]) == ("rejected", None)
    for sample in (rejected, kept):
        assert (sample["fom_unit"], sample["fom_better"]) == ("B/s", "higher")


def test_an_output_that_is_named_by_the_stage_folder_is_found(reframe, tmp_path):
    assert read(reframe(with_path), tmp_path, GOOD)[0]["fom"] == 0.0025


def test_a_check_may_read_the_error_output(reframe, tmp_path):
    (sample,) = read(reframe(reads_the_error_output), tmp_path, GOOD, errors="warning")
    assert sample["outcome"] == "no_fom"


def test_patterns_and_units_of_hooks_and_references_are_taken_for_each_run(reframe, tmp_path):
    first, second = read(reframe(old_victim), tmp_path, GOOD, "step 3\n")
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (2.5e9, "flop/s", "higher")
    assert "by the check's reference" in first["notes"][0]
    assert second["reason"].startswith("sanity: ")


def test_hooks_that_evaluate_at_once_run_for_each_output(reframe, tmp_path):
    outputs = [GOOD, GOOD.replace("2.5", "5")]
    samples = read(reframe(late_victim), tmp_path, *outputs)
    assert [each["fom"] for each in samples] == pytest.approx([2.5e-6, 5e-6])


@pytest.mark.parametrize("cls", [victim, old_victim, late_victim, fails_as_expected])
def test_reframes_own_stages_leave_the_functions_of_the_check_alone(reframe, cls):
    check = reframe(cls)
    outputs = check.job.stdout, check.job.stderr
    check.put_conductor()
    assert (check.job.stdout, check.job.stderr) == outputs
    assert not hasattr(check, "sanity_patterns")
    check.is_dry_run = lambda: True
    check.sanity()  # refuses two kinds of patterns, and would evaluate those of the output at once
    check.performance()
    assert check.perf_variables == {}
    assert check.__rfm_xfail_sanity__() == (False, "")


def test_a_figure_that_is_a_constant_is_refused_before_anything_runs(reframe):
    with pytest.raises(ReframeError, match="step does not come from the standard output"):
        reframe(constant).put_conductor()


def test_a_figure_of_a_file_is_none_of_any_run(reframe, tmp_path):
    check = reframe(from_a_file)
    check.put_conductor()
    Path(check.stagedir, "result.txt").write_text("step 7\n")  # left by the last run
    check._own.prove = lambda: None
    check.put_conductor = lambda: None
    (sample,) = read(check, tmp_path, GOOD)
    assert (sample["outcome"], sample["fom"]) == ("no_fom", None)
    assert "step does not come from the standard output of a run" in sample["reason"]


def test_a_sanity_that_accepts_an_empty_output_stands_beside_the_figure(reframe, tmp_path):
    (sample,) = read(reframe(accepts_all), tmp_path, GOOD)
    assert sample["fom"] == 0.0025
    assert any("answers are not proven right" in note for note in sample["notes"])


@pytest.mark.parametrize(
    ("reference", "asked", "unit", "better"),
    [
        ((10, -0.1, None, "s"), "", "s", "higher"),
        ((10, None, 0.1, "x/s"), "", "x/s", "lower"),
        ((10, -0.1, 0.1, "s"), "", "s", "lower"),
        ((0, None, None, "x/s"), "", "x/s", "higher"),
        ((10, None, 0.1, "x"), "higher", "x", "higher"),
        (None, "lower", "x", "lower"),
    ],
)
def test_direction_is_as_asked_then_by_reference_then_by_unit(reference, asked, unit, better):
    assert direction(reference, asked, unit)[0] == better


def test_nothing_says_the_direction_of_an_unknown_unit():
    with pytest.raises(ValueError, match=r"^$"):
        direction((10, -0.1, 0.1, None), "", "furlongs")


@pytest.mark.parametrize(
    ("cls", "variables", "message"),
    [
        (in_furlongs, {}, "in_furlongs.better: whether step in 'furlongs' is better lower"),
        (victim, {"figure": "triad"}, "victim.figure: 'triad' found; allowed: step, copy"),
        (contained, {}, "contained.container_platform: containers cannot be measured"),
        (victim, {"factors": "reserved_cores=0,1"}, "victim.factors: reserved_cores: figures of"),
        (any_number, {}, "any_number.num_tasks: 0 found; allowed: from 1"),
        (mixin_first, {}, "mixin_first: no sanity function; write class x"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_runs(reframe, cls, variables, message):
    check = reframe(cls, **variables)
    if cls is contained:
        check.choose_image()
    with pytest.raises(ReframeError, match=message):
        check.put_conductor()


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (compiles_only, "runs nothing"),
        (has_our_hook_too, "has_our_hook.learn_machine: the mixin has a method of this name"),
    ],
)
@pytest.mark.usefixtures("reframe")
def test_what_no_mixin_can_help_is_refused_at_once(cls, message):
    with pytest.raises(ReframeError, match=message):
        cls()


def test_a_variable_of_our_name_is_refused_by_name():
    with pytest.raises(ReframeError, match="cannot inherit variable 'message'"):

        class both(has_our_variable, NimcMixin):
            pass


def test_the_time_limit_is_that_of_each_run(reframe):
    check = reframe(victim, time_limit="3m")
    check.put_conductor()
    plan = json.loads(Path(check.stagedir, "plan.json").read_text())
    assert plan["demand"]["run_timeout_s"] == 180
    assert check.time_limit is None


def test_parameters_make_cases_of_their_own(reframe):
    cases = {reframe(swept, variant).case for variant in range(2)}
    assert cases == {"swept_threads=1", "swept_threads=2"}


def test_a_line_for_the_shell_stays_one():
    assert foreign.command(["mpiexec", "-n", "2"], "lmp -in in.lj") == [
        *("mpiexec", "-n", "2"),
        *("lmp", "-in", "in.lj"),
    ]
    both = foreign.command(["env"], "echo one && echo $TWO")
    done = subprocess.run(both, env={**os.environ, "TWO": "2"}, capture_output=True, text=True)
    assert done.stdout.split() == ["one", "2"]


def test_sources_lie_beside_the_file_of_the_check(tmp_path):
    path = tmp_path / "theirs.py"
    path.write_text("import reframe as rfm\nclass theirs(rfm.RunOnlyRegressionTest): pass\n")
    spec = importlib.util.spec_from_file_location("theirs", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["theirs"] = module
    spec.loader.exec_module(module)

    class mine(module.theirs, NimcMixin):
        pass

    assert mine._rfm_prefix == str(tmp_path)
    assert victim._rfm_prefix == str(Path(__file__).parent)


@pytest.mark.parametrize(
    ("unit", "factor", "si_unit"),
    [
        ("us", 1e-6, "s"),
        ("seconds", 1, "s"),
        ("usec", 1e-6, "s"),
        ("MB/s", 1e6, "B/s"),
        ("MBytes/sec", 1e6, "B/s"),
        ("GiB/s", 2**30, "B/s"),
        ("Gbit/s", 1e9 / 8, "B/s"),
        ("byte", 1, "B"),
        ("Gflops/seconds", 1e9, "flop/s"),
        ("GFLOPS/s", 1e9, "flop/s"),
        ("GFLOPS", 1, "GFLOPS"),
        ("timesteps/s", 1, "timesteps/s"),
        ("ns/day", 1, "ns/day"),
        ("Flops/byte", 1, "Flops/B"),
    ],
)
def test_units_as_checks_write_them(unit, factor, si_unit):
    assert si(unit) == (factor, si_unit)


def test_names_end_in_their_unit_once():
    assert suffixed("copy", "B/s") == "copy_b_s"
    assert suffixed("time_s", "s") == "time_s"
    assert suffixed("perf", "timesteps/s") == "perf"


TRIAL = """
import sys
sys.path.insert(0, "{tutorial}")
import reframe as rfm
from stream_build_run import stream_build_test
from reframe_tests.mixin import NimcMixin

@rfm.simple_test
class contended(stream_build_test, NimcMixin):
    valid_prog_environs = ["wheels"]
"""


@pytest.mark.slow
def test_the_stream_of_reframes_tutorial_has_a_slowdown(tmp_path):
    tutorial = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream"
    (tmp_path / "mine.py").write_text(TRIAL.format(tutorial=tutorial))
    # The tutorial's environment names the compiler's flag for OpenMP.
    (tmp_path / "settings.py").write_text(
        "from configs import localhost\n"
        "site_configuration = localhost.site_configuration\n"
        "site_configuration['environments'][0]['extras'] = {'omp_flag': '-fopenmp'}\n"
    )
    settings = ["pairs=2", "warmups=0", "arms=off,on", "min_share=0.01", f"nimc_dir={tmp_path}/run"]
    settings += [f"{name}={value}" for name, value in VARIABLES.items()]
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "reframe"), "-C", "settings.py"),
            *("--prefix", str(tmp_path), "-c", "mine.py", "-r"),
            *(word for each in settings for word in ("-S", each)),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "run/samples/contended.jsonl").read_text().splitlines()
    kept = [each for each in map(json.loads, lines) if each["outcome"] == "kept"]
    assert {each["arm"] for each in kept} == {"off", "on"}
    for each in kept:
        (out,) = (tmp_path / "run/logs/contended/0").glob(
            f"{each['pair']}-{each['arm']}-{each['attempt']}.out"
        )
        # The column that STREAM calls `Best Rate MB/s`, of the run's own output.
        (line,) = [line for line in out.read_text().splitlines() if line.startswith("Copy:")]
        assert each["fom"] == pytest.approx(float(line.split()[1]) * 1e6)
