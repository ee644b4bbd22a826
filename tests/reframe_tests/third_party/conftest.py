"""A fixture that sets up a check as ReFrame does for a run."""

from typing import Any

import pytest
from reframe.core import runtime

from records.checkout import ROOT


@pytest.fixture
def reframe(tmp_path):
    """A function that makes a check, sets its variables and sets it up with folders in tmp_path."""
    options = {"systems/prefix": str(tmp_path)}
    with runtime.temp_runtime(f"{ROOT}/configs/localhost.py", options=options):
        partition = runtime.runtime().system.partitions[0]
        environ = next(candidate for candidate in partition.environs if candidate.name == "wheels")

        def make(cls: type, variant: int = 0, **variables: Any) -> Any:
            check = cls(variant_num=variant) if cls.num_variants > 1 else cls()
            for name, value in variables.items():
                setattr(check, name, value)
            check.setup(partition, environ)
            return check

        yield make
