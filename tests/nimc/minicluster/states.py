"""The made state of a running minicluster."""

from testbed.spec import Spec
from testbed.state import State

STATE = State(
    spec=Spec(fabric="rxe", nodes=3, origins=1, numa=2, shares=("/srv/results",)),
    phase="up",
    subnet="10.77.9",
    cpus=1,
    memory_mib=900,
    accelerator="tcg",
)
