"""The call of a run, so that the same command resumes it, from anywhere on its host."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from records.checkout import ROOT
from records.commands import PROGRAM, Shell
from records.errors import InputError
from records.files import replace_text
from records.json_limits import read_json

#: The campaign in a crate, which those on other hosts have.
PACKED_CAMPAIGN = "campaign.yaml"
#: In a run's folder; it is about this host alone, and in no crate.
_CALL_FILE = "call.json"


@dataclass(frozen=True)
class Call:
    """The command that makes a run, without its machine and where it is."""

    #: A command and what it runs: a name, or a path.
    subject: tuple[str | Path, ...]
    #: Options that decide what is run.
    options: tuple[str, ...] = ()
    #: Words after all options: `--` and a user's own command (`nimc measure`).
    tail: tuple[str, ...] = ()
    #: Where it was typed, and a user's own command runs; None of earlier versions.
    folder: Path | None = None

    @property
    def required_folder(self) -> Path | None:
        """The folder that it must be typed in: that of a user's own command; None for any."""
        return self.folder if self.tail else None

    def save(self, run: Path) -> None:
        """Keep it in the folder of a run."""
        subject = [
            str(word.absolute()) if isinstance(word, Path) else word for word in self.subject
        ]
        kept = {"subject": subject, "options": self.options, "tail": self.tail}
        kept |= {"folder": str(self.folder)} if self.folder else {}
        replace_text(run / _CALL_FILE, f"{json.dumps(kept, indent=1)}\n")


def load_call(run: Path, campaign: str) -> Call:
    """Return what a run was called with.

    Of earlier versions only the name of the `campaign` is known.
    """
    with suppress(OSError, InputError, KeyError, TypeError):
        kept = read_json(run / _CALL_FILE)
        subject = tuple(Path(word) if os.path.isabs(word) else word for word in kept["subject"])
        folder = Path(kept["folder"]) if "folder" in kept else None
        options, tail = (tuple(map(str, kept.get(name, ()))) for name in ("options", "tail"))
        return Call(subject, options, tail, folder)
    return Call(("run", _shipped_name(campaign) or f"{campaign}.yaml"))


def _shipped_name(campaign: str) -> str:
    """The name of a campaign if it is one of `campaigns/`."""
    return campaign if (ROOT / "campaigns" / f"{campaign}.yaml").exists() else ""


@dataclass(frozen=True)
class RunCommands:
    """Commands that continue a run, for a shell of this host; without one, for other hosts."""

    run: Path
    campaign: str
    machine: str
    shell: Shell | None = None

    def resume(self, *options: str) -> str:
        """Resumes the run, or with other options continues or repeats it."""
        elsewhere = Call(("run", _shipped_name(self.campaign) or PACKED_CAMPAIGN))
        call = load_call(self.run, self.campaign) if self.shell else elsewhere
        if self.shell and call.required_folder not in (None, self.shell.folder):
            moved = replace(self, shell=Shell(call.required_folder))
            return f"cd {shlex.quote(str(call.required_folder))} && {moved.resume(*options)}"
        return self._line(*call.subject, *self._where(), *call.options, *options, *call.tail)

    def shipped_campaign(self, does: str, campaign: str) -> str:
        """Runs or plans another of the campaigns on this machine."""
        return self._line(does, campaign, *self._where())

    def advise(self) -> str:
        """Weighs the run's remedies."""
        return self._line("advise", self.run, "--traffic-share", "30%")

    def _where(self) -> Sequence[str | Path]:
        results = self.shell.results(self.run.parent) if self.shell else []
        return ["--machine", self.machine, *results]

    def _line(self, *words: str | Path) -> str:
        if self.shell:
            return self.shell.line(*words)
        plain = (word.name if isinstance(word, Path) else word for word in words)
        return shlex.join([PROGRAM, *plain])
