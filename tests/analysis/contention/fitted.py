"""A contention model in the form that a fit returns, with published parameters of machine henri."""

from analysis.contention import evaluate
from analysis.contention.parameters import Model

HENRI = evaluate.load_published("henri")

FITTED = Model(
    name="m", cores=18, numa_per_socket=1, numa_nodes=2, local=HENRI.local, remote=HENRI.remote
)
