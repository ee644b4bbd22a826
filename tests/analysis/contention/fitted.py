"""A model as a fit would return it, with the published parameters of henri."""

from analysis.contention import evaluate
from analysis.contention.parameters import Model

HENRI = evaluate.load_published("henri")

FITTED = Model(
    name="m", cores=18, numa_per_socket=1, numa_nodes=2, local=HENRI.local, remote=HENRI.remote
)
