"""The machine `box`, of which a test says what matters to it."""

from typing import Any

from records.machine.site import Machine


def machine(policy: str = "hetjob", **changes: Any) -> Machine:
    given = {
        "name": "box",
        "description": "",
        "injector": "perftest",
        "origins": {"policy": policy},
    }
    return Machine.model_validate(given | changes)
