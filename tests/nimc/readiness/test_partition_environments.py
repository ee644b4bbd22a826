"""Which environments are valid for a check, compared with ReFrame's own rules."""

import json
import subprocess
import sys

import pytest

from nimc.readiness.checks import CheckDescription
from nimc.readiness.reframe_config import (
    PartitionEnvironment,
    ReframeSettings,
    checks_without_environment,
    machine_of_host,
    needs_in_words,
    partition_environments,
)
from records.errors import InputError

#: Code that asks ReFrame whether environments are valid for checks.
_ASK_REFRAME = """
import json, sys
from reframe.core.environments import ProgEnvironment
from reframe.core.runtime import _is_valid_env
found = [
    _is_valid_env(ProgEnvironment("e", features=features), conditions)
    for features, conditions in json.loads(sys.argv[1])
]
print(json.dumps(found))
"""
CASES: list[tuple[list[str], list[str]]] = [
    (["a"], ["+a"]),
    (["a"], ["+b"]),
    (["a"], ["+b", "+a"]),
    (["a", "b"], ["+a +b"]),
    (["a"], ["+a +b"]),
    (["a"], ["-b"]),
    (["a", "b"], ["+a -b"]),
    ([], ["*"]),
    ([], ["e"]),
    ([], ["gnu"]),
]


def environment(
    name: str = "e", features: list[str] | None = None, compiler: str = "cc"
) -> PartitionEnvironment:
    return PartitionEnvironment(
        partition="p", environment=name, features=frozenset(features or []), compiler=compiler
    )


def check(*environs: str, compiles: bool = False) -> CheckDescription:
    return CheckDescription(variables=frozenset(), environs=environs, compiles=compiles)


def test_conditions_of_environments_are_evaluated_as_reframe_does():
    answer = subprocess.run(
        [sys.executable, "-c", _ASK_REFRAME, json.dumps(CASES)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ours = [environment(features=features).accepted_by(required) for features, required in CASES]
    assert ours == json.loads(answer.stdout)
    assert {True, False} == set(ours)
    # Conditions on properties are ignored.
    assert all(
        environment().accepted_by([condition]) for condition in ("%gpu=a100", "+a %gpu=a100")
    )


def test_a_check_that_no_environment_accepts_is_found_from_the_settings():
    environments = [
        environment("spack", ["spack"], compiler=""),
        environment("gnu", [], compiler=""),
    ]
    checks = {
        "stream": check("*", compiles=True),
        "lammps": check("+spack", "+wheels"),
        "hpccg": check("+wheels"),
    }
    assert checks_without_environment(checks, environments) == ["stream", "hpccg"]
    assert needs_in_words(checks["stream"]) == "a C compiler, 'cc'"
    assert needs_in_words(checks["lammps"]) == "features: spack or wheels"
    assert checks_without_environment(checks, [environment("gnu", ["wheels"])]) == []


def test_an_environment_in_a_partition_has_the_modules_of_both():
    settings = ReframeSettings(
        environment={},
        partitions=[
            {"name": "a", "environs": ["gnu", "none"], "modules": ["slurm"]},
            {"name": "b", "environs": ["gnu", "many"]},
        ],
        environs=[
            {"name": "gnu", "modules": ["gcc/13", {"name": "mpi", "path": "/m"}]},
            {"name": "gnu", "cc": "cc-b", "target_systems": ["m:b"]},
            {"name": "gnu", "cc": "other", "target_systems": ["elsewhere"]},
            {"name": "many", "modules": [{"name": "saved", "collection": True}]},
        ],
    )
    environments = partition_environments(settings, settings.partitions, "m")
    assert [
        (f"{usable.partition}+{usable.environment}", usable.compiler, usable.modules)
        for usable in environments
    ] == [("a+gnu", "cc", ("slurm", "gcc/13", "mpi")), ("b+gnu", "cc-b", ()), ("b+many", "cc", ())]


NAMES = {
    "cluster": [r"login\d+\.example", r"login\d+$"],
    "localhost": [".*"],
    "other": ["front", "login1$"],
    "third": [".*"],
}


@pytest.mark.parametrize(
    ("host", "machine"),
    [
        ("login7.example.org", "cluster"),
        ("login12", "cluster"),
        ("login12a", "localhost"),
        ("frontend", "other"),
        ("my-login1", "localhost"),
    ],
)
def test_the_machine_is_the_one_whose_patterns_match_the_host(host, machine):
    assert machine_of_host(NAMES, host) == machine
    # If two machines match, the user must choose.
    with pytest.raises(InputError, match=r"'login1'; allowed: cluster, other$"):
        machine_of_host(NAMES, "login1")
