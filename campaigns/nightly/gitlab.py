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

_SUMMARY = "summary.json"
_RULES = [{"if": '$CI_PIPELINE_SOURCE == "schedule" || $CI_PIPELINE_SOURCE == "web"'}]


def parent(nightly: Nightly, nimc: Sequence[str], *, jacamar: bool) -> str:
    """The pipeline that a schedule of GitLab starts."""
    name, child = nightly.name, f"nimc-{nightly.name}.yml"
    options = ["--gitlab", "--child", *(["--jacamar"] if jacamar else [])]
    command = shlex.join([*nimc, "nightly", "init", nightly.target, *options])
    head = (
        f"# Made by 'nimc nightly init {nightly.target} --gitlab'. In GitLab, add a pipeline"
        f" schedule: {times(nightly)}\n"
    )
    return head + _dump(
        {
            "stages": ["plan", "night"],
            f"plan {name}": {
                "stage": "plan",
                "rules": _RULES,
                **_runner(nightly, jacamar=jacamar),
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
    runner = _runner(nightly, jacamar=jacamar)
    minutes = nightly.longest_s // 60
    run = shlex.join([*nimc, "nightly", "run", nightly.target, "--summary", _SUMMARY])
    export = shlex.join([*nimc, "nightly", "export", _SUMMARY])
    jobs: dict[str, Any] = {
        "stages": ["measure", "cases"],
        "measure": {
            "stage": "measure",
            **runner,
            "timeout": f"{minutes} minutes",
            "script": [
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
                "paths": [_SUMMARY, "junit.xml", "bencher.json", "metrics.prom"],
            },
        },
    }
    for case in cases:
        jobs[f"case {case}"] = {
            "stage": "cases",
            **runner,
            "needs": [{"job": "measure", "artifacts": True}],
            "when": "always",
            "script": [f"{export} --case {shlex.quote(case)} --junit --fail > case.xml"],
            "artifacts": {
                "when": "always",
                "paths": ["case.xml"],
                "reports": {"junit": "case.xml"},
            },
        }
    return _dump(jobs)


def _runner(nightly: Nightly, *, jacamar: bool) -> dict[str, Any]:
    """Where a job runs: nothing is cloned, since the site's own nimc is called."""
    found: dict[str, Any] = {"variables": {"GIT_STRATEGY": "none"}}
    if nightly.asked.runner_tags:
        found["tags"] = nightly.asked.runner_tags
    if jacamar:
        found["id_tokens"] = {"SITE_ID_TOKEN": {"aud": "$CI_SERVER_URL"}}
        if nightly.asked.job:
            options = " ".join(nightly.asked.job)
            found["variables"]["SCHEDULER_PARAMETERS"] = options.replace("$", "$$")
    return found


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out: readers of YAML differ in what they know of aliases."""
        return True
