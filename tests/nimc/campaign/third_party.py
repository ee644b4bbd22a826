"""Checks that another site may have written, and subclasses with nimc's mixin."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    fixture,
    parameter,
    performance_function,
    sanity_function,
    variable,
)

from reframe_tests.mixin import NimcMixin

# ruff: noqa: RUF012 - the body of a check is ReFrame's own language.


class fetched(rfm.RunOnlyRegressionTest):
    """A fixture with variants."""

    version = parameter(["1.0", "2.0"])
    executable = "true"

    @sanity_function
    def is_there(self):
        return True


class lj(rfm.RunOnlyRegressionTest):
    """A check without any part of nimc."""

    valid_systems = ["daint:mc"]
    valid_prog_environs = ["PrgEnv-gnu", "wheels"]
    atoms = parameter([1000, 32000])
    source = fixture(fetched, scope="session")
    steps = variable(int, value=10)
    executable = "echo"
    executable_opts = ["step 2.5"]

    @sanity_function
    def ended(self):
        return sn.assert_found("step", self.stdout)

    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


class every(lj, NimcMixin):
    """A check with four variants."""

    valid_systems = ["*"]


@rfm.simple_test
class melt(every):
    """One of the four variants."""

    valid_prog_environs = ["wheels"]
    atoms = parameter([1000])
    source = fixture(fetched, scope="session", variants={"version": lambda v: v == "2.0"})


@rfm.simple_test
class plain(melt):
    pass


class stream(plain):
    """A check with the name of a workload of the project."""


class elsewhere(plain):
    """A check for none of the project's machines."""

    valid_systems = ["daint:mc"]


class unverified_base(rfm.RunOnlyRegressionTest):
    executable = "true"

    @performance_function("ms")
    def step(self):
        return sn.extractsingle(r"step (\S+)", self.stdout, 1, float)


class unverified(unverified_base, NimcMixin):
    """A check without a sanity function."""

    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
