"""What every configuration tells ReFrame of logs."""

from __future__ import annotations

from typing import Any

#: ReFrame's `logging` section: what happens to the terminal, which `nimc run` keeps with the
#: block's logs, and figures to `perflogs/`. ReFrame's own default leaves a file of each session in
#: the folder for temporary files.
LOGGING: list[dict[str, Any]] = [
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
]
