"""Recorded output of real programs, and a recorded run."""

from pathlib import Path

CAPTURES = Path(__file__).parent
#: A run of the campaign `quick`; the results and the advice made of it are next to it.
RUN_QUICK = CAPTURES / "run_quick" / "quick-localhost-20261123-021501"
