"""The call of a run, which is the command that the user typed to make the run.

Commands that resume the run are made from the call. The path of a campaign or crate is absolute, so
such a command can be made for any folder of the run's host, unless an earlier version made the run.
A user's own command may have relative paths, so it must be typed in the folder of the call.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from records.checkout import ROOT
from records.commands import PROGRAM, Shell
from records.errors import InputError
from records.files import replace_text
from records.json_limits import read_json

#: Name of the campaign file in a crate (a packed run). Users on other hosts have the crate, so
#: commands for them name this file, unless the campaign is one of `campaigns/`.
PACKED_CAMPAIGN = "campaign.yaml"
#: File in a run's folder that stores the call. Since it holds paths of this host, it is not packed.
_CALL_FILE = "call.json"


@dataclass(frozen=True)
class Call:
    """The command that makes a run, without the options of machine and results folder."""

    #: The subcommand, then its argument: the name or path of a campaign, or the path of a crate.
    #: `nimc measure` has its argument, a command, in `tail`.
    subject: tuple[str | Path, ...]
    #: Options that decide what is run.
    options: tuple[str, ...] = ()
    #: Words after all options: `--` and a user's own command (`nimc measure`).
    tail: tuple[str, ...] = ()
    #: Folder in which the run was started, and in which a user's own command runs. None for
    #: `nimc reproduce`, and for a run of an earlier version, which did not store the folder.
    folder: Path | None = None

    @property
    def required_folder(self) -> Path | None:
        """The folder in which the command must be typed; None if it can be typed in any folder."""
        return self.folder if self.tail else None

    def save(self, run: Path) -> None:
        """Write the call into the folder of a run."""
        subject = [
            str(word.absolute()) if isinstance(word, Path) else word for word in self.subject
        ]
        record = {"subject": subject, "options": self.options, "tail": self.tail}
        if self.folder:
            record["folder"] = str(self.folder)
        replace_text(run / _CALL_FILE, f"{json.dumps(record, indent=1)}\n")


def load_call(run: Path, campaign: str) -> Call:
    """Return the call that a run's folder holds.

    Earlier versions stored no call. For a run without one, a call is made from the name of its
    `campaign`.
    """
    with suppress(OSError, InputError, KeyError, TypeError):
        record = read_json(run / _CALL_FILE)
        subject = tuple(Path(word) if os.path.isabs(word) else word for word in record["subject"])
        options = tuple(map(str, record.get("options", ())))
        tail = tuple(map(str, record.get("tail", ())))
        folder = Path(record["folder"]) if "folder" in record else None
        return Call(subject, options, tail, folder)
    return Call(("run", _shipped_name(campaign) or f"{campaign}.yaml"))


def _shipped_name(campaign: str) -> str:
    """The name of a campaign if its file is in `campaigns/`; empty for another campaign."""
    return campaign if (ROOT / "campaigns" / f"{campaign}.yaml").exists() else ""


@dataclass(frozen=True)
class RunCommands:
    """The next commands that are printed after a run."""

    run: Path
    campaign: str
    machine: str
    #: The shell of this host in which the commands will be typed; None if they are for other hosts.
    shell: Shell | None = None

    def resume(self, *options: str) -> str:
        """The command that resumes the run, with further `options` that its subcommand has.

        Without a shell, it is the command that runs the campaign on another host.
        """
        if self.shell:
            call = load_call(self.run, self.campaign)
        else:
            call = Call(("run", _shipped_name(self.campaign) or PACKED_CAMPAIGN))
        if self.shell and call.required_folder not in (None, self.shell.folder):
            moved = replace(self, shell=Shell(call.required_folder))
            return f"cd {shlex.quote(str(call.required_folder))} && {moved.resume(*options)}"
        words = (*call.subject, *self._location_options(), *call.options, *options, *call.tail)
        return self._line(*words)

    def throttling(self, subcommand: Literal["run", "plan"]) -> str:
        """The command that runs or plans the campaign `throttling` on this machine."""
        return self._line(subcommand, "throttling", *self._location_options())

    def advise(self) -> str:
        """The command that weighs the run's remedies."""
        return self._line("advise", self.run, "--traffic-share", "30%")

    def _location_options(self) -> Sequence[str | Path]:
        results_option = self.shell.results_option(self.run.parent) if self.shell else []
        return ["--machine", self.machine, *results_option]

    def _line(self, *words: str | Path) -> str:
        if self.shell:
            return self.shell.line(*words)
        # On other hosts this run may lie anywhere, so paths are shown by their names.
        names = [word.name if isinstance(word, Path) else word for word in words]
        return shlex.join([PROGRAM, *names])
