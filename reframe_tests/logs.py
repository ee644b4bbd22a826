"""ReFrame's logging section for every configuration."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Progress goes to standard output, which `nimc run` stores with the block's logs. Figures go to
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


# Remove the log that ReFrame opens in the temporary folder before it reads a configuration. Other
# programs read a configuration without ReFrame, and have no such log.
if _logging := sys.modules.get("reframe.core.logging"):
    with suppress(AttributeError):  # another program imported it, and no log is open
        for _name in _logging.log_files():
            Path(_name).unlink(missing_ok=True)
