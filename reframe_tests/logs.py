"""ReFrame's logging section for every configuration."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

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


# Remove the log that ReFrame opens in the temporary folder before it reads a configuration. Another
# program that reads one has not loaded ReFrame, which takes 0.4 s, and has no log.
if _logging := sys.modules.get("reframe.core.logging"):
    with suppress(AttributeError):  # loaded by a program that is not ReFrame
        for _name in _logging.log_files():
            Path(_name).unlink(missing_ok=True)
