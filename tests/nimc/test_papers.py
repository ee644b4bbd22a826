"""docs/papers.md: no row is removed, and all commands, checks and headings that it names exist."""

import html
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
import pytest
from markupsafe import Markup

from analysis.compare import page as comparison
from analysis.compare.sides import compare_sides
from analysis.contention import evaluate
from analysis.contention.fit import fit_model
from analysis.contention.page import render as render_model
from analysis.pages.across import side_by_side
from analysis.pages.render import index_page
from analysis.report.data import load_run
from analysis.report.page import render
from nimc.cli.main import cli
from records.campaign import Campaign
from records.checkout import ROOT
from records.yaml_file import parse
from tests.analysis.compare.nights import night
from tests.analysis.contention.made_sweeps import noisy_sweep
from tests.analysis.made_counters import CASES, FIGURE_4, OPENSPEEDSHOP
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

#: P: Groves, Grant and Arnold. U: Slurm, ReFrame and Spack. N: Nelson and Palmieri. C: Denis,
#: Jeannot and Swartvagher. M: the multirail study.
ROW_NAMES = [
    *(f"P{number}" for number in range(1, 25)),
    *(f"U{number}" for number in range(1, 8)),
    *(f"{study}{number}" for study in "NCM" for number in range(1, 5)),
]
_ROW = re.compile(r"^\| *([PUNCM]\d+) *\|(.*)\|$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
#: In papers.md, headings and captions of pages are bold.
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_CAMPAIGN = re.compile(r"`nimc run (\w+)")
PAPERS = (ROOT / "docs" / "papers.md").read_text()


class PaperRow(NamedTuple):
    """The columns of a row of papers.md."""

    experiment: str
    commands: str
    headings: str
    evidence: str


def rows() -> dict[str, PaperRow]:
    """Return the rows of papers.md by their names."""
    return {
        name: PaperRow(*(cell.strip() for cell in cells.split("|")))
        for name, cells in _ROW.findall(PAPERS)
    }


def code_that_begins_with(prefix: str) -> list[str]:
    """Return the commands and keys in papers.md that begin with a prefix, each once."""
    codes = sorted({code for code in _CODE.findall(PAPERS) if code.startswith(prefix)})
    assert codes
    return codes


def test_no_row_was_removed():
    assert [name for name, _ in _ROW.findall(PAPERS)] == ROW_NAMES


@pytest.mark.parametrize("row", rows().values(), ids=list(rows()))
def test_a_row_has_commands_and_headings_or_says_what_is_missing(row):
    assert row.experiment
    assert row.evidence
    assert (row.commands and row.headings) or row.evidence.startswith("not yet: ")


@pytest.mark.usefixtures("every_case_feasible")
@pytest.mark.parametrize("name", sorted(set(_CAMPAIGN.findall(PAPERS))))
def test_every_campaign_can_be_planned(name, command):
    plan = command.json("plan", name, "--machine", "example_slurm")
    assert plan["cases"]


def test_the_command_in_the_multirail_campaign_gives_the_campaign_of_the_study():
    """The study has 256 nodes, and 80 to 500 runs of each policy."""
    text = (ROOT / "campaigns" / "multirail.yaml").read_text()
    (line,) = re.findall(r"^#   (sed .*) > own\.yaml$", text, re.MULTILINE)
    changed = subprocess.run(
        shlex.split(line), cwd=ROOT / "campaigns", capture_output=True, text=True, check=True
    ).stdout
    campaign = Campaign.model_validate(parse(changed, Path("own.yaml")).data)
    assert {entry.nodes for entry in campaign.workloads} == {256}
    assert (campaign.pairs.floor, campaign.pairs.maximum) == (80, 500)


def test_the_tools_of_the_paper_and_of_the_centres_are_among_the_factors():
    assert code_that_begins_with("factors: ") == [
        f"factors: {{tool: ['none', '{OPENSPEEDSHOP}']}}",
        f"factors: {{tool: ['none', '{FIGURE_4}']}}",
    ]


@pytest.mark.usefixtures("every_case_feasible")
@pytest.mark.parametrize("factors", code_that_begins_with("factors: "))
def test_factors_can_be_added_to_a_campaign(tmp_path, command, factors):
    text = (ROOT / "campaigns" / "single_node.yaml").read_text()
    path = tmp_path / "c.yaml"
    path.write_text(f"{text}\n{factors}\n")
    plan = command("plan", path, "--machine", "example_slurm")
    (tool,) = re.findall(r"'(\w+:\w+)'", factors)
    assert f"tool none, {tool}" in " ".join(plan.split())


@pytest.mark.parametrize("line", code_that_begins_with("nimc "))
def test_every_command_exists(line):
    command: click.Command = cli
    words = shlex.split(line)[1:]
    context = click.Context(command)
    while isinstance(command, click.Group):
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand
        command = subcommand
    known_options = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= known_options
    has_argument = any(isinstance(param, click.Argument) for param in command.params)
    assert has_argument or not words or words[0].startswith("--")


@pytest.mark.slow
def test_commands_that_need_no_machine_succeed_in_the_order_of_the_page(
    tmp_path, monkeypatch, command
):
    """RUN is a made sweep of the machine henri."""
    monkeypatch.chdir(tmp_path)
    sweep_document = noisy_sweep(evaluate.load_published("henri"), 0, 0.01).as_dict()
    Path("RUN").write_text(json.dumps(sweep_document))
    prefixes = ("nimc model ", "nimc simulate ", "nimc writers ")
    lines = [code for code in _CODE.findall(PAPERS) if code.startswith(prefixes)]
    assert len(lines) == 8
    for line in lines:
        command(*shlex.split(line)[1:])


@pytest.mark.parametrize("line", code_that_begins_with("reframe "))
def test_every_check_that_reframe_is_called_for_exists(line):
    words = shlex.split(line)
    options = dict(pairwise(words))
    checks = ROOT / options["-c"]
    assert checks.exists()
    assert options["-C"] in ("configs/M.py", "configs/localhost.py")
    if name := options.get("-n"):
        text = checks.read_text()
        assert f"class {name.removesuffix('_quick')}(" in text
        assert f"add_short_form(\n    {name.removesuffix('_quick')}," in text


@pytest.mark.slow
@pytest.mark.parametrize("line", code_that_begins_with("reframe "))
def test_reframe_lists_checks_for_every_command(tmp_path, line):
    words = shlex.split(line.replace("configs/M.py", "configs/localhost.py"))
    words[words.index("-r")] = "-l"
    program = Path(sys.executable).parent / words[0]
    command = [program, *words[1:], "--prefix", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (count,) = re.findall(r"^Found (\d+) check", done.stdout, re.MULTILINE)
    assert int(count) > 0


# Each heading and caption is on the page of a made run that has the data for it.


#: A function that makes data in a folder, and returns the page that shows them.
PageMaker = Callable[[Path], str]


def report_of(make_run: Callable[[Path], Path]) -> PageMaker:
    """Return a maker of the report of a run that `make_run` makes in a folder."""
    return lambda folder: render([load_run(make_run(folder), force=True)])


def _single_node_report(folder: Path) -> str:
    """Render a run in which STREAM has half its rate, and LAMMPS takes twice its time."""
    stream = made_paper_tables.runs("stream", [10.0] * 10, [5.0] * 10, "B/s")
    lammps = made_paper_tables.runs("lammps", [10.0] * 10, [20.0] * 10)
    return render([made_paper_tables.load(folder, stream, lammps)])


def _comparison_of_nights(folder: Path) -> str:
    """Render a comparison of two nights with different firmware."""
    before, after = (
        night(folder / name, STREAM, node={"bios": name}) for name in ("before", "after")
    )
    return comparison.render(compare_sides([before], [after]))


def _comparison_of_machines(folder: Path) -> str:
    """Render a comparison of two runs at two scales. The second is a million seconds later."""
    first = made_scaling.run_of(folder / "first", 16, 64)
    second = made_scaling.run_of(folder / "second", 16, 64, later_s=1e6)
    return comparison.render(compare_sides([first], [second]))


def _model_page(_: Path) -> str:
    measured = noisy_sweep(evaluate.load_published("henri"), 0, 0.01)
    return render_model(fit_model(measured), measured)


def _nights_page(_: Path) -> str:
    return index_page([], side_by_side([made_history("first")]))


def _campaign(name: str) -> Campaign:
    path = ROOT / "campaigns" / f"{name}.yaml"
    return Campaign.model_validate(parse(path.read_text(), path).data)


def _node_counts(name: str) -> list[int]:
    """Return the numbers of nodes of a campaign's only entry."""
    (entry,) = _campaign(name).workloads
    return list(entry.factors["nodes"])


def _scaling_report(folder: Path) -> str:
    """Render a run at the scales of the row's campaign, on nodes of 16 cores."""
    ranks = [16 * nodes for nodes in _node_counts("scaling")]
    return render([made_scaling.run_of(folder, *ranks)])


def _free_core_report(folder: Path) -> str:
    scales = _node_counts("core_reservation_scaling")
    return render([made_free_core.free_core_run(folder, scales=scales)])


def test_the_headings_of_daly_s_writers_need_two_scales():
    """ReFrame alone measures one scale, whose answer is in ReFrame's performance report."""
    one_scale = report_of(lambda folder: made_scaling.run_of(folder, 16).path)
    name = "Run time against ranks"
    assert not _has_heading(one_scale, name)
    row = rows()["U4"]
    assert f"of `nimc`: **{name}**;" in row.headings
    assert "ReFrame's performance report" in row.headings
    assert row.commands.endswith("--performance-report`")


def test_made_runs_of_scale_have_the_arms_and_levels_of_their_campaigns():
    assert _campaign("scaling").arms == ["off", *made_scaling.EFFECTS]
    reserved = _campaign("core_reservation_scaling")
    assert reserved.factors == {"reserved_cores": [0, 1]}
    arms = {name.partition("@")[0] for name in made_free_core.TIMES}
    assert set(reserved.arms) == arms


def test_the_nodes_of_figure_6c_are_those_of_its_campaign():
    """Figure 6c has 60, 480 and 960 processes, with 15 processes a node."""
    node_counts = _node_counts("core_reservation_scaling")
    assert [15 * nodes for nodes in node_counts] == [60, 480, 960]


def _numa_run(folder: Path) -> Path:
    return made_numa.run_of(folder, made_numa.TWO_NODES)


def _footprints_run(folder: Path) -> Path:
    return made_footprints.made_run(folder, counted=False)


def _rails_run(folder: Path) -> Path:
    return made_rails.rails_run(folder, made_rails.case())


def _throttling_run(folder: Path) -> Path:
    return write_run(folder / "run", swept(sweep(), pairs=8))


@pytest.mark.parametrize(
    ("campaign_name", "make_run"),
    [
        ("numa", _numa_run),
        ("cache_or_memory", _footprints_run),
        ("multirail", _rails_run),
        ("throttling", _throttling_run),
    ],
)
def test_made_runs_have_the_factors_and_levels_of_their_campaigns(
    tmp_path, campaign_name, make_run
):
    run = make_run(tmp_path)
    lines = [line for path in run.glob("samples/*.jsonl") for line in path.read_text().splitlines()]
    made_levels: dict[str, set[str]] = {}
    for line in lines:
        for factor, level in json.loads(line)["factors"].items():
            made_levels.setdefault(factor, set()).add(str(level))
    assert made_levels
    campaign = _campaign(campaign_name)
    entries = [{**campaign.factors, **entry.factors} for entry in campaign.workloads]
    planned = next(factors for factors in entries if factors.keys() == made_levels.keys())
    for factor, levels in made_levels.items():
        # Names of levels are stored without slashes. In a run without writers, factors of writers
        # have the level 'none'.
        stored = {str(level).replace("/", "_") for level in planned[factor]}
        assert levels - {"none"} <= stored


MINIFE = Case(name="minife", unit="s", better="lower", base=1.0, effects={"on": 1.5})
#: The report of a run without a workload of the paper, with too few pairs for an interval, and
#: without counts.
REPORT_WITHOUT_DATA = report_of(lambda folder: write_run(folder / "run", samples(MINIFE, pairs=2)))
#: Heading or caption -> a page with its data.
PAGES: dict[str, PageMaker] = {
    "Slowdown, estimate and interval": _single_node_report,
    "Table II": _single_node_report,
    "Table III": _single_node_report,
    "Estimators of Groves, Grant and Arnold": _single_node_report,
    "The machine": _single_node_report,
    # This run has the tool that the rows name.
    **dict.fromkeys(
        ("Why", "Roles", "Table IV"),
        report_of(lambda folder: made_causes.made_run(folder, CASES, tool=FIGURE_4)),
    ),
    "Run time against ranks": _scaling_report,
    "Processor time of the traffic": report_of(lambda folder: made_offload.made_run(folder, 0.12)),
    "The fabric's part": _free_core_report,
    "Interrupts on the free core": _free_core_report,
    **dict.fromkeys(
        ("Remedies", "Advice on remedies", "A core reserved only while traffic needs it"),
        report_of(_throttling_run),
    ),
    **dict.fromkeys(("RDMA and NUMA", "All cells"), report_of(_numa_run)),
    **dict.fromkeys(
        ("Cache or memory", "Loss by footprint and working set"), report_of(_footprints_run)
    ),
    **dict.fromkeys(("Figure 1", "Figure 2", "Figure 3"), report_of(_rails_run)),
    "What differs": _comparison_of_nights,
    "Both sides": _comparison_of_nights,
    "Run time against ranks, best of five": _comparison_of_machines,
    "Headroom of the memory": _nights_page,
    "Network and memory": _nights_page,
    "Table I": _nights_page,
    "Parameters": _model_page,
    "Errors": _model_page,
    "Bandwidth": _model_page,
    "All placements": _model_page,
}


@cache
def _headings(make_page: PageMaker) -> list[str]:
    """Return the texts of headings and captions of a page. The page is made without pictures."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
        page = make_page(Path(folder))
    headings = re.findall(r"<(h2|h3|summary|figcaption)\b[^>]*>(.*?)</\1>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for _, text in headings]


def _has_heading(make_page: PageMaker, name: str) -> bool:
    """Return whether a heading of a page is or begins with `name`."""
    return any(re.match(rf"{re.escape(name)}(?!\w)", text) for text in _headings(make_page))


def named_headings() -> list[str]:
    """Return all headings and captions that papers.md names, sorted."""
    return sorted({name for row in rows().values() for name in _BOLD.findall(row.headings)})


def test_a_page_is_made_for_every_heading_that_is_named():
    assert named_headings() == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_every_heading_is_on_a_page_with_its_data(name):
    assert _has_heading(PAGES[name], name)


def test_the_report_of_open_speedshops_counts_has_the_headings_that_its_row_names():
    """Open|SpeedShop does not count cycles here. Without cycles, no cause is named."""
    make_page = report_of(lambda folder: made_causes.made_run(folder, CASES, tool=OPENSPEEDSHOP))
    row = rows()["U7"]
    assert f"factors: {{tool: ['none', '{OPENSPEEDSHOP}']}}" in row.commands
    shown = [name for name in ("Why", "Roles", "Table IV") if _has_heading(make_page, name)]
    assert shown == ["Roles", "Table IV"]
    assert _BOLD.findall(row.headings) == shown


def test_a_heading_without_data_is_not_on_the_page():
    """Only the machine is described in every report."""
    assert [name for name in PAGES if _has_heading(REPORT_WITHOUT_DATA, name)] == ["The machine"]
