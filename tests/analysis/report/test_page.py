"""Tests the page of a report: its HTML, figures, first sentences and next steps.

The HTML must also serve readers who do not see the page or do not use a pointer.
"""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from matplotlib.axes import Axes

from analysis.effects.result import Result, Verdict
from analysis.report import page, plots
from analysis.report.data import RunData, load_run
from analysis.report.first_sentences import failures, headline, next_step, summary
from analysis.report.plots import (
    COLOURS,
    colour_variable,
    drawing,
    light_colour,
    marker,
    themed_svg,
)
from analysis.report.sections import sections_shown
from analysis.report.sentences import SENTENCES
from analysis.statistics.interval import Estimate, Interval, estimate_text
from analysis.subjects import case_pictures, first_picture
from analysis.subjects.case_runs import control_text
from records.arms import ARMS
from records.notes import Note
from records.run import Requirements
from records.sample import Sample
from tests.analysis.drawn import plain, texts
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.report.html import Page
from tests.analysis.synthetic import (
    LAMMPS,
    STREAM,
    commands,
    header,
    loaded_run,
    reject,
    remedies,
    samples,
    two_unit_samples,
    write_run,
)
from tests.captures import RUN_QUICK


def _runs_with_rejected_ones() -> list[Sample]:
    runs = samples(STREAM, blocks=2, pairs=6) + samples(LAMMPS, pairs=10)
    runs[4] = reject(runs[4], "rejected", "0.61 of the rate alone, 0.9 asked for")
    runs[9] = reject(runs[9], "injector_died", "writer 0 ended")
    return runs


def _run(tmp_path: Path, runs: list[Sample] | None = None, **changes: object) -> RunData:
    return loaded_run(tmp_path / "run", runs or _runs_with_rejected_ones(), header(**changes))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return _run(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def text(run: RunData) -> str:
    return page.render([run])


def well_formed(*runs: RunData) -> str:
    """Return the page of runs, after a check that it is well-formed."""
    html = page.render(runs)
    Page(html)
    return html


@pytest.mark.slow
def test_the_page_is_well_formed_and_loads_nothing(text: str) -> None:
    outside = [x for x in Page(text).addresses if x and not x.startswith(("#", "data:"))]
    assert outside == []
    assert "@import" not in text
    assert re.search(r"url\((?!#)", text) is None


# Figures.


def test_every_sample_is_a_point_with_run_node_and_reason_and_many_are_one_picture(
    run: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = run.samples.filter(case="stream")
    svg = case_pictures.samples_plot(stream, "B/s").svg("x")
    titles = Page(svg).texts["title"]
    # There are two blocks, each with a warm-up and six pairs of four runs.
    assert len(titles) == len(set(titles)) == svg.count("<use ") == 50
    (key,) = run.samples.filter(outcome="injector_died")["key"]
    ended = "rejected: no figure of merit; injector died: writer 0 ended"
    assert f"{key} on synthetic-0, {ended}" in titles

    monkeypatch.setattr(case_pictures, "RASTER_ABOVE", 10)
    svg = case_pictures.samples_plot(stream, "B/s").svg("x")
    assert svg.count("<use ") < 20
    assert "data:image/png;base64," in svg
    Page(svg)


def test_points_lie_along_the_figure_of_merit_treatments_below_each_other(tmp_path: Path) -> None:
    """Rates in GB/s are on the horizontal axis. `off` is the fastest treatment, and at the top."""
    levels = {f"on@rate={share}%": {"rate": f"{share}%"} for share in (25, 50)}
    case = replace(STREAM, effects=dict.fromkeys(levels, 1.1), factors=levels)
    svg = case_pictures.samples_plot(_run(tmp_path, samples(case, pairs=6)).samples, "B/s").svg("x")
    assert texts(svg).index("rate in GB/s") < texts(svg).index("off")
    places = []
    for strip in (0, 2):
        (points,) = re.findall(rf'<g id="x-points-{strip}-counts">.*?</g>\s*</g>', svg, re.DOTALL)
        marks = re.findall(r'<use [^>]*x="([^"]+)" y="([^"]+)"', points)
        places.append([tuple(map(float, mark)) for mark in marks])
    fastest, slower = places
    assert max(y for _, y in fastest) < min(y for _, y in slower)
    assert sum(x for x, _ in fastest) > sum(x for x, _ in slower)


def test_figures_follow_the_colour_scheme_and_say_what_they_show(text: str) -> None:
    svgs = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    looks = [*COLOURS.values(), *(arm.colours for arm in ARMS.values())]
    assert not any(light in svgs for light, _ in looks)
    assert re.findall(r"#[0-9a-f]{6}\b", svgs) == []
    assert "var(--on)" in svgs
    assert f"--on:{ARMS['on'].colours[1]}" in text
    assert "<title>block 1, pair 5: 1." in text
    labels = re.findall(r'<svg role="img" aria-label="([^"]*)"', text)
    assert len(labels) == 6  # two for each case, and a picture for wide and one for narrow screens
    assert [label for label in labels if not re.search(r"\d\.\d\d", label)] == []
    captions = Page(text).texts["figcaption"]
    assert len(captions) == 5
    assert all(caption.endswith(" emulated") for caption in captions)


TREATMENTS = ["off", "on", "constant", "daly", "spin", "aa", "an arm of one's own"]


def test_arms_differ_in_colour_and_shape_and_from_rejected_runs() -> None:
    assert len({light_colour(name) for name in TREATMENTS}) == len(TREATMENTS)
    assert len({marker(name) for name in TREATMENTS}) == len(TREATMENTS)
    assert not {"x", "X"} & {marker(name) for name in TREATMENTS}

    # Signs in a name, such as `@ = , %`, are no part of a CSS variable.
    named = {"on@rate=25%,reserved_cores=1": "on", "mine@rate=25%": "other", "ink": "ink"}
    assert {name: colour_variable(name) for name in named} == named
    # Each light colour is replaced by its variable, so they must differ. `full` is another name for
    # `on`.
    arms = [arm.colours[0] for name, arm in ARMS.items() if name != "full"]
    colours = [*arms, *(light for light, _ in COLOURS.values())]
    assert len(set(colours)) == len(colours)


def test_a_figure_is_drawn_once_and_labels_keep_what_looks_like_an_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, draw = [], Axes.draw
    monkeypatch.setattr(
        Axes, "draw", lambda axes, renderer: (times.append(1), draw(axes, renderer))
    )
    with drawing(2.0) as figure:
        figure.subplots().set_xlabel("grid=fine, a < b")
        svg = themed_svg(figure, "f", 'a "title" & more')
    assert len(times) == 1
    assert "grid=fine, a &lt; b" in svg
    assert 'aria-label="a &#34;title&#34; &amp; more"' in svg
    assert 'id="f-figure_1"' in svg


# The page.


@pytest.fixture(scope="module", params=["two workloads", "remedies"])
def html(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "two workloads":
        shown: str = request.getfixturevalue("text")
        return shown
    runs = swept(sweep(), pairs=6)
    runs[3] = reject(runs[3], "rejected", "slow")
    run = write_run(tmp_path_factory.mktemp("page") / "run", runs)
    return page.render([load_run(run)])


@pytest.mark.slow
def test_the_page_can_be_read_by_a_screen_reader(html: str) -> None:
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert len(tables) >= 8
    for table in tables:
        assert re.match(r'<table class="cards(?: question)?">\s*<caption>[^<]{5,}</caption>', table)
    headers = re.findall(r"<th\b[^>]*>", html)
    assert [header for header in headers if "scope=" not in header] == []
    assert re.search(r"<body>\s*<a class=\"skip\" href=\"#main\">", html)
    assert html.count('id="main"') == 1
    (contents,) = re.findall(r"<nav.*?</nav>", html, re.DOTALL)
    links = re.findall(r'href="#([^"]+)"', contents)
    sections = re.findall(r'<section (?:class="(?:panel|silent)" )?id="([^"]+)"', html)
    assert links == sections
    assert html.index("Next: ") < html.index("<nav")
    # Names with signs, such as `on@reserved_cores=1,rate=25%`, give valid ids.
    names = re.findall(r'\b(?:id|href)="#?([^"]*)"', html) + re.findall(r"var\(--([^)]*)\)", html)
    assert not [name for name in names if not re.fullmatch(r"[\w.-]*|data:,", name)]
    declared = re.findall(r"--([^:;{}]+):", html.split("</style>")[0])
    assert {*re.findall(r"var\(--([^)]*)\)", html)} - {"columns"} <= {*declared}


def test_effects_stand_with_their_intervals_and_writers_with_their_worst_share(
    run: RunData, text: str
) -> None:
    for row in run.results:
        assert f"{row.slowdown.value:.3f}" in text
        assert f"{row.slowdown.low:.3f}\u2013{row.slowdown.high:.3f}" in text
    worst = run.samples.filter(case="stream", arm="on", status="counts")["writer_share"].min()
    line = "on: 1 writer, ucx over shared memory, writes of 64 KiB"
    assert f"{line}; never below {100 * worst:.0f} % of" in text
    # The first table has a row for each effect, and no other rows. The control is a column.
    (table,) = re.findall(r"<caption>Slowdown by workload.*?</table>", text, re.DOTALL)
    assert table.count('<th scope="row"') == sum(row.role == "effect" for row in run.results) == 2


def test_the_worst_share_of_limited_writers_is_that_of_the_requested_rate(tmp_path: Path) -> None:
    """As for `verify.min_share`, the share is that of the lower one of the two rates."""
    times = {"on": 2.0, "on@rate=25%": 1.5, "aa": 1.0}
    run = loaded_run(tmp_path / "run", samples(remedies(times=times), pairs=6))
    (shown,) = (
        section for section in sections_shown("case", run.cases[0]) if section.id == "nodes"
    )
    endings = {
        line.partition(":")[0]: line.rpartition("% of the ")[2]
        for line in vars(shown.view)["writers_lines"]
    }
    assert endings == {
        "on": "rate alone",
        "on@rate=25%": "requested rate, or of the rate alone if that is lower",
    }


@pytest.mark.usefixtures("undrawn")
def test_a_baseline_whose_repeat_lies_off_1_is_marked(run: RunData, text: str) -> None:
    off_one = Interval(1.1, 1.2)
    row = replace(_effect(run, noise_floor=off_one), case="stream")
    shown = plain(page.render([replace(run, results=[row])]))
    assert "baseline whose repeat lies off 1 : stream" in shown
    assert "lies off 1" not in text
    assert [plots.is_steady(interval) for interval in (None, off_one, Interval(0.9, 1.0))] == [
        True,
        False,
        True,
    ]


@pytest.mark.usefixtures("undrawn")
def test_provenance_is_shown_once_and_only_differences_for_each_block(run: RunData) -> None:
    """Two blocks on one node used different compilers."""
    records = {"a": {"seed": 1, "compiler": "gcc 12"}, "b": {"seed": 1, "compiler": "gcc 13"}}
    case, block = pl.col("case").cast(pl.String), pl.col("block")
    second = (case == "stream") & (block == 1)
    blocks = run.samples.with_columns(
        provenance=pl.when(second).then(pl.lit("b")).otherwise(pl.lit("a"))
    )
    text = well_formed(replace(run, samples=blocks, provenance=records))
    (part,) = re.findall(r"<summary>Provenance.*?</details>", text, re.DOTALL)
    assert plain(part).endswith(
        " seed 1 lammps, block 0, stream, block 0 a compiler gcc 12 stream, block 1 b compiler"
        " gcc 13"
    )


@pytest.mark.usefixtures("undrawn")
def test_runs_without_samples_or_without_an_end_have_a_page(tmp_path: Path) -> None:
    lost = [reject(s, "no_fom", "no Loop time") for s in samples(LAMMPS, pairs=2)]
    text = well_formed(_run(tmp_path / "lost", lost, finished_s=None, commit=None))
    assert "This run is not complete." in text
    assert "too few pairs" in text
    # If there is no effect, the table has the repeated baseline.
    repeated = samples(replace(STREAM, effects={"aa": 1.0}), pairs=6)
    assert "Slowdown by workload" in well_formed(_run(tmp_path / "repeated", repeated))
    empty = loaded_run(tmp_path / "empty", [])
    assert "No samples." in well_formed(empty)
    assert summary(empty)[0].startswith("Nothing was measured")
    many = [reject(s, "rejected", "slow") for s in samples(STREAM, pairs=51)]
    folder = write_run(tmp_path / "many", many)
    with (folder / "samples" / "stream.jsonl").open("a") as file:
        file.write('{"key": "stream/0/6/o')
    text = well_formed(load_run(folder))
    assert text.count('data-label="run"') == 200  # there are 4 x 51, and a warm-up
    assert "the first 200; samples.parquet has all" in text
    assert "stream.jsonl is incomplete and is ignored" in text


@pytest.mark.usefixtures("undrawn")
def test_several_runs_share_a_page_newest_first_and_hardware_is_not_called_emulated(
    tmp_path: Path,
) -> None:
    measured = samples(replace(STREAM, transport="InfiniBand", origin="synthetic-1"), pairs=6)
    runs = [
        _run(tmp_path / name, measured, started_s=started_s, run=name)
        for name, started_s in (("monday", 1e9), ("tuesday", 2e9))
    ]
    text = well_formed(*runs)
    assert text.index("run tuesday") < text.index("run monday")
    assert "mulated" not in re.sub(r"<style>.*</style>", "", text, flags=re.DOTALL)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("effects", [{"on": 1.3, "aa": 1.0}, {"on": 1.3, "spin": 1.1, "aa": 1.0}])
def test_the_key_of_the_first_picture_has_a_control_if_there_is_one(
    tmp_path: Path, effects: dict[str, float]
) -> None:
    text = well_formed(_run(tmp_path, samples(replace(STREAM, effects=effects), pairs=6)))
    assert ("</i>control</span>" in text) == ("spin" in effects)


def test_figures_of_merit_of_two_units_are_drawn_apart(tmp_path: Path) -> None:
    text = page.render([_run(tmp_path, two_unit_samples())])
    assert "Every sample in B/s" in text
    assert "Every sample in s" in text


def test_cases_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """This holds for every table. Names of files and times of runs have the opposite order."""
    cases = [replace(STREAM, name=f"stream@{nodes}") for nodes in (10, 2)]
    run = _run(tmp_path, [sample for case in cases for sample in samples(case, pairs=6)])
    assert list(run.samples["case"].unique(maintain_order=True)) == ["stream@2", "stream@10"]
    assert [row.case for row in run.results if row.role == "effect"] == ["stream@2", "stream@10"]


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_nimc_measure_is_headed_by_the_command_and_speaks_of_options(
    tmp_path: Path,
) -> None:
    name = "solver-0a1b2c"
    entry = {"check": "command", "case": name, "set": {"command": "./solver <small>"}}
    runs = samples(replace(STREAM, name=name), pairs=5)
    resolved = {"campaign": {"workloads": [entry]}}
    run = _run(tmp_path / "run", runs, campaign=name, campaign_text="name: x", resolved=resolved)
    text = well_formed(run)
    command = re.escape("<code>./solver &lt;small&gt;</code>")
    tags = re.findall(rf"<(\w+)[^<>]*>{command}", text)
    assert sorted(tags) == ["a", "h2", "p"]
    (contents,) = re.findall(r"<nav.*?</nav>", text, re.DOTALL)
    assert contents.count("./solver") == 1
    assert contents.count(f">{name}</a>") == 1
    words = plain(re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL))
    assert "Fewer pairs count than are required" in words
    # Where the word campaign is left, it is about the crate's campaign file, or about campaigns in
    # general.
    left = re.findall(r"\S+ \S*[Cc]ampaign\S*", words)
    assert left == ["run campaign.yaml", "a campaign", "a campaign"]


# The first sentences of the page.


def _effect(run: RunData, **changes: object) -> Result:
    row = next(row for row in run.results if (row.case, row.arm) == ("lammps", "on"))
    return replace(row, **changes)  # type: ignore[arg-type]


def _summary_of(run: RunData, *rows: Result) -> list[str]:
    """Return the first sentences of a run with these results, which requested no case."""
    requirements = Requirements({}, min_share=0.5, retries=2)
    return summary(replace(run, results=list(rows), header=replace(run.header, asked=requirements)))


@pytest.mark.parametrize(
    ("verdict", "opening"),
    [
        (Verdict.CONTENTION, "Memory contention under network writes"),
        (Verdict.SLOWER, "Slower under network writes"),
        (Verdict.EMULATED, "Slower under network writes"),
        (Verdict.NO_EFFECT, "No effect of network writes"),
        (Verdict.SPEED_UP, "Faster under network writes"),
        (Verdict.NOT_ABOVE_CONTROL, "Slower, but lost cores may explain it"),
        (Verdict.BASELINE_UNSTABLE, "No verdict yet"),
        (Verdict.INCONCLUSIVE, "No slowdown is shown"),
    ],
)
def test_the_headline_is_the_slowdown_with_its_interval(
    run: RunData, verdict: Verdict, opening: str
) -> None:
    row = _effect(run, verdict=verdict, slowdown=Estimate(1.612, 1.51, 1.71))
    words = headline([row])
    assert words.startswith(f"{opening}: lammps takes 1.61 [1.51, 1.71] times as")
    assert words.endswith(f" long ({verdict}).") == ("network" not in opening)
    if "network" in opening:
        reads = headline([replace(row, direction="read")])
        assert reads == words.replace("network writes", "network reads")
    others = [replace(row, case=f"case {number}") for number in range(5)]
    assert headline(others).endswith(", 2 more below.")


def test_the_interval_of_the_next_allocation_leads_and_that_of_the_verdict_stands_beside_it(
    tmp_path: Path,
) -> None:
    """Allocations differ so much that the next one may show no loss."""
    case = replace(STREAM, effects={"on": 1.1, "spin": 1.0, "aa": 1.0}, block_noise=0.05)
    run = _run(tmp_path, samples(case, blocks=3, pairs=6))
    row = next(row for row in run.results if row.role == "effect")
    assert row.verdict is Verdict.EMULATED
    assert row.slowdown
    assert row.next
    assert row.next.low < 1 < row.slowdown.low
    leading = Estimate(row.slowdown.value, row.next.low, row.next.high)
    assert headline([row]).endswith(f"stream takes {estimate_text(leading)} times as long.")
    (intervals,) = [text for text in summary(run) if text.startswith("Intervals: ")]
    assert "next allocation" in intervals
    assert intervals.endswith(f" stream {row.slowdown.low:.3f}-{row.slowdown.high:.3f}.")
    shown = well_formed(run)
    ends = [f"{end.low:.3f}\u2013{end.high:.3f}" for end in (row.next, row.slowdown)]
    assert f"{row.slowdown.value:.3f} {ends[0]} these: {ends[1]}" in plain(shown)
    assert " Interval for the next allocation: " in shown
    assert "thin line : where the next allocation is expected" in plain(shown)
    svg = first_picture.overview_plot([row], [None], "x").svg("x")
    assert estimate_text(leading) in texts(svg)
    assert len(re.findall(r"stroke: var\(--on\); stroke-width: 1.2[;\"]", svg)) == 1


def test_the_headline_names_cases_with_memory_contention_and_cases_that_may_have_lost_cores(
    run: RunData,
) -> None:
    row = _effect(run, slowdown=Estimate(1.612, 1.51, 1.71))
    by_verdict = {verdict: replace(row, case=verdict.name, verdict=verdict) for verdict in Verdict}
    sentence = headline(
        [
            by_verdict[Verdict.CONTENTION],
            by_verdict[Verdict.SLOWER],
            by_verdict[Verdict.INCONCLUSIVE],
        ]
    )
    assert sentence == (
        "Slower under network writes: CONTENTION takes 1.61 [1.51, 1.71] times as long (memory"
        " contention), SLOWER takes 1.61 [1.51, 1.71] times as long."
    )
    sentence = headline([by_verdict[Verdict.NO_CONTROL], by_verdict[Verdict.INCONCLUSIVE]])
    assert sentence.startswith("Slower, but lost cores may explain it: NO_CONTROL takes 1.61")
    assert "INCONCLUSIVE" not in sentence


@pytest.mark.parametrize(
    ("slowdown", "floor", "verdict", "begin"),
    [
        # The band of the repeated baseline reaches further from 1 than the effect, on either side.
        # In the last two cases, it does not.
        (
            1.10,
            (0.95, 1.12),
            Verdict.INCONCLUSIVE,
            "The baseline varies by more than the effect. No",
        ),
        (
            1.10,
            (0.85, 1.02),
            Verdict.INCONCLUSIVE,
            "The baseline varies by more than the effect. No",
        ),
        (
            0.90,
            (0.85, 1.02),
            Verdict.INCONCLUSIVE,
            "The baseline varies by more than the effect. No",
        ),
        (1.10, (0.95, 1.05), Verdict.INCONCLUSIVE, "No slowdown is shown: "),
        (1.01, (0.98, 1.02), Verdict.NO_EFFECT, "No effect of network writes: "),
    ],
)
def test_the_headline_begins_with_a_baseline_that_varies_more_than_the_effect(
    run: RunData, slowdown: float, floor: tuple[float, float], verdict: Verdict, begin: str
) -> None:
    effect = Estimate(slowdown, slowdown - 0.2, slowdown + 0.2)
    row = _effect(run, slowdown=effect, noise_floor=Interval(*floor), verdict=verdict)
    assert headline([row]).startswith(begin)
    steady = replace(row, case="steady", noise_floor=Interval(1.0, 1.0))
    named = "The baseline of lammps varies by more than the effect. "
    assert headline([row, steady]).startswith(named) == ("varies" in begin)


@pytest.mark.usefixtures("undrawn")
def test_counters_come_last_and_folded() -> None:
    """First come the cases, then the papers' tables, then sections on counters."""
    text = well_formed(load_run(RUN_QUICK))
    titles = ['<h3 style="margin-top:0">lammps', "Table III: applications, here and as published <"]
    titles += [
        f"<details><summary>{title}" for title in ("Processor time", "Counters of", "Not counted")
    ]
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert "<p>Disturbed: other programs kept 1.3 of 2 hardware threads busy" in text


def test_a_requested_case_without_pairs_is_not_measured(tmp_path: Path) -> None:
    """One case has no run, and one has only rejected runs.

    A case that requests only baselines needs no pair.
    """
    arms = ["off", "on", "aa"]
    cases = {"stream": arms, "lammps": arms, "hpccg": arms, "hpccg@layouts": ["off"]}
    lost = [reject(sample, "no_fom", "no Loop time") for sample in samples(LAMMPS, pairs=1)]
    run = _run(
        tmp_path,
        samples(STREAM, pairs=6) + lost,
        asked=Requirements(cases, min_share=0.5, retries=2),
        finished_s=None,
    )
    measured, _, step = summary(run)
    assert measured.startswith("Measured: stream on 1 node ")
    assert measured.endswith("; the run is not finished. Not measured: lammps, hpccg.")
    assert step.startswith(
        "Next: see why 3 runs did not count, then measure more pairs: `nimc run "
    )
    assert step.endswith("(lammps: too few pairs).")


def test_the_next_step_is_to_mend_a_program_that_fails(tmp_path: Path) -> None:
    """Its baseline failed, so no run under writes was begun."""
    baselines = [sample for sample in samples(LAMMPS, pairs=1) if sample.arm == "off"]
    failed = [reject(run, "application_failed", "exit status 4: no input") for run in baselines]
    run = _run(tmp_path, failed, finished_s=None)
    assert failures(run) == ["lammps: none of 2 runs counts, the last: exit status 4: no input"]
    assert summary(run)[-1].startswith(
        f"Next: mend what fails ({failures(run)[0]}), then `nimc run"
    )
    assert failures(_run(tmp_path / "sound", samples(LAMMPS, pairs=6))) == []


def test_rejected_runs_that_put_a_case_in_doubt_are_named_in_the_first_sentence(
    tmp_path: Path,
) -> None:
    """In one of two cases, every second run with writes was rejected."""
    runs = samples(STREAM, pairs=12)
    lost = [reject(s, "rejected", "slow") if s.arm == "on" and s.pair % 2 else s for s in runs]
    measured = summary(_run(tmp_path, lost + samples(LAMMPS, pairs=6)))[0]
    assert measured.endswith(" Rejected runs put stream in doubt: see the warnings below.")


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        # The interval of ten pairs corresponds to a spread of 0.463: log(1.5) / 2.26 sqrt(10 /
        # 1.5). By the table of power, log(1.75) is shown against a control in 48 pairs, not in 32.
        # So 38 more pairs of 1 min 30 s are needed.
        (
            {"verdict": Verdict.INCONCLUSIVE, "slowdown": Estimate(1.75, 1.75 / 1.5, 1.75 * 1.5)},
            "--pairs 48`, about 57 min 00 s, fewer if the machine is quieter (",
        ),
        (
            {"verdict": Verdict.INCONCLUSIVE, "slowdown": Estimate(1.0, 0.8, 1.25)},
            "even 2,000 pairs would decide nothing",
        ),
        (
            {"verdict": Verdict.TOO_FEW_PAIRS, "rejected": 3},
            "see why 3 runs did not count, then measure more pairs: `nimc run ",
        ),
        ({"verdict": Verdict.SLOWER}, "count what reaches memory"),
        (
            {
                "verdict": Verdict.SLOWER,
                "notes": [Note.UNPROVEN(targets="a", memory="was not looked at")],
            },
            "prove the writes: name a `device`",
        ),
        ({"verdict": Verdict.CONTENTION}, "`nimc run throttling --machine"),
        (
            {"verdict": Verdict.CONTENTION, "baseline": "off@reserved_cores=1"},
            "`nimc advise a --traffic-share 30%`",
        ),
        # The only rate of a case is no remedy.
        (
            {"verdict": Verdict.CONTENTION, "arm": "on@rate=25%"},
            "`nimc run throttling --machine",
        ),
    ],
)
def test_the_next_step_follows_from_the_results_and_has_its_time(
    run: RunData, changes: dict[str, object], step: str
) -> None:
    row = _effect(run, **{"slowdown": Estimate(1.0, 0.8, 1.25), **changes})
    assert step in next_step([row], header(), commands("a"), {"lammps": 90.0})


def test_a_lower_rate_beside_another_one_is_a_remedy(run: RunData) -> None:
    contention = {"verdict": Verdict.CONTENTION, "slowdown": Estimate(1.2, 1.1, 1.3)}
    rows = [_effect(run, arm=arm, **contention) for arm in ("on@rate=50%", "on@rate=25%")]
    step = next_step(rows, header(), commands("a"), {"lammps": 90.0})
    assert "`nimc advise a --traffic-share 30%`" in step


def test_the_time_of_a_pair_is_that_of_the_blocks_of_its_case(run: RunData) -> None:
    """There are a warm-up and ten pairs of four runs. A run takes about 9.5 s, and a pause 1 s."""
    assert run.pair_s["lammps"] == pytest.approx(41 * 10.5 / 10, rel=0.1)


def test_rejected_runs_of_one_treatment_do_not_lengthen_the_pairs_of_the_others(
    tmp_path: Path,
) -> None:
    """Only one pair of the repeated baseline counts. Its result is the last one."""
    runs = [
        reject(sample, "rejected", "disturbed") if sample.arm == "aa" and sample.pair else sample
        for sample in samples(LAMMPS, pairs=10)
    ]
    run = loaded_run(tmp_path / "run", runs)
    assert {row.arm: row.pairs for row in run.results}["aa"] == 1
    assert run.pair_s["lammps"] == pytest.approx(41 * 10.5 / 10, rel=0.1)


def test_the_measured_runs_are_counted(run: RunData) -> None:
    """One case has two blocks with six pairs each, the other has one block with ten pairs.

    Each block has a warm-up, and a pair has four runs.
    """
    measured = summary(run)[0]
    assert "on 1 node of synthetic machine, 91 runs, 2 rejected, from 2026-05-28" in measured


def test_runs_of_the_same_campaign_beside_it_are_counted(tmp_path: Path) -> None:
    """There are four other runs. One is of another campaign, and one started later."""
    own = header()
    others = {
        "run": own,
        "one": replace(own, started_s=own.started_s - 10),
        "two": replace(own, started_s=own.started_s - 5),
        "later": replace(own, started_s=own.started_s + 5),
        "another": replace(own, started_s=own.started_s - 10, digest="other"),
    }
    for name, head in others.items():
        write_run(tmp_path / name, samples(LAMMPS, pairs=6), replace(head, run=name))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    run = load_run(tmp_path / "run", force=True)
    assert run.count_earlier_runs() == 2
    assert "2 earlier runs of the same campaign" in summary(run)[0]
    nowhere = replace(run, path=tmp_path / "gone" / "run")
    assert nowhere.count_earlier_runs() == 0


SLOWER = {"verdict": Verdict.CONTENTION, "mean": Estimate(1.25, 1.2, 1.3)}


def test_a_loss_is_in_node_hours_with_its_interval(run: RunData) -> None:
    lost = _summary_of(run, _effect(run, writer_rate_b_s=2.5e9, **SLOWER))[1]
    assert lost.startswith(
        "Lost: work of 100 node-hours takes on average 25.0 more (20.0 to 30.0) in lammps "
    )
    assert lost.endswith(" 2.50 GB/s.")
    mean = {"mean": Estimate(1.054, 0.845, 1.307)}
    lost = _summary_of(run, _effect(run, verdict=Verdict.EMULATED, pairs=5, **mean))[1]
    assert "takes on average 5.4 more (15.5 fewer to 30.7 more; 5 pairs do not determine" in lost
    ruled_out = {Verdict.NO_EFFECT: "; for the typical run 3 % or more is ruled out for lammps"}
    for verdict in (kind for kind in Verdict if not kind.is_loss):
        lost = _summary_of(run, _effect(run, verdict=verdict, margin=0.03))[1]
        assert lost == f"Lost: no verdict shows a loss of node-hours{ruled_out.get(verdict, '')}."


def test_open_verdicts_decide_the_next_step_before_shown_losses(run: RunData) -> None:
    unstable = _effect(run, case="other", verdict=Verdict.BASELINE_UNSTABLE)
    sentence = _summary_of(run, _effect(run, **SLOWER), unstable)[2]
    again = "measure again: `nimc run campaign.yaml --machine 'synthetic machine' --fresh`"
    assert sentence.endswith(f"{again} (other: baseline unstable).")
    undecided = _effect(run, case="other", verdict=Verdict.INCONCLUSIVE)
    sentence = _summary_of(run, _effect(run, **SLOWER), undecided)[2]
    assert sentence.startswith(
        "Next: measure more pairs: `nimc run campaign.yaml --machine 'synthetic"
    )
    slower = _summary_of(run, _effect(run, **{**SLOWER, "verdict": Verdict.SLOWER}))[2]
    assert "`factors: {tool: [none, perf_stat:dram]}`" in slower
    silent = {verdict for verdict, sentences in SENTENCES.items() if not sentences.action}
    assert silent == {Verdict.NOISE_FLOOR, Verdict.CONTROL}


def test_the_control_is_named_with_what_it_shows_or_why_there_is_none(run: RunData) -> None:
    own = _effect(run, over_control=Estimate(1.05, 1.01, 1.09))
    others = [row for row in run.results if row.case == "lammps" and row.role != "effect"]
    sentence = control_text([own, *others], same_host=True, cpu_shares=[0.41, 0.27, 0.59])
    assert sentence.startswith("Control: spin, ")
    assert " in 10 pairs, using 27 % to 59 % of a core." in sentence
    assert "on took 1.050 times as long as the control (1.010 to 1.090)." in sentence
    busy = control_text([own, *others], same_host=True, cpu_shares=[0.988, 0.991])
    assert ", using 99 % of a core." in busy
    for same_host, why in ((True, "although origin and target share"), (False, "on other hosts")):
        assert why in control_text([own], same_host=same_host, cpu_shares=[])


# The frame of the page (page.html), into which sections are put.


@pytest.mark.usefixtures("undrawn")
def test_an_accepted_run_with_an_impossible_figure_is_not_explained_by_missing_writes(
    tmp_path: Path,
) -> None:
    runs = samples(LAMMPS, pairs=8)
    index = next(i for i, run in enumerate(runs) if run.arm == "on" and not run.warmup)
    runs[index] = replace(runs[index], fom=1e-31)
    text = page.render([loaded_run(tmp_path / "run", runs, force=True)])
    (explanation,) = re.findall(r'title="([^"]*)">accepted</td>', text)
    assert "accepted" in explanation
    assert "writer" not in explanation


def test_the_frame_has_no_section_of_its_own() -> None:
    """Tables, pictures and parts that readers open are in the templates of sections."""
    frame = (Path(page.__file__).with_name("page.html")).read_text()
    assert "section.declaration.template_file" in frame
    assert not re.findall(r"<table|<details|<figure|<pre", frame)
