"""What is named on six made machines, whose truth is known. Nothing here was measured."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

from analysis.remedies.net import Remedy as Row
from analysis.remedies.net import net_effects
from analysis.remedies.standing import Standing, with_standings


@dataclass(frozen=True)
class Remedy:
    """True price and true gain, and the writers' rate with it / without."""

    name: str
    price: float
    gain: float
    written: float = 1.0


@dataclass(frozen=True, kw_only=True)
class MadeMachine:
    """True slowdown, noise of a run, share of time with traffic, and remedies."""

    name: str
    slowdown: float
    noise: float
    share: float
    remedies: tuple[Remedy, ...]
    #: Factors of the remedies that are truly worth their price, the best first.
    worth: tuple[str, ...] = ()
    #: Whether it is so far from any doubt that it must be found.
    clear: bool = False


CORE, PLACEMENT, RAILS = "reserved_cores", "buffer", "mpi_rail"
MACHINES = (
    # An onload card: a core takes 2.0 to 1.21 / 1.1, as in figure 6c of Groves, Grant and
    # Arnold (2016).
    MadeMachine(
        name="core",
        slowdown=2.0,
        noise=0.01,
        share=1.0,
        remedies=(Remedy(CORE, 1.1, 1.8), Remedy(PLACEMENT, 1.02, 1.0)),
        worth=(CORE,),
        clear=True,
    ),
    # An offload card: nothing is lost, so that each remedy only costs.
    MadeMachine(
        name="offload",
        slowdown=1.0,
        noise=0.01,
        share=0.5,
        remedies=(Remedy(CORE, 1.06, 0.94), Remedy(PLACEMENT, 1.0, 1.0)),
    ),
    # Placement is free and better than a core that helps as well.
    MadeMachine(
        name="placement",
        slowdown=1.4,
        noise=0.01,
        share=1.0,
        remedies=(Remedy(CORE, 1.07, 1.1), Remedy(PLACEMENT, 1.0, 1.3)),
        worth=(PLACEMENT, CORE),
        clear=True,
    ),
    # A core helps under traffic, which is there too seldom: 0.95 x 0.1 lost, 0.05 x 0.1 won.
    MadeMachine(
        name="seldom", slowdown=1.3, noise=0.01, share=0.05, remedies=(Remedy(CORE, 1.1, 1.15),)
    ),
    # Three remedies that do nothing at all.
    MadeMachine(
        name="nothing",
        slowdown=1.2,
        noise=0.02,
        share=1.0,
        remedies=(Remedy(CORE, 1.0, 1.0), Remedy(PLACEMENT, 1.0, 1.0), Remedy(RAILS, 1.0, 1.0)),
    ),
    # Noise that hides a small benefit; and a throttled rate, which only delays the writes.
    MadeMachine(
        name="noisy",
        slowdown=1.1,
        noise=0.08,
        share=1.0,
        remedies=(Remedy(CORE, 1.0, 1.01), Remedy("rate", 1.0, 1.08, 0.25)),
        worth=(CORE,),
    ),
)
#: The first one with its core alone.
ONE = replace(MACHINES[0], remedies=MACHINES[0].remedies[:1])


def tried(machine: MadeMachine, pairs: int, seed: int, allocations: int = 3) -> pl.DataFrame:
    """What `pairs` pairs of all treatments give, with speeds that scatter around the truth.

    As many pairs, but for one, in each of the allocations, which do not differ.
    """
    rng = np.random.default_rng([seed, sum(map(ord, machine.name))])
    shared = rng.normal(0, 3 * machine.noise, pairs)

    def speed(time: float) -> np.ndarray:
        return np.exp(shared + rng.normal(0, machine.noise, pairs)) / time

    off, on, numbers = speed(1.0), speed(machine.slowdown), np.arange(pairs)
    return pl.concat(
        pl.DataFrame(
            {"block": numbers % allocations, "pair": numbers, "off": off, "on": on}
        ).with_columns(
            off_with=speed(remedy.price),
            on_with=speed(machine.slowdown / remedy.gain),
            writer_rate_b_s=8e9,
            writer_rate_b_s_with=8e9 * remedy.written,
            **{
                name: pl.lit(text)
                for name, text in {
                    **dict.fromkeys(("case", "reference_case", "workload"), "melt"),
                    "traffic": "on",
                    "treatment": f"on@{remedy.name}=1",
                    "factor": remedy.name,
                    "level": "1",
                    "reference": "0",
                    "at": "",
                    "remedy": f"{remedy.name}=1",
                    "what": "",
                }.items()
            },
            **dict.fromkeys(("price", "price_low", "price_high"), pl.lit(remedy.price)),
            **dict.fromkeys(("gain", "gain_low", "gain_high"), pl.lit(None, pl.Float64)),
            rate_b_s=8e9,
            margin=0.02,
            paired=True,
            unstable=False,
            emulated=pl.lit([], pl.List(pl.String)),
        )
        for remedy in machine.remedies
    )


# Which remedy is named on six made machines, and how often a wrong one is.


SEEDS = 20


def judged(speeds: pl.DataFrame, share: float = 1.0, *, share_stated: bool = True) -> list[Row]:
    rows = [{"run": "run", **row} for row in net_effects(speeds, share).to_dicts()]
    return with_standings(rows, share_stated=share_stated)


def advice(machine: MadeMachine, pairs: int = 12, seed: int = 1) -> list[Row]:
    return judged(tried(machine, pairs, seed), machine.share)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_wrong_remedy_is_named_in_at_most_one_seed_of_twenty(machine: MadeMachine) -> None:
    wrong = right = 0
    for seed in range(SEEDS):
        named = {row["factor"] for row in advice(machine, seed=seed) if row["recommended"]}
        wrong += bool(named - set(machine.worth))
        right += bool(named & set(machine.worth))
    assert wrong <= 3  # P(more of 20 | 5 %) is 1.6 %
    if machine.clear:
        assert right >= 0.9 * SEEDS


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_truth_without_noise(machine: MadeMachine) -> None:
    """Net speeds by hand: the means over time with and without the remedy."""
    quiet = replace(machine, noise=1e-6)
    for row, truth in zip(advice(quiet), machine.remedies, strict=True):
        share, slow = machine.share, machine.slowdown
        speed = (1 - share) + share / slow
        speed_with = (1 - share) / truth.price + share * truth.gain / slow
        assert row["net"] == pytest.approx(speed_with / speed, rel=1e-4)
        if truth.written < 1:
            assert row["standing"] is Standing.SLOWER_WRITES
        elif abs(speed_with / speed - 1) > 1e-3:
            assert row["standing"] is (Standing.BETTER if speed_with > speed else Standing.WORSE)
        assert row["recommended"] == (row["standing"] is Standing.BETTER)


def test_price_gain_and_break_even_by_hand() -> None:
    """(1 - s) (1 - 1/1.1) = s (1.8 / 2 - 1 / 2), so s = (1/11) / (1/11 + 0.4) = 5/27."""
    core = tried(replace(MACHINES[0], noise=1e-9), 8, 1)
    seldom, always = (net_effects(core, share)["net"][0] for share in (0.0, 1.0))
    assert (seldom, always) == pytest.approx((1 / 1.1, 1.8))
    row = net_effects(core, 1.0).row(0, named=True)
    assert row["break_even_low"] <= 5 / 27 <= row["break_even_high"]
    assert row["break_even_high"] - row["break_even_low"] <= 0.0021


def test_holm_leaves_more_remedies_undecided() -> None:
    """Six pairs have no p below 2/64, so that two remedies together can never pass 0.05."""
    machine = replace(MACHINES[0], remedies=MACHINES[0].remedies[:1])
    assert advice(machine, pairs=6)[0]["recommended"]
    rows = advice(MACHINES[0], pairs=6)
    assert [row["standing"] for row in rows] == [Standing.NOT_DECIDED, Standing.NOT_DECIDED]
    assert rows[0]["net_low"] > 1
    assert rows[0]["p_adjusted"] == pytest.approx(2 * 2 / 64)


@pytest.mark.parametrize(
    ("gain", "high", "standing"),
    [
        (2.0, 0.97, Standing.BETTER),  # writers may have lost 3 %, which is within the margin
        (2.0, 0.951, Standing.SLOWER_WRITES),  # 1 / 1.05 is 0.952
        (2.0, 0.953, Standing.BETTER),
        # What is not decided is a candidate for Holm, whatever its writes.
        (1.0, 0.951, Standing.NOT_DECIDED),
    ],
)
def test_writers_are_slowed_down_if_the_whole_interval_says_so(
    gain: float, high: float, standing: Standing
) -> None:
    machine = MadeMachine(
        name="slower",
        slowdown=1.5,
        noise=0.02,
        share=1.0,
        remedies=(Remedy(CORE, 1.0, gain),),
        worth=(CORE,),
    )
    (core,) = net_effects(tried(machine, 12, 1), 1.0).to_dicts()
    (row,) = with_standings([core | {"written_high": high, "margin": 0.05}], share_stated=True)
    assert row["standing"] is standing
    assert (row["p_adjusted"] is None) == (standing is Standing.SLOWER_WRITES)


@pytest.mark.parametrize(
    ("changes", "pairs", "allocations", "standing"),
    [
        ({}, 12, 3, Standing.BETTER),
        ({"emulated": ["over soft-RoCE"]}, 12, 3, Standing.BETTER),
        ({"unstable": True}, 12, 3, Standing.UNSTABLE),
        ({}, 12, 1, Standing.ONLY_HERE),
        ({}, 5, 3, Standing.TOO_FEW_PAIRS),
    ],
)
def test_what_is_recommended(changes, pairs, allocations, standing) -> None:
    """Nothing from emulation, an unstable baseline, few allocations or few pairs."""
    core = net_effects(tried(ONE, pairs, 1, allocations), 1.0).row(0, named=True)
    (row,) = with_standings([core | changes], share_stated=True)
    assert row["standing"] is standing
    assert row["recommended"] == (standing is Standing.BETTER and not changes)
    assert (row["net"] is None) == (row["p_adjusted"] is None) == (pairs < 6)
    assert (row["next_allocation_low"] is not None) == (allocations == 3 and pairs > 5)
    assert (row["n"], row["allocations"]) == (pairs, allocations)


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({"net_low": 1.0}, Standing.NOT_DECIDED),
        ({"written_high": 1 / 1.02}, Standing.BETTER),
        ({"next_allocation_low": 1.0}, Standing.ONLY_HERE),
        ({"net_low": 0.9, "net_high": 0.99, "written_high": 0.5}, Standing.ONLY_HERE),
    ],
)
def test_at_a_limit_nothing_is_shown(changes: Row, standing: Standing) -> None:
    core = net_effects(tried(ONE, 12, 1), 1.0).row(0, named=True)
    (row,) = with_standings([core | changes], share_stated=True)
    assert row["standing"] is standing


def test_allocations_that_differ_say_nothing_of_the_next_one() -> None:
    """Gains of 10, 20 and 30 % in three: 4.303 x 0.0837 x sqrt(4/3) is far more than 18 %."""
    gain = pl.col("block").replace_strict({0: 1.1, 1: 1.2, 2: 1.3})
    even = dict.fromkeys(("off", "on", "off_with"), 1.0)
    (row,) = judged(tried(ONE, 12, 1).with_columns(on_with=gain, **even))
    assert row["net_low"] > 1
    assert row["standing"] is Standing.ONLY_HERE
    centre, spread = np.log([1.1, 1.2, 1.3]).mean(), np.log([1.1, 1.2, 1.3]).std(ddof=1)
    half = 4.3027 * spread * np.sqrt(4 / 3)
    ends = row["next_allocation_low"], row["next_allocation_high"]
    assert ends == pytest.approx(np.exp([centre - half, centre + half]), rel=1e-4)


def test_without_a_share_only_what_costs_nothing_is_recommended() -> None:
    (core,) = net_effects(tried(ONE, 12, 1), 1.0).to_dicts()
    (row,) = with_standings([core], share_stated=False)
    assert (row["standing"], row["recommended"]) == (Standing.BETTER, False)
    (row,) = with_standings([core | {"price": None}], share_stated=False)
    assert row["recommended"]


def test_jobs_of_their_own_are_compared_by_allocation() -> None:
    """Four allocations a side: the ratio of their geometric means, with Student's interval."""
    one = pl.DataFrame({"off": [1.0] * 4, "on": [0.5, 0.51, 0.49, 0.5]})
    other = pl.DataFrame({"off_with": [0.9] * 3, "on_with": [0.8, 0.81, 0.79]})
    named = tried(ONE, 6, 1).with_columns(paired=False).drop("pair", "block", *one.columns)
    named = named.drop(other.columns).head(1)

    def row_of(first: int) -> Row:
        speeds = pl.concat([one.head(first), other], how="diagonal")
        (row,) = judged(named.join(speeds, how="cross"))
        return row

    row = row_of(4)
    gain = np.exp(np.log(other["on_with"]).mean() - np.log(one["on"]).mean())
    assert (row["net"], row["gain"]) == pytest.approx((gain, gain))
    assert row["net_low"] > 1
    assert row["break_even"] is None
    assert row["standing"] is Standing.BETTER
    assert row_of(1)["net"] is None
    assert row_of(2)["standing"] in (Standing.ONLY_HERE, Standing.NOT_DECIDED)
    assert row_of(2)["next_allocation_low"] is None
