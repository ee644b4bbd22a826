"""ReFrame on this host: its local scheduler, and binaries from wheels and PATH."""

import sys
from pathlib import Path

BIN = Path(sys.executable).parent

site_configuration = {
    "systems": [
        {
            "name": "localhost",
            "descr": "this host; origin and target share it",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "default",
                    "scheduler": "local",
                    "launcher": "mpiexec",
                    "environs": ["wheels", "spack"],
                    "max_jobs": 1,
                    "env_vars": [["PATH", f"{BIN}:$PATH"]],
                }
            ],
        }
    ],
    "environments": [
        {
            "name": "wheels",
            "cc": "cc",
            "cxx": "c++",
            "ftn": "",
            "features": ["wheels"],
            "target_systems": ["*"],
        },
        {
            "name": "spack",
            "cc": "cc",
            "cxx": "c++",
            "ftn": "",
            "features": ["spack"],
            "target_systems": ["*"],
        },
    ],
    "general": [{"resolve_module_conflicts": False, "remote_detect": False}],
    "logging": [
        {
            "handlers": [
                {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"}
            ],
            "handlers_perflog": [
                {
                    "type": "filelog",
                    "prefix": "%(check_system)s/%(check_partition)s",
                    "level": "info",
                    "format": "%(check_job_completion_time)s|%(check_info)s|%(check_result)s"
                    "|%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|",
                    "append": True,
                }
            ],
        }
    ],
}
