"""One wrong measurement, anywhere, does not decide the fit of any published machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from analysis.contention import evaluate
from analysis.contention.fit import fit
from analysis.contention.parameters import Model
from analysis.contention.predict import placements, predict
from analysis.contention.sweep import Sweep, load
from studies.made_sweeps import sweep
from tests.reference import REFERENCE, needs_reference

RATES = ("comp_alone_b_s", "comm_alone_b_s", "comp_par_b_s", "comm_par_b_s")


def made(truth: Model, seed: int, noise: float) -> Sweep:
    return sweep(truth, seed, noise, [(node, node) for node in truth.calibrated_nodes()])


def moved(truth: Model, one: Model, other: Model) -> float:
    """Largest relative difference of any rate, on any placement and number of cores."""
    found = 0.0
    for at in placements(truth):
        a, b = predict(one, *at), predict(other, *at)
        ratios = [getattr(a, rate) / getattr(b, rate) for rate in RATES]
        found = max(found, float(np.nan_to_num(np.abs(np.array(ratios) - 1), nan=9.0).max()))
    return found


def spoilt(clean: Sweep, which: slice = slice(None)) -> Iterator[tuple[str, Sweep]]:
    """The sweep with one rate of the local placement halved or doubled, each in turn."""
    local = [i for i, p in enumerate(clean.points) if p.comp_node == 0]
    for i in local[which]:
        for rate in RATES:
            for factor in (0.5, 2.0):
                points = list(clean.points)
                value = getattr(points[i], rate) * factor
                points[i] = dataclasses.replace(points[i], **{rate: value})
                name = f"{rate} at {points[i].n} x {factor}"
                yield name, dataclasses.replace(clean, points=points)


@pytest.mark.slow
@pytest.mark.parametrize("name", evaluate.published_names())
def test_one_outlier_anywhere(name):
    truth = evaluate.load_published(name)
    clean = made(truth, 1, 0.01)
    undisturbed = fit(clean)
    # At every third number of cores and the last ones.
    for what, wrong in (*spoilt(clean, slice(0, None, 3)), *spoilt(clean, slice(-3, None))):
        assert moved(truth, fit(wrong), undisturbed) <= 0.15, f"{name}: {what}"


def test_one_outlier_among_the_last_numbers_of_cores():
    truth = evaluate.load_published("dahu")
    clean = made(truth, 1, 0.01)
    undisturbed = fit(clean)
    for what, wrong in spoilt(clean, slice(-2, None)):
        assert moved(truth, fit(wrong), undisturbed) <= 0.15, what


@needs_reference
@pytest.mark.parametrize(("file", "name"), [("pyxis5", "pyxis"), ("billy_out", "billy")])
def test_sweeps_that_once_misled_the_fit(file, name):
    # pyxis with 5 % noise: least squares ended at 2,147 GB/s, with predictions of three times what
    # was measured. billy with one rate doubled: no capacity, communications 68 % off.
    truth = evaluate.load_published(name)
    assert moved(truth, truth, fit(load(REFERENCE / "fit_defects" / f"{file}.json"))) < 0.15
