"""Tests of third-party checks that NimcMixin refuses, and of settings that it takes from others."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reframe.core.exceptions import ReframeError

from reframe_tests import third_party
from reframe_tests.mixin import NimcMixin
from tests.reframe_tests.third_party.checks import (
    compiles_only,
    contained,
    has_our_method,
    has_our_variable,
    hooked_without_sanity,
    in_furlongs,
    inherits_our_method,
    misspelled,
    swept,
    victim,
    without_figure,
    without_sanity,
)


@pytest.mark.parametrize(
    ("cls", "variables", "message"),
    [
        (in_furlongs, {}, "in_furlongs.better: .* lower or a higher step in 'furlongs'"),
        (victim, {"figure": "triad"}, "victim.figure: 'triad' found; allowed: step, copy"),
        (contained, {}, "contained.container_platform: containers cannot be measured"),
        (
            victim,
            {"factors": "{reserved_cores: [0, 1]}"},
            "^reserved_cores: figures of merit of different numbers of cores cannot",
        ),
        (victim, {"num_tasks": 0}, "victim.num_tasks: 0 found; allowed: from 1"),
        (hooked_without_sanity, {}, "hooked_without_sanity: has no sanity function"),
    ],
)
def test_a_check_that_cannot_be_measured_is_refused_before_it_runs(
    reframe, cls, variables, message
):
    check = reframe(cls, **variables)
    if cls is contained:
        check.choose_image()
    with pytest.raises(ReframeError, match=message):
        check.start_conductor()


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (compiles_only, "compiles_only: runs nothing"),
        (misspelled, "misspelled.workload: straem found; allowed: .*stream"),
        (without_sanity, "without_sanity: has no sanity function"),
        (without_figure, "without_figure: has no performance function"),
    ],
)
def test_a_check_that_reads_no_output_fails_at_its_setup(reframe, cls, message):
    """After a fault in a hook of `init`, ReFrame would run no check, and its session would pass."""
    cls()
    with pytest.raises(ReframeError, match=message):
        reframe(cls)


def test_parameters_and_time_limit_of_a_check_are_used(reframe):
    # Each value of a parameter is a case. The time limit of the check becomes that of each run.
    cases = {reframe(swept, variant).case for variant in range(2)}
    assert cases == {"swept_threads=1", "swept_threads=2"}
    check = reframe(victim, time_limit="3m", num_tasks=3)
    check.start_conductor()
    plan = json.loads(Path(check.stagedir, "plan.json").read_text())
    assert (plan["limits"]["run_timeout_s"], check.time_limit) == (180, None)
    assert {treatment["start"]["ranks_per_node"] for treatment in plan["treatments"]} == {3}


def test_a_variable_with_the_name_of_a_mixin_variable_is_refused():
    with pytest.raises(ReframeError, match="cannot inherit variable 'message'"):

        class Refused(has_our_variable, NimcMixin):
            pass


@pytest.mark.parametrize("base", [has_our_method, inherits_our_method])
def test_a_method_with_the_name_of_a_mixin_method_is_refused(base):
    message = f"^Refused: the method learn_machine of {base.__name__} would replace the mixin's;"
    with pytest.raises(ReframeError, match=message):

        class Refused(base, NimcMixin):
            pass

    # A user's class may override a method that the mixin offers for this purpose.
    class Allowed(victim):
        def runs_in(self, environ):
            return False


def test_an_executable_with_shell_syntax_is_run_by_a_shell():
    assert third_party.launch_words(["mpiexec", "-n", "2"], "lmp -in in.lj") == [
        "mpiexec",
        "-n",
        "2",
        "lmp",
        "-in",
        "in.lj",
    ]
    command = third_party.launch_words(["env"], "echo one && echo $TWO")
    done = subprocess.run(command, env={**os.environ, "TWO": "2"}, capture_output=True, text=True)
    assert done.stdout.split() == ["one", "2"]


def test_sources_are_searched_beside_the_file_of_the_third_party_check(tmp_path):
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
