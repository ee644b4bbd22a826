"""The cases that could not be measured in the last session of a run, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from records.errors import InputError
from records.files import replace_text
from records.json_limits import read_json

#: File in a run's folder that stores the reasons. Since they hold paths of this host, it is not
#: packed.
_FILE = "failures.json"


def save_failures(run: Path, reasons: Mapping[str, str]) -> None:
    """Write case -> why it could not be measured; remove the file if there are no reasons."""
    if reasons:
        replace_text(run / _FILE, f"{json.dumps(reasons, indent=1)}\n")
    else:
        (run / _FILE).unlink(missing_ok=True)


def load_failures(run: Path) -> dict[str, str]:
    """Return case -> why it could not be measured; empty if there is no valid file."""
    with suppress(OSError, InputError, AttributeError):
        return {str(case): str(reason) for case, reason in read_json(run / _FILE).items()}
    return {}
