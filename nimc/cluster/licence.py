"""What an operator installs so that Slurm bounds the writers: lines of slurm.conf, and a script."""

from __future__ import annotations

from pathlib import Path

#: The licence's name, as in the script.
LICENCE = "nimc_writers"
_SCRIPT = Path(__file__).with_name("shell") / "job_submit.lua"


def slurm_conf(writers: int) -> str:
    """Lines to add; a site that has such lines extends them."""
    return f"Licenses={LICENCE}:{writers}\nJobSubmitPlugins=lua\n"


def job_submit_lua() -> str:
    """The script that asks for one licence for each stage-out."""
    return _SCRIPT.read_text()
