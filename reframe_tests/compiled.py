"""A check that compiles its own sources: any environment with a C compiler will do."""

from __future__ import annotations

import reframe as rfm
from reframe.core.builtins import run_after
from reframe.core.environments import Environment


class CompiledMixin(rfm.RegressionTestPlugin):
    """Runs wherever the settings name a C compiler (`cc` of the environment)."""

    #: Environments of a check that names none.
    wanted_environs = ("*",)

    @run_after("setup")
    def require_compiler(self) -> None:
        """Skip in an environment without a C compiler."""
        if not self.runs_in(self.current_environ):
            self.skip(f"environment {self.current_environ.name} has no C compiler: 'cc' is empty")

    def runs_in(self, environ: Environment) -> bool:
        """Whether an environment can compile."""
        return bool(environ.cc)
