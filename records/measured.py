"""Runs of `nimc measure`: the command that was measured, and texts in the words of its options.

Such a run is a campaign of one case. Its user has typed options and has no campaign file. So texts
about campaigns are reworded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from records.run import RunHeader, entries_of
from records.text import one_line

#: Name of the check that runs a user's own command.
COMMAND_CHECK = "command"
#: Ending of the name that `nimc measure` gives to campaign and case: the beginning of a digest.
_NAME_ENDING = re.compile(r".-[0-9a-f]{6}$")
#: Maximum length of a command in a heading, characters.
_HEADING_WIDTH = 72
_IN_A_CAMPAIGN = "in a campaign of this command (docs/your-application.md)"
#: Words about campaigns, their keys and the variables of checks -> words about options.
_REWORDINGS = {
    # Reasons of runs and blocks.
    ", or raise the limit foreign_cpus": ", or give --busy",
    ", or raise the limit steal_share": ", or give --busy",
    ", or raise the limit foreign_share": "",
    ", or lower the limit min_share": ", or give a lower --rate",
    "set repeat higher": "give a higher --repeat",
    # What verdicts mean, and what to do next.
    "than the campaign requires": "than are required",
    ", the campaign's `pairs.floor`": "",
    "the campaign's margin": "the margin",
    "% of campaigns say": "% of measurements say",
    "add the arm aa, which repeats the baseline, to the campaign's `arms`": (
        "see why runs of aa, which repeats the baseline, do not count"
    ),
    "add the control spin to the campaign's `arms`": "see why runs of the control do not count",
    "count what reaches memory, with": f"{_IN_A_CAMPAIGN}, count what reaches memory, with",
    "` in the campaign, or write more": "`, or write more",
    "measure what remedies gain, such as a lower rate or a reserved core: `{throttling}`;"
    " `{plan}` says how long it takes": (
        f"measure what a lower --rate gains; other remedies are measured {_IN_A_CAMPAIGN}"
    ),
    # The first sentences of a run.
    "this campaign accepts such runs": "with --busy, such runs are accepted",
    "of the same campaign;": "of the same command;",
    # Notes, and what to do about them.
    "not judged by `verify`:": "not judged, because of --busy:",
    "set these limits to reject": "omit `--busy` to reject",
    "add `queue_pairs`, origins, or larger messages; or": "add origins, or",
    "set `pairs.block` to a third of `pairs.floor` in the campaign": (
        f"set `pairs: {{block: 2}}` {_IN_A_CAMPAIGN}"
    ),
    "set the variable in the campaign": "give --repeat",
    "set `rest: 2s`, or longer, in the campaign": f"set `rest: 2s`, or longer, {_IN_A_CAMPAIGN}",
    "the campaign starts again": "a new run begins",
}


def command_of(header: RunHeader) -> str:
    """The command that `nimc measure` measured; empty for another run."""
    entries = entries_of(header) or []
    if len(entries) != 1 or not _NAME_ENDING.search(header.campaign):
        return ""
    (entry,) = entries
    is_measured = entry.check == COMMAND_CHECK and entry.case == header.campaign
    return str(entry.set.get("command", "")) if is_measured else ""


def command_heading(header: RunHeader) -> str:
    """The command that `nimc measure` measured, on one line, cut if long; empty for another run."""
    command = " ".join(one_line(command_of(header)).split())
    return command if len(command) <= _HEADING_WIDTH else f"{command[:_HEADING_WIDTH].rstrip()} ..."


def reworded_for_measure(text: str) -> str:
    """Return a text about a campaign in the words of the options of `nimc measure`."""
    for campaign_words, option_words in _REWORDINGS.items():
        text = text.replace(campaign_words, option_words)
    return text


def rewording(header: RunHeader) -> Callable[[str], str]:
    """Return the function that puts a text into the words of the command that made the run."""
    return reworded_for_measure if command_of(header) else str
