import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.rechain import rechain
from tests.analysis.remedies.made_core import CORE
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import STREAM, header, samples, write_run
from tests.captures import RUN_QUICK
from tests.in_process import call
from tests.nimc import nimc_without_figures


@pytest.fixture(autouse=True)
def _without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.page.render", nimc_without_figures.render)


def _run(folder: Path, effect: float = 1.35, seed: int = 1, pairs: int = 12) -> Path:
    case = replace(STREAM, effects={**STREAM.effects, "on": effect})
    run_samples = samples(case, pairs=pairs, seed=seed)
    return write_run(folder, run_samples, header(run=folder.name))


def _nights(folder: Path, effect: float, seed: int) -> list[Path]:
    return [_run(folder / f"{effect}-{n}", effect, seed + n, pairs=6) for n in range(7)]


@pytest.mark.slow
def test_two_nights_differ_but_no_change_is_named(tmp_path, command):
    old, new = _run(tmp_path / "monday"), _run(tmp_path / "tuesday", effect=1.7, seed=2)
    out = command("compare", old, new)
    assert out.startswith("monday (reference) -> tuesday (this)\n")
    assert re.search(r"slowdown .* two nights differ by \+2\d\.\d %", out)  # 1.7 / 1.35 is 1.26
    details = command("compare", old, new, "-v").partition("stream slowdown ")[2]
    slowdowns = re.findall(r"(?:reference|this): ([\d.]+)", details)[:2]
    assert list(map(float, slowdowns)) == pytest.approx([1.35, 1.7], rel=0.05)
    assert "emulation" in out
    assert "worse" not in out
    command("compare", old, new, "--fail", code=2)
    assert "--fail: Too few nights" in command.err
    few = _run(tmp_path / "few", pairs=3)
    assert "No row can be judged" in command("compare", old, few)
    command("compare", old, few, "--fail", code=2)
    assert "--fail: No row can be judged" in command.err
    document = command.json("compare", old, new, "--output", tmp_path / "out")
    assert (document["reference"]["runs"], document["worse"]) == (["monday"], 0)
    rows = document["comparisons"]
    assert {row["metric"] for row in rows} == {"slowdown", "off", "on"}
    assert all(row["ratio_low"] <= row["ratio"] <= row["ratio_high"] for row in rows)
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == document
    assert (tmp_path / "out" / "compare.html").exists()


@pytest.mark.slow
def test_compare_exits_with_1_only_with_the_option_fail_and_if_nights_are_worse(tmp_path, command):
    old, new = _nights(tmp_path, 1.35, 1), _nights(tmp_path, 1.7, 11)

    def compare(reference: list[Path], runs: list[Path], *words: str, code: int = 0) -> None:
        reference_words = [word for path in reference for word in ("--reference", path)]
        command("compare", *reference_words, *runs, *words, code=code)

    compare(old, new, "--fail", code=1)
    out = command.out
    assert "7 nights of synthetic on synthetic machine (reference) -> 7 nights" in out
    assert "worse" in out
    compare(new, old, "--fail")
    assert "nights may correlate by" in " ".join(out.split())


def test_report_prints_what_disturbed_a_run(tmp_path, command):
    out = command("report", RUN_QUICK, "--output", tmp_path / "page")
    assert "Disturbed: other programs kept 1.3 of 2 hardware threads busy" in " ".join(out.split())
    quiet = command("report", _run(tmp_path / "quiet"))
    assert "Disturbed" not in quiet


def test_report_says_that_a_run_has_no_samples(tmp_path, command):
    run = write_run(tmp_path / "run", [], header(run="run"))
    assert "no result: the run has no samples" in command("report", run)


@pytest.mark.parametrize("order", [1, -1])
def test_compare_refuses_a_run_without_samples(tmp_path, command, order):
    empty = write_run(tmp_path / "empty", [], header(run="empty"))
    reasons = {"stream": "Slurm refuses the job: Invalid node name specified"}
    (empty / "failures.json").write_text(json.dumps(reasons))
    sides = [empty, _run(tmp_path / "whole")][::order]
    line = command.refused("compare", *sides)
    assert line.startswith(f"{empty}: ")
    assert "stream: Slurm refuses the job: Invalid node name specified" in line


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with three runs of one machine, and one run of another machine."""
    folder = tmp_path_factory.mktemp("sides")
    for name in ("monday", "tuesday", "friday"):
        _run(folder / name)
    write_run(folder / "elsewhere", samples(STREAM), header(run="e", machine="other"))
    return folder


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (["monday"], "at least one more run"),
        (["monday", "monday"], "a copy is not another night"),
        (["monday", "tuesday", "friday"], "--reference, once for each"),
        (["--reference", "monday"], "Missing argument"),
        (["--reference", "monday", "tuesday", "elsewhere"], "must have the same machine"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_with_exit_code_2(two_machines, runs, words):
    status, _, err = call(["compare", *runs], two_machines)
    assert status == 2
    assert words in err


def test_the_interval_of_the_next_allocation_comes_first_and_that_of_the_verdict_is_named(
    tmp_path, command
):
    """Allocations differ by so much that the next one may show no loss."""
    case = replace(STREAM, effects={"on": 1.1, "spin": 1.0, "aa": 1.0}, block_noise=0.05)
    folder = write_run(tmp_path / "run", samples(case, blocks=3, pairs=6), header(run="run"))
    (document,) = command.json("report", folder)["reports"]
    row = next(row for row in document["runs"][0]["results"] if row["role"] == "effect")
    assert row["next_low"] < 1 < row["slowdown_low"]
    out = command("report", folder)
    figures = rf"1\.\d+ \[{row['next_low']:.2f}\d*, {row['next_high']:.2f}\d*\]"
    assert re.search(rf"^stream +{figures} +slower under emulated writes", out, re.MULTILINE)
    ends = f"{row['slowdown_low']:.3f}-{row['slowdown_high']:.3f}"
    assert f"the verdict rests on the interval of these allocations, {ends}" in " ".join(
        out.split()
    )


def test_a_run_with_faults_is_refused_or_with_force_marked_as_not_to_be_trusted(tmp_path, command):
    sound, edited = _run(tmp_path / "monday"), _run(tmp_path / "tuesday")
    file = edited / "samples" / "stream.jsonl"
    file.write_text(file.read_text().replace('"attempt": 0,', '"attempt": 1,'))
    rechain(edited)
    for words in (["report", edited], ["compare", sound, edited], ["advise", edited]):
        command(*words, code=2)
        lines = command.err.splitlines()
        # Each sample of a warm-up and of 12 pairs with four treatments has a fault.
        assert lines[0] == f"nimc: {edited}: 49 integrity faults: not to be trusted"
        assert lines[1].startswith(f"{file}:")
        assert lines[-1] == "and 29 more"
        assert len(lines) == 1 + 20 + 1
        command(*words, "--force")
        assert "not to be trusted" in " ".join(command.out.split())
    document = command.json("compare", sound, edited, "--force")
    assert list(document["integrity_faults"]) == [str(edited)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advise")
    return write_run(folder / "core", samples(CORE, blocks=3, pairs=4), header(run="core"))


def test_advice_on_remedies_is_printed_in_80_columns(run, command):
    out = command("advise", run, "--traffic-share", "50%")
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    for fact in ("traffic 50 % of the time", "reserved_cores=1 for lammps"):
        assert fact in words
    row = next(line for line in out.splitlines() if line.startswith("lammps reserved_cores=1 "))
    assert " better " in row
    (price, gain) = (float(row.split()[row.split().index(name) + 1]) for name in ("price", "gain"))
    assert price < gain
    assert "next allocation: " in command("advise", run, "-v")


def test_a_sweep_prints_its_loss_per_byte_and_crossover(tmp_path, command):
    sweep_samples = swept(sweep(noise=0.003), pairs=8)
    out = command("advise", write_run(tmp_path / "sweep", sweep_samples))
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "stream, reserved cores 0: lost per byte written 0." in words
    assert "equals the price of reserved_cores=1: " in words


def test_each_machine_gets_advice_of_its_own(run, tmp_path, command):
    head = header(run="plain", machine="another")
    other = write_run(tmp_path / "plain", samples(STREAM, pairs=6), head)
    (tmp_path / "latest").symlink_to(run)
    again = tmp_path / "latest"
    advice = command.json("advise", run, other, again, "--traffic-share", 1)["advice"]
    assert [machine_advice["machine"] for machine_advice in advice] == [
        "synthetic machine",
        "another",
    ]
    first, second = advice
    assert first["runs"] == ["core"]
    assert [remedy["remedy"] for remedy in first["remedies"] if remedy["recommended"]] == [
        "reserved_cores=1"
    ]
    assert second["remedies"] == []
