"""The ReFrame test that inspects nodes for `nimc doctor --in-job` and `nimc init`.

The nodes are a target, which runs the application, and its origins, which run only writers. With
the policy `same_host`, one node is both. ReFrame submits the job with the options of the machine's
configuration.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before, sanity_function, variable
from reframe.core.exceptions import SanityError

from nimc.cluster.ended_job import ended_job_reason
from nimc.cluster.node_inspection import JOB_STATE
from records.checkout import python_main
from records.files import replace_text
from records.machine.site import Origins
from records.slurm import options
from reframe_tests.submission import submit_as_written


@rfm.simple_test
class NodeInspection(rfm.RunOnlyRegressionTest):
    """Job with one task per node. Each task writes the facts of its node to a folder."""

    descr = "what a target and its origins have"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks_per_node = 1
    #: The section `origins` of the site file, as JSON.
    origins = variable(str)
    #: Value of Slurm's option `--network` for agents; may be empty.
    network = variable(str)
    #: `device` of the site file; may be empty.
    device = variable(str)
    #: `interface` of the site file; may be empty.
    interface = variable(str)
    #: Folder to which the nodes write their facts.
    folder = variable(str)
    #: Folder in which ReFrame stages if users start it without nimc. Each node reports whether it
    #: sees this folder.
    stage = variable(str)
    #: File with the plan of the writes that are tried after the inspection; empty: no writes.
    trial_plan = variable(str, value="")

    @run_before("run")
    def start_on_all_nodes(self) -> None:
        """Set the job's options and commands, so that it starts the tasks and then tries writes.

        The tasks are started in the same way as agents, which start writers on nodes.
        """
        origins = Origins.model_validate_json(self.origins)
        one_host = origins.policy == "same_host"
        self.nodes = 1 + origins.separate_nodes
        self.num_tasks = self.nodes if origins.policy == "same_job" else 1
        submit_as_written(self)
        self.job.options += options.job_options(origins)
        self.env_vars |= options.STEP_ENVIRONMENT
        template = [] if one_host else options.agent_launcher(origins, self.network)
        launcher = [word.format(n_nodes=self.nodes) for word in template]
        arguments = self.folder, self.device, self.interface, self.stage
        command = python_main("nimc.cluster.node_inspection", *arguments)
        self.job.launcher = getlauncher("local")()
        self.executable, *self.executable_opts = map(shlex.quote, [*launcher, *command])
        if self.trial_plan:
            self.postrun_cmds = [shlex.join(python_main("conductor.block.trial", self.trial_plan))]

    @sanity_function
    def all_nodes_answered(self) -> bool:
        """Check that every node has answered, and store the job's state.

        If a node has not, raises SanityError, which says how the job ended.
        """
        replace_text(Path(self.folder, JOB_STATE), str(self.job.state))
        answers = len(list(Path(self.folder).glob("[0-9]*.json")))
        if answers < self.nodes:
            raise SanityError(f"{answers} of {self.nodes} nodes answered; {ended_job_reason(self)}")
        return True
