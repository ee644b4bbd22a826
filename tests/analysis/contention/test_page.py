"""Tests the page of a contention model.

It needs no other files, has both colour schemes, and shows measured points.
"""

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest

from analysis.contention import evaluate
from analysis.contention.fit import fit_model
from analysis.contention.page import render
from analysis.contention.parameters import UNKNOWN
from analysis.report.plots import COLOURS
from tests.analysis.contention.made_sweeps import noisy_sweep


def svgs(page):
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_published_machine():
    page = render(evaluate.load_published("henri"), None)
    figures = svgs(page)
    # There are figures of the two calibrated placements, and one with all four placements.
    assert len(figures) == 3
    titles = re.findall(r"computations (\d), communications (\d)</text>", figures[2])
    assert sorted(titles) == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    assert "Errors</h2>" not in page
    assert "73423.0" in page  # t_par_max, Table 8
    # The page loads no other file, and figures use variables for colours of both schemes.
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert not re.search(r"url\((?!['\"]?#)", page)
    for figure in figures:
        ET.fromstring(figure)
        assert not [light for light, _ in COLOURS.values() if light in figure]
        assert "var(--" in figure


@pytest.mark.slow
def test_measurements_and_their_errors():
    truth = evaluate.load_published("henri")
    measured = dataclasses.replace(noisy_sweep(truth, 0, 0.01), notes=["nodes are <emulated>"])
    page = render(fit_model(measured), measured)
    assert "nodes are &lt;emulated&gt;" in page
    assert "Errors</h2>" in page
    assert "Points are measured" in page
    # So are the caveats of measurements beside a published model.
    assert "nodes are &lt;emulated&gt;" in render(truth, measured)
    # Computations without communications on node 0 are twice the prediction: 2 * 72.6 GB/s with 17
    # cores.
    points = [
        dataclasses.replace(p, comp_alone_b_s=2 * p.comp_alone_b_s)
        for p in noisy_sweep(truth, 0, 0.0, [(0, 0)]).points
    ]
    figures = svgs(render(truth, dataclasses.replace(measured, points=points)))
    labels = [int(text) for text in re.findall(r">(\d+)</text>", figures[-1])]
    assert max(labels) >= 140
    # The figure has at least a point for each of four rates at 18 numbers of cores.
    assert figures[-1].count("<use") >= 4 * 18


@pytest.mark.usefixtures("undrawn")
def test_a_model_without_parameters_has_empty_figures_and_reasons():
    known = evaluate.load_published("dahu")
    page = render(dataclasses.replace(known, local=UNKNOWN, remote=None), None)
    assert len(svgs(page)) == 2
    truth = dataclasses.replace(known, remote=None, numa_nodes=1)
    page = render(fit_model(noisy_sweep(truth, 0, 0.01)), None)
    assert "the machine has no NUMA node on another socket" in page
