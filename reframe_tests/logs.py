"""ReFrame's logging section for every configuration."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from reframe.core.logging import log_files

#: Progress goes to the terminal, which `nimc run` stores with the block's logs; figures go to
#: `perflogs/`.
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


# Remove the log that ReFrame opens in the temporary folder before it reads a configuration.
with suppress(AttributeError):  # imported by a program that is not ReFrame and has no log
    for _name in log_files():
        Path(_name).unlink(missing_ok=True)
