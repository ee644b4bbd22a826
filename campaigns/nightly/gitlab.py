"""Pipelines of GitLab CI: one that plans, and its child, in which a night runs. Pure.

The child measures in one job, since a night has one lock and one budget, and then has a job for
each case that says how it went. With Jacamar the jobs run as the user on the machine, under Slurm.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from campaigns.nightly.crontab import times
from campaigns.nightly.description import Nightly

#: Of this pipeline: nothing is cloned, so files of other nights may lie in the folder.
_SUMMARY = '"summary-$CI_PIPELINE_ID.json"'
_OTHERS = "rm -f summary-*.json junit.xml bencher.json metrics.prom case.xml"
#: How long a job of Jacamar that measures nothing may take, minutes.
_SHORT_MIN = 15
_RULES = [{"if": '$CI_PIPELINE_SOURCE == "schedule" || $CI_PIPELINE_SOURCE == "web"'}]


def parent(nightly: Nightly, nimc: Sequence[str], zone: str, *, jacamar: bool) -> str:
    """The pipeline that a schedule of GitLab starts, at times of this host's time `zone`."""
    name, child = nightly.name, f"nimc-{nightly.name}.yml"
    options = ["--gitlab", "--child", *(["--jacamar"] if jacamar else [])]
    command = shlex.join([*nimc, "nightly", "init", nightly.target, *options])
    head = (
        f"# Made by 'nimc nightly init {nightly.target} --gitlab'. In GitLab, add a pipeline"
        f" schedule: {times(nightly)} in the time zone {zone}\n"
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


def child(nightly: Nightly, nimc: Sequence[str], cases: Sequence[str], *, jacamar: bool) -> str:
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
                f"{export} --bencher > bencher.json",
                f"{export} --prometheus > metrics.prom",
                'exit "$status"',
            ],
            # Slower: the job of the case fails.
            "allow_failure": {"exit_codes": [1]},
            "artifacts": {
                "when": "always",
                "paths": [_SUMMARY.strip('"'), "junit.xml", "bencher.json", "metrics.prom"],
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
    if nightly.asked.runner_tags:
        found["tags"] = nightly.asked.runner_tags
    if jacamar:
        found["id_tokens"] = {"SITE_ID_TOKEN": {"aud": "$CI_SERVER_URL"}}
        options = " ".join([f"--time={minutes}", *nightly.asked.job])
        found["variables"]["SCHEDULER_PARAMETERS"] = options.replace("$", "$$")
    return found


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out: readers of YAML differ in what they know of aliases."""
        return True
