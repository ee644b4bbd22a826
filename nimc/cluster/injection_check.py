"""The ReFrame test that `nimc inject` runs if it is started outside an allocation of Slurm.

ReFrame submits a job with the options of the machine's configuration. The job starts the conductor,
which starts the writers and the user's command.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from nimc.cluster.ended_job import ended_job_reason
from records.checkout import python_main
from records.files import refresh
from records.machine.site import Origins
from records.slurm import options
from reframe_tests.submission import submit_as_written


@rfm.simple_test
class Injection(rfm.RunOnlyRegressionTest):
    """Job with writers from origins to targets, and with a command on the first target."""

    descr = "writers beside a command"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks_per_node = 1
    #: The section `origins` of a site file, as JSON.
    origins = variable(str)
    #: Number of target nodes.
    num_targets = variable(int)
    #: Names of the nodes for the job's first component, joined with commas; empty: any nodes.
    nodelist = variable(str)
    #: File with the request to the conductor (`conductor.block.injection.InjectionRequest`).
    request_file = variable(str)
    #: File that the conductor writes when it ends.
    end_file = variable(str)

    @run_before("run")
    def start_conductor(self) -> None:
        """Set the job's options and command, so that it starts the conductor on its first node."""
        origins = Origins.model_validate_json(self.origins)
        same_job = origins.policy == "same_job"
        self.num_tasks = self.num_targets + (origins.nodes if same_job else 0)
        submit_as_written(self)
        self.job.options += options.job_options(origins, nodelist=self.nodelist)
        self.env_vars |= options.STEP_ENVIRONMENT
        self.job.launcher = getlauncher("local")()
        conductor = python_main("conductor.block.injection", self.request_file)
        self.executable, *self.executable_opts = map(shlex.quote, conductor)

    @sanity_function
    def conductor_ended(self) -> bool:
        """Check that the conductor has ended. If not, raise SanityError with the job's reason."""
        refresh(Path(self.end_file).parent)
        if not Path(self.end_file).exists():
            raise SanityError(ended_job_reason(self))
        return True
