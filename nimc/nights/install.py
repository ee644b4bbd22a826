"""What starts the nights: text for crontab, scrontab, systemd and GitLab, and installing it."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import yaml

from nimc.base.errors import MachineError
from nimc.base.files import named_output
from nimc.base.programs import ask
from nimc.nights import summary
from nimc.nights.description import DAYS, MARGIN_S, Nightly

# Lines of a crontab or a scrontab, and the table in which they replace older ones. Pure.


def cron_block(nightly: Nightly, command: Sequence[str]) -> str:
    """For `crontab`."""
    log = shlex.quote(str(log_file(nightly)))
    line = f"{shlex.join(command)} > {log} 2>&1".replace("%", r"\%")  # cron's end of line
    return _marked(nightly, "--cron", [f"{cron_times(nightly)} {line}"])


def scrontab_block(nightly: Nightly, command: Sequence[str]) -> str:
    """For `scrontab`: the night itself is a small job, which submits the others.

    Raises InputError for a log that no option of scrontab can name: its words end at blanks,
    whatever their quotes, and Slurm removes backslashes.
    """
    log = str(log_file(nightly))
    if " " in log or "\\" in log:
        raise nightly.refuse("results", log, "a path without blanks and backslashes")
    options = [
        f"--job-name=nimc-{nightly.name}",
        f"--time={nightly.longest_s // 60}",
        f"--output={log.replace('%', '%%')}",  # Slurm replaces %j and others
        "--open-mode=truncate",
        *nightly.job,
    ]
    lines = [f"#SCRON {option}" for option in options]
    return _marked(nightly, "--scrontab", [*lines, f"{cron_times(nightly)} {shlex.join(command)}"])


def cron_times(nightly: Nightly) -> str:
    """Minute, hour and days as crontab has them. scrontab takes one name of a day, or numbers."""
    numbers = sorted((DAYS.index(day) + 1) % 7 for day in nightly.window.days)
    days = "*" if len(numbers) == 7 else ",".join(map(str, numbers))
    return f"{nightly.window.start.minute} {nightly.window.start.hour} * * {days}"


def log_file(nightly: Nightly) -> Path:
    """What the last start of a night printed."""
    return nightly.folder / f"{nightly.name}.log"


def merged_crontab(table: str, block: str) -> str:
    """The table with the block in place of the one with the same marks; else at its end."""
    own = block.rstrip("\n").split("\n")
    begin, end = own[0], own[-1]
    lines = table.removesuffix("\n").split("\n") if table else []
    if begin in lines and end in lines[lines.index(begin) :]:
        first = lines.index(begin)
        last = lines.index(end, first)
        kept = [*lines[:first], *own, *lines[last + 1 :]]
    else:
        kept = [*lines, *own]
    return "\n".join(kept) + "\n"


def _marked(nightly: Nightly, option: str, lines: Sequence[str]) -> str:
    name = f"nimc nightly {nightly.target}"
    made = f"# made by 'nimc nightly init {nightly.target} {option}', which replaces these lines"
    return "\n".join([f"# BEGIN {name}", made, *lines, f"# END {name}", ""])


#: Lines of others stay byte for byte, whatever their encoding.
_ANY_BYTES = "surrogateescape"


def table(program: str, block: str) -> str:
    """Replace this nightly's lines in the user's `crontab` or `scrontab`; all others stay.

    Returns what was done.
    """
    listed = ask([program, "-l"], errors=_ANY_BYTES)
    # scrontab says so on standard output.
    if "no crontab" not in listed.text.lower():
        listed.required()
    old = listed.stdout if listed.ok else ""
    with tempfile.NamedTemporaryFile(
        "w", prefix="nimc-", suffix=".cron", encoding="utf-8", errors=_ANY_BYTES
    ) as file:
        file.write(merged_crontab(old, block))
        file.flush()
        answer = ask([program, file.name], errors=_ANY_BYTES)
    if not answer.ok:
        raise MachineError(f"{program}: {answer.first}")
    return f"installed in your {program}"


def units(texts: Mapping[str, str]) -> str:
    """Write the units, and start the timer. Returns what was done."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    folder = named_output(Path(config, "systemd", "user"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        summary.write(folder / name, text)
    (timer,) = (name for name in texts if name.endswith(".timer"))
    for words in (["daemon-reload"], ["enable", "--now", timer]):
        answer = ask(["systemctl", "--user", *words])
        if not answer.ok:
            raise MachineError(
                f"systemctl --user {' '.join(words)}: {answer.reason}; the units are in {folder}"
            )
    return f"installed in {folder}; 'loginctl enable-linger' lets it run while you are logged out"


# User units of systemd: a service that runs a night, and its timer. Pure.


_UNIT = Path(__file__).with_name("unit")


def systemd_units(nightly: Nightly, command: Sequence[str]) -> dict[str, str]:
    """File name -> text."""
    days = ",".join(day.capitalize() for day in nightly.window.days)
    name = f"nimc-{nightly.unique_name}"
    values = {
        "name": nightly.name,
        "machine": nightly.machine,
        "command": _line(command),
        "longest_s": nightly.longest_s,
        "margin_s": MARGIN_S,
        "start": f"{days} *-*-* {nightly.window.start:%H:%M}:00",
    }
    return {
        f"{name}.{kind}": Template(_UNIT.with_suffix(f".{kind}.in").read_text()).substitute(values)
        for kind in ("service", "timer")
    }


def _line(command: Sequence[str]) -> str:
    """ExecStart: words quoted, without specifiers; variables are expanded in all but the first."""
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "%": "%%"})
    program, *words = (f'"{word.translate(escapes)}"' for word in command)
    return " ".join([program, *(word.replace("$", "$$") for word in words)])


# Pipelines of GitLab CI: one that plans, and its child, in which a night runs. Pure.
#
# The child measures in one job, since a night has one lock and one budget, and then has a job for
# each case that says how it went. With Jacamar the jobs run as the user on the machine, under
# Slurm.


#: Of this pipeline: nothing is cloned, so files of other nights may lie in the folder.
_SUMMARY = '"summary-$CI_PIPELINE_ID.json"'
_OTHERS = "rm -f summary-*.json junit.xml metrics.prom case.xml"
#: How long a job of Jacamar that measures nothing may take, minutes.
_SHORT_MIN = 15
_RULES = [{"if": '$CI_PIPELINE_SOURCE == "schedule" || $CI_PIPELINE_SOURCE == "web"'}]


def gitlab_parent(nightly: Nightly, nimc: Sequence[str], zone: str, *, jacamar: bool) -> str:
    """The pipeline that a schedule of GitLab starts, at times of this host's time `zone`."""
    name, child = nightly.name, f"nimc-{nightly.name}.yml"
    options = ["--gitlab", "--child", *(["--jacamar"] if jacamar else [])]
    command = shlex.join([*nimc, "nightly", "init", nightly.target, *options])
    head = (
        f"# Made by 'nimc nightly init {nightly.target} --gitlab'. In GitLab, add a pipeline"
        f" schedule: {cron_times(nightly)} in the time zone {zone}\n"
    )
    return head + _dump(
        {
            "stages": ["plan", "night"],
            f"plan {name}": {
                "stage": "plan",
                "rules": _RULES,
                **_runner(nightly, _SHORT_MIN, jacamar=jacamar),
                "script": [f"{command} > {shlex.quote(child)}"],
                "artifacts": {"paths": [child]},
            },
            f"night {name}": {
                "stage": "night",
                "rules": _RULES,
                "trigger": {
                    "include": [{"artifact": child, "job": f"plan {name}"}],
                    "strategy": "depend",
                },
            },
        }
    )


def gitlab_child(
    nightly: Nightly, nimc: Sequence[str], cases: Sequence[str], *, jacamar: bool
) -> str:
    """The pipeline of one night: it measures, then a job for each case reports."""
    minutes = nightly.longest_s // 60
    run = f"{shlex.join([*nimc, 'nightly', 'run', nightly.target])} --summary {_SUMMARY}"
    export = f"{shlex.join([*nimc, 'nightly', 'export'])} {_SUMMARY}"
    jobs: dict[str, Any] = {
        "stages": ["measure", "cases"],
        "measure": {
            "stage": "measure",
            **_runner(nightly, minutes, jacamar=jacamar),
            "timeout": f"{minutes} minutes",
            "script": [
                _OTHERS,
                "status=0",
                f"{run} || status=$?",
                f"{export} --junit > junit.xml",
                f"{export} --prometheus > metrics.prom",
                'exit "$status"',
            ],
            # Slower: the job of the case fails.
            "allow_failure": {"exit_codes": [1]},
            "artifacts": {
                "when": "always",
                "paths": [_SUMMARY.strip('"'), "junit.xml", "metrics.prom"],
            },
        },
    }
    for case in cases:
        jobs[f"case {case}"] = {
            "stage": "cases",
            **_runner(nightly, _SHORT_MIN, jacamar=jacamar),
            "needs": [{"job": "measure", "artifacts": True}],
            "when": "always",
            "script": [f"{export} --case {shlex.quote(case)} --junit --fail > case.xml"],
            "after_script": ["rm -f summary-*.json"],
            "artifacts": {
                "when": "always",
                "paths": ["case.xml"],
                "reports": {"junit": "case.xml"},
            },
        }
    return _dump(jobs)


def _runner(nightly: Nightly, minutes: int, *, jacamar: bool) -> dict[str, Any]:
    """Where a job runs: nothing is cloned, since the site's own nimc is called."""
    found: dict[str, Any] = {"variables": {"GIT_STRATEGY": "none"}}
    if nightly.runner_tags:
        found["tags"] = nightly.runner_tags
    if jacamar:
        found["id_tokens"] = {"SITE_ID_TOKEN": {"aud": "$CI_SERVER_URL"}}
        options = " ".join([f"--time={minutes}", *nightly.job])
        found["variables"]["SCHEDULER_PARAMETERS"] = options.replace("$", "$$")
    return found


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out: readers of YAML differ in what they know of aliases."""
        return True
