"""The model that was fitted of henri."""

from analysis.contention import evaluate
from analysis.contention.parameters import (
    Model,
)

HENRI = evaluate.load_published("henri")

FITTED = Model(
    name="m", cores=18, numa_per_socket=1, numa_nodes=2, local=HENRI.local, remote=HENRI.remote
)
