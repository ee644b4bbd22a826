"""ReFrame's logging section for every configuration."""

from __future__ import annotations

from typing import Any

#: Progress goes to the terminal, which `nimc run` stores with the block's logs; figures go to
#: `perflogs/`. ReFrame's default would leave a file per session in the temporary folder.
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
