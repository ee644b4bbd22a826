"""The state of a cluster that is up."""

from testbed.spec import Spec
from testbed.state import State

STATE = State(Spec("rxe", 3, 1, numa=2, shares=("/srv/results",)), "up", "10.77.9", 1, 900, "tcg")
