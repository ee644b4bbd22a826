"""PAPI: preset events of each rank through its high-level interface, from a preloaded shim.

`papi:figure4` has cycles and the events of figure 4 of Groves, Grant and Arnold (2016). Of these
events, PAPI counts the ones that the processor supports and can count at the same time. The other
groups are smaller, for processors that cannot count all events at once. What an event counts
differs between processors (`records.roles`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from records.errors import InputError
from records.programs import ask
from reframe_tests.tools.base import (
    FOLDER_PLACEHOLDER,
    RANK,
    CounterRow,
    State,
    Tool,
    ToolError,
    files_of,
    parsed_number,
    try_out,
)

#: Group -> events.
GROUPS = {
    "figure4": (
        "PAPI_TOT_CYC",
        "PAPI_STL_ICY",
        "PAPI_L1_TCM",
        "PAPI_L2_TCM",
        "PAPI_L3_TCM",
        "PAPI_L2_TCH",
        "PAPI_L3_TCH",
    ),
    "stalls": ("PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_STL_ICY"),
    "caches": ("PAPI_L1_TCM", "PAPI_L2_TCM", "PAPI_L3_TCM"),
    "hits": ("PAPI_L2_TCH", "PAPI_L3_TCH"),
}
_SOURCE = Path(__file__).with_name("papi_shim.c")
_FLAGS = ("-O2", "-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
#: Shell script that starts a rank of the application with PAPI. Each rank has a folder of its own,
#: since PAPI renames a folder of results that exists. Arguments: folder, events, shim,
#: `without_mpi` (1 to count the whole program, or empty to count between MPI_Init and
#: MPI_Finalize), application. The loader only warns if it cannot preload the shim, so the script
#: fails: on some clusters, nodes do not see homes, and so not the user's cache.
_RANK_SCRIPT = (
    f'out="$1/rank-{RANK}"; mkdir -p "$out"; events=$2 shim=$3 without_mpi=$4; shift 4;'
    ' [ -e "$shim" ] || { echo "papi: set XDG_CACHE_HOME to a folder that nodes see:'
    ' $shim: No such file or directory" >&2; exit 127; };'
    ' exec env PAPI_EVENTS="$events" PAPI_OUTPUT_DIRECTORY="$out"'
    ' ${without_mpi:+NIMC_PAPI_WHOLE=1} LD_PRELOAD="$shim${LD_PRELOAD:+:$LD_PRELOAD}" "$@"'
)


class Papi(Tool):
    """A tool (`base.Tool`) that counts the events of one group of `GROUPS`."""

    def __init__(self, group: str) -> None:
        self.name = f"papi:{group}"
        self._events = GROUPS[group]

    def wrap(self, launcher: Sequence[str], application: Sequence[str]) -> list[str]:
        """See `Tool.wrap`. Compiles the shim if needed; raises InputError if that fails."""
        without_mpi = "" if launcher else "1"
        arguments = [FOLDER_PLACEHOLDER, ",".join(self._events), str(shim()), without_mpi]
        return [*launcher, "sh", "-c", _RANK_SCRIPT, "papi", *arguments, *application]

    def parse(self, folder: Path, ranks: int) -> list[CounterRow]:
        """See `Tool.parse`."""
        folders = files_of(folder, ranks, "rank", suffix="")
        return [row for rank, path in folders.items() for row in self._rows(path, rank)]

    def why_missing(self) -> str | None:
        """Return why PAPI cannot count here, or None.

        PAPI is tried, since it also lists presets that count nothing.
        """
        rows: list[CounterRow] = []
        try:
            with suppress(ToolError):  # PAPI writes no file if it counts nothing
                rows = try_out(self)
        except InputError as error:
            return str(error)
        if any(row.event in self._events and row.value is not None for row in rows):
            return None
        return f"PAPI counts none of {', '.join(self._events)} on this host"

    def _rows(self, folder: Path, rank: int) -> list[CounterRow]:
        """Return the rows of one rank. Raises ToolError."""
        files = list(folder.glob("papi_hl_output*/rank_*.json"))
        if not files:
            raise ToolError(
                f"{folder}: no counts; PAPI counts none of {', '.join(self._events)} here, or the"
                " rank did not end by MPI_Finalize"
            )
        if len(files) > 1:
            raise ToolError(f"{folder}: {len(files)} processes left counts instead of one")
        try:
            threads = json.loads(files[0].read_text(errors="replace"))["threads"].values()
            regions = [region for thread in threads for region in thread["regions"].values()]
            if not regions:
                raise ValueError
            time_s = sum(parsed_number(region["real_time_nsec"]) for region in regions) * 1e-9
            counts = {
                event: [parsed_number(region[event]) for region in regions if event in region]
                for event in self._events
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ToolError(f"{files[0]}: not a file of PAPI 7, or truncated") from None
        rows = [CounterRow(rank=rank, event="region-time", value=time_s, unit="s")]
        for event, region_counts in counts.items():
            count = sum(region_counts) if region_counts else None
            state: State = "counted" if region_counts else "not supported"
            rows.append(CounterRow(rank=rank, event=event, value=count, unit="count", state=state))
        return rows


def shim() -> Path:
    """Return the path of the shim in the user's cache; compile it if it is not there yet.

    The cache has a file for each version of the shim's source. Raises InputError if there is no
    cache or compiler, or if the shim does not compile, for example without PAPI. Then the error has
    the first line of the compiler's output.
    """
    source = _SOURCE.read_bytes()
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nimc"
        cache.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        raise InputError(f"papi: no folder for its shim: {error} (set XDG_CACHE_HOME)") from None
    path = cache / f"papi-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if path.exists():
        return path
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        raise InputError(f"papi: no C compiler {compiler} for its shim (apt install gcc)")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        compiled = Path(folder, path.name)
        command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(compiled), "-lpapi", "-ldl"]
        answer = ask(command, folder=Path(folder))
        if not answer.ok:
            hint = "apt install libpapi-dev; dnf install papi-devel"
            raise InputError(f"papi: its shim does not compile: {answer.first_line} ({hint})")
        compiled.replace(path)
    return path


TOOLS: tuple[Tool, ...] = tuple(map(Papi, GROUPS))
