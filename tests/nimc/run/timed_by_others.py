"""A third-party check. Its runs take long enough to be stopped within them."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function

from reframe_tests.mixin import NimcMixin

# ruff: noqa: RUF012 - the body of a check is ReFrame's own language.


class timed(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh"
    executable_opts = ["-c", "'sleep 0.3; echo step 2.5'"]

    @sanity_function
    def ends_well(self):
        return sn.assert_found("step", self.stdout)

    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


@rfm.simple_test
class theirs(timed, NimcMixin):
    pass
