"""The plan of a block of runs, for tests of the conductor, which carries out such plans."""

from records.acceptance import AcceptanceLimits
from records.block_plan import BlockPlan
from tests.conductor.treatments import treatments

PLAN = BlockPlan(
    case="stream",
    workload="stream",
    block=0,
    seed=7,
    treatments=treatments(["off", "on", "spin", "aa"], ["./stream"], {"devices": ("mlx5_0",)}),
    pairs=10,
    warmups=1,
    nimc_dir="/nowhere",
    limits=AcceptanceLimits(min_share=0.4, retries=1),
)
