"""docs/papers.md: no row may go, and all that it names exists."""

import html
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pytest
from markupsafe import Markup

from analysis.compare import page as comparison
from analysis.compare.sides import compare_sides
from analysis.contention import evaluate
from analysis.contention.fit import fit_model
from analysis.contention.page import render as model_page
from analysis.pages.across import side_by_side
from analysis.pages.render import index_page
from analysis.report.data import load_run
from analysis.report.page import render
from nimc.cli.main import cli
from records.campaign import Campaign
from records.checkout import ROOT
from records.marked_yaml import parse
from tests.analysis.compare.nights import night
from tests.analysis.contention.made_sweeps import sweep as rates
from tests.analysis.made_counters import CASES, FIGURE_4, OF_SAMPLES
from tests.analysis.pages.made import made_history
from tests.analysis.remedies import made_offload, made_rails
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.subjects import (
    made_causes,
    made_footprints,
    made_free_core,
    made_numa,
    made_paper_tables,
    made_scaling,
)
from tests.analysis.synthetic import STREAM, Case, samples, write_run

IDS = [
    *(f"P{number}" for number in range(1, 25)),
    *(f"U{number}" for number in range(1, 8)),
    *(f"{study}{number}" for study in "NCM" for number in range(1, 5)),
]
_ROW = re.compile(r"^\| *([PUNCM]\d+) *\|(.*)\|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
#: A heading or caption of a page.
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_CAMPAIGN = re.compile(r"`nimc run (\w+)")
PAGE = (ROOT / "docs" / "papers.md").read_text()


def rows() -> dict[str, list[str]]:
    """Row -> what they did, how it is repeated, where it stands, what was shown."""
    return {name: [cell.strip() for cell in text.split("|")] for name, text in _ROW.findall(PAGE)}


def test_no_row_is_gone():
    assert [name for name, _ in _ROW.findall(PAGE)] == IDS
    for name, cells in rows().items():
        assert len(cells) == 4, name
        did, repeat, stands, shown = cells
        assert did, name
        assert shown, name
        # What cannot be repeated, or stands nowhere, is not there yet, and the row says so.
        assert (repeat and stands) or shown.startswith("not yet: "), name


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("name", sorted(set(_CAMPAIGN.findall(PAGE))))
def test_every_campaign_plans(name, command):
    plan = command.json("plan", name, "--machine", "example_slurm")
    assert plan["cases"]


def test_the_multirail_study_is_asked_for_as_its_campaign_says():
    """256 nodes, and 80 to 500 runs of each policy."""
    text = (ROOT / "campaigns" / "multirail.yaml").read_text()
    (line,) = re.findall(r"^#   (sed .*) > own\.yaml$", text, re.MULTILINE)
    own = subprocess.run(
        shlex.split(line), cwd=ROOT / "campaigns", capture_output=True, text=True, check=True
    ).stdout
    campaign = Campaign.model_validate(parse(own, Path("own.yaml")).data)
    assert {entry.nodes for entry in campaign.workloads} == {256}
    assert (campaign.pairs.floor, campaign.pairs.maximum) == (80, 500)


@pytest.mark.usefixtures("able")
def test_every_factor_can_be_added(tmp_path, command):
    text = (ROOT / "campaigns" / "single_node.yaml").read_text()
    factors = [code for code in _CODE.findall(PAGE) if code.startswith("factors: ")]
    assert factors[0] == f"factors: {{tool: ['none', '{FIGURE_4}']}}"
    for factor in factors:
        path = tmp_path / "c.yaml"
        path.write_text(f"{text}\n{factor}\n")
        plan = command("plan", path, "--machine", "example_slurm")
        assert "change within a block: tool none, " in plan


@pytest.mark.parametrize("line", sorted({c for c in _CODE.findall(PAGE) if c.startswith("nimc ")}))
def test_every_command_exists(line):
    leaf: click.Command = cli
    words = shlex.split(line)[1:]
    context = click.Context(leaf)
    while isinstance(leaf, click.Group):
        inner = leaf.get_command(context, words.pop(0))
        assert inner, line
        leaf = inner
    known = {option for param in leaf.params for option in param.opts}
    options = {word for word in words if word.startswith("--")}
    assert options <= known
    takes_words = any(isinstance(param, click.Argument) for param in leaf.params)
    assert takes_words or not words or words[0].startswith("--"), line


@pytest.mark.parametrize(
    "line", sorted({c for c in _CODE.findall(PAGE) if c.startswith("reframe ")})
)
def test_every_check_that_reframe_is_asked_for_exists(line):
    words = shlex.split(line)
    options = dict(pairwise(words))
    checks = ROOT / options.get("-c", "reframe_tests")
    assert checks.exists()
    assert options.get("-C") in (None, "configs/M.py", "configs/localhost.py")
    if name := options.get("-n"):
        text = checks.read_text()
        assert f"class {name.removesuffix('_quick')}(" in text
        assert f"short_form(\n    {name.removesuffix('_quick')}," in text


Maker = Callable[[Path], str]


def report(make: Callable[[Path], Path]) -> Maker:
    """The page of the run that is made in a folder."""
    return lambda folder: render([load_run(make(folder), force=True)])


def _one_node(folder: Path) -> str:
    off, on = [10.0] * 10, [20.0] * 10
    stream = made_paper_tables.runs("stream", off, [5.0] * 10, "B/s")
    lammps = made_paper_tables.runs("lammps", off, on)
    return render([made_paper_tables.load(folder, stream, lammps)])


def _comparison(folder: Path) -> str:
    sides = [night(folder / name, STREAM, node={"bios": name}) for name in ("before", "after")]
    return comparison.render(compare_sides(sides[:1], sides[1:]))


def _machines(folder: Path) -> str:
    sides = [
        made_scaling.run_of(folder / f"{number}", 16, 64, later_s=1e6 * number) for number in (0, 1)
    ]
    return comparison.render(compare_sides(sides[:1], sides[1:]))


def _model(_: Path) -> str:
    measured = rates(evaluate.load_published("henri"), 0, 0.01)
    return model_page(fit_model(measured), measured)


def _campaign(name: str) -> Campaign:
    path = ROOT / "campaigns" / f"{name}.yaml"
    return Campaign.model_validate(parse(path.read_text(), path).data)


def _scales(name: str) -> list[int]:
    """The numbers of nodes that a campaign asks for."""
    (entry,) = _campaign(name).workloads
    return list(entry.factors["nodes"])


def _at_scale(folder: Path) -> str:
    """At the ranks of the row's campaign, of nodes of 16 cores."""
    return render([made_scaling.run_of(folder, *(16 * nodes for nodes in _scales("scaling")))])


def _free_core(folder: Path) -> str:
    return render(
        [made_free_core.free_core_run(folder, scales=_scales("core_reservation_scaling"))]
    )


def test_made_runs_of_scale_have_the_arms_and_levels_of_their_campaigns():
    assert _campaign("scaling").arms == ["off", *made_scaling.EFFECTS]
    reserved = _campaign("core_reservation_scaling")
    assert reserved.factors == {"reserved_cores": [0, 1]}
    arms = {name.partition("@")[0] for name in made_free_core.TIMES}
    assert set(reserved.arms) == arms
    # As many as had 60, 480 and 960 processes of 15 a node in figure 6c.
    assert [15 * nodes for nodes in _scales("core_reservation_scaling")] == [60, 480, 960]


def _numa(folder: Path) -> Path:
    return made_numa.run_of(folder, made_numa.TWO_NODES)


def _cache_or_memory(folder: Path) -> Path:
    return made_footprints.made_run(folder, counted=False)


def _multirail(folder: Path) -> Path:
    return made_rails.rails_run(folder, made_rails.case())


def _throttling(folder: Path) -> Path:
    return write_run(folder / "run", swept(sweep(), pairs=8))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("numa", _numa),
        ("cache_or_memory", _cache_or_memory),
        ("multirail", _multirail),
        ("throttling", _throttling),
    ],
)
def test_made_runs_have_the_factors_and_levels_of_their_campaigns(tmp_path, name, make):
    campaign = _campaign(name)
    paths = make(tmp_path).glob("samples/*.jsonl")
    samples = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    levels: dict[str, set[str]] = {}
    for sample in samples:
        for factor, level in sample["factors"].items():
            levels.setdefault(factor, set()).add(str(level))
    entries = [{**campaign.factors, **entry.factors} for entry in campaign.workloads]
    planned = next(factors for factors in entries if factors.keys() == levels.keys())
    for factor, measured in levels.items():
        # Names of levels are stored without slashes; without a writer its factors are 'none'.
        named = {str(level).replace("/", "_") for level in planned[factor]}
        assert measured - {"none"} <= named


#: No workload of the paper, too few pairs for an interval, and nothing counted.
LITTLE = report(
    lambda folder: write_run(
        folder / "run",
        samples(
            Case(name="minife", unit="s", better="lower", base=1.0, effects={"on": 1.5}), pairs=2
        ),
    )
)
#: Heading or caption -> a made run that has its data.
MADE: dict[str, Maker] = {
    **dict.fromkeys(
        (
            "Slowdown, estimate and interval",
            "Table II",
            "Table III",
            "Estimators of Groves, Grant and Arnold",
            "The machine",
        ),
        _one_node,
    ),
    **dict.fromkeys(
        ("Why", "Roles", "Table IV"),
        # By the tool that the row names.
        report(lambda folder: made_causes.made_run(folder, CASES, tool=FIGURE_4)),
    ),
    "Run time against ranks": _at_scale,
    "Processor time of the traffic": report(lambda folder: made_offload.made_run(folder, 0.12)),
    **dict.fromkeys(
        ("The fabric's part", "Interrupts on the free core"),
        _free_core,
    ),
    **dict.fromkeys(
        ("Remedies", "Advice on remedies", "A core reserved only while traffic needs it"),
        report(_throttling),
    ),
    **dict.fromkeys(
        ("RDMA and NUMA", "All cells"),
        report(_numa),
    ),
    **dict.fromkeys(
        ("Cache or memory", "Loss by footprint and working set"), report(_cache_or_memory)
    ),
    **dict.fromkeys(
        ("Figure 1", "Figure 2", "Figure 3"),
        report(_multirail),
    ),
    **dict.fromkeys(("What differs", "Both sides"), _comparison),
    "Run time against ranks, best of five": _machines,
    **dict.fromkeys(
        ("Headroom of the memory", "Network and memory", "Table I"),
        lambda _: index_page([], side_by_side([made_history("first")])),
    ),
    **dict.fromkeys(("Parameters", "Errors", "Bandwidth", "All placements"), _model),
}


@cache
def _headings(make: Maker) -> list[str]:
    """Texts of the headings and captions of the page of a made run, without its pictures."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
        page = make(Path(folder))
    headings = re.findall(r"<(h2|h3|summary|figcaption)\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for _, text in headings]


def _has(make: Maker, name: str) -> bool:
    return any(re.match(rf"{re.escape(name)}(?!\w)", text) for text in _headings(make))


def named() -> list[str]:
    """All headings and captions that the page names."""
    return sorted({name for cells in rows().values() for name in _BOLD.findall(cells[2])})


def test_a_page_is_made_for_every_heading_that_is_named():
    assert named() == sorted(MADE)


@pytest.mark.parametrize("name", MADE)
def test_every_heading_is_on_the_page_of_a_run_that_has_its_data(name):
    assert _has(MADE[name], name)


def test_the_page_of_open_speedshops_counts_has_what_its_row_names():
    """It is given no event for cycles, without which no cause is named."""
    make = report(lambda folder: made_causes.made_run(folder, CASES, tool=OF_SAMPLES))
    did = rows()["U7"]
    assert f"factors: {{tool: ['none', '{OF_SAMPLES}']}}" in did[1]
    named = [name for name in ("Why", "Roles", "Table IV") if _has(make, name)]
    assert named == _BOLD.findall(did[2]) == ["Roles", "Table IV"]


def test_without_its_data_a_heading_is_not_there():
    # The machine is described on every page.
    assert [name for name in MADE if _has(LITTLE, name)] == ["The machine"]
