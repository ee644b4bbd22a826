"""Checks like those of third parties, and classes that combine each check with NimcMixin."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)

from reframe_tests.mixin import NimcMixin

# ruff: noqa: RUF012 - the body of a check is ReFrame's own language.


class timed(rfm.RunOnlyRegressionTest):
    """A third-party check; it does not use the mixin."""

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


class by_its_options(timed, NimcMixin):
    executable_opts = ["step", "of"]

    @performance_function("ms")
    def step(self):
        name, *_ = self.executable_opts
        return sn.extractsingle(rf"{name} (\S+)", self.stdout, 1, float)

    @sanity_function
    def ends_well(self):
        words = sn.count(sn.findall("well", self.stdout))
        return sn.assert_eq(words, self.num_tasks * (len(self.executable_opts) - 1))


class in_furlongs(timed, NimcMixin):
    @performance_function("furlongs")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


class old_syntax(rfm.RunOnlyRegressionTest):
    """A check in an old style of ReFrame, which excalibur-tests use.

    Hooks set its patterns, and its reference has the unit.
    """

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
    """A check with a hook that reads the figure from the output at once."""

    @run_before("performance")
    def set_perf_vars(self):
        figure = sn.extractsingle(r"step (\S+)", self.stdout, 1, float).evaluate()
        self.perf_variables = {"late": sn.make_performance_function(lambda: figure, "us")}


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


class misspelled(rfm.RunOnlyRegressionTest, NimcMixin):
    workload = "straem"


class unverified(rfm.RunOnlyRegressionTest):
    """A check without a sanity function."""

    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
    executable = "true"

    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


class without_sanity(unverified, NimcMixin):
    pass


class without_figure(unverified, NimcMixin):
    @sanity_function
    def ends_well(self):
        return sn.assert_true(True)

    step = None


class without_sanity_in_a_hook(unverified):
    """A check with a hook, which may have set `sanity_patterns`."""

    @run_before("run")
    def choose_options(self):
        self.executable_opts = ["-v"]


class hooked_without_sanity(without_sanity_in_a_hook, NimcMixin):
    pass


class has_our_variable(timed):
    message = variable(str, value="")


class has_our_method(timed):
    @run_after("setup")
    def learn_machine(self):
        pass


class inherits_our_method(has_our_method):
    pass


class contained(timed, NimcMixin):
    @run_before("run")
    def choose_image(self):
        self.container_platform = "Docker"
        self.container_platform.image = "image"
        self.container_platform.command = "true"


class mixin_first(NimcMixin, timed):
    pass
