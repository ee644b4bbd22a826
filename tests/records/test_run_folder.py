"""Folders of runs, bounds of the fields in a run's header, and names of arms and treatments."""

import json
from pathlib import Path
from typing import Any

import pytest

from records.acceptance import DISTURBANCE_LIMITS, AcceptanceLimits
from records.arms import (
    arm_and_levels,
    arm_of,
    in_table_order,
    level_in_name,
    level_text,
    standard_arms,
    treatment_name,
)
from records.errors import InputError
from records.run import MARGIN, load_header
from records.run_folder import log_stem, run_folders, run_size_b
from records.sample import event_parts
from tests.analysis.synthetic import header


def test_runs_in_a_folder_their_size_and_the_names_of_their_logs(tmp_path: Path) -> None:
    for name in ("b", "a", "other"):
        (tmp_path / name / "samples").mkdir(parents=True)
        if name != "other":
            (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "latest").symlink_to("a")
    (tmp_path / "file").touch()
    assert run_folders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(InputError, match=f"^{tmp_path}/none: there is no such folder of runs"):
        run_folders(tmp_path / "none")
    for name, text in (("y.jsonl", "1\n"), ("x.jsonl", "22\n"), ("z.txt", "")):
        (tmp_path / "a" / "samples" / name).write_text(text)
    assert run_size_b(tmp_path / "a") == 2 + 2 + 3
    assert log_stem(3, "on@rate=25%", 1) == "3-on@rate=25%-1"


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("started_s", 1e11, "started_s: "),
        ("started_s", -1.0, "started_s: "),
        ("pairs_floor", 0, "pairs_floor: "),
        ("pairs_cap", 1_000_001, "pairs_cap: "),
        ("precision", 1.0, "precision: "),
        ("precision", 0.0, "precision: "),
        ("margin", 0.0, "margin: "),
        ("margin", 1.0, "margin: "),
        ("seed", -1, "seed: "),
        ("seed", 2**63, "seed: "),
        ("head", "0" * 63, "head: "),
        ("campaign_text", "x" * ((1 << 20) + 1), "campaign_text: "),
        ("run", "a/b", "run: "),
        ("machine", "../../x", "machine: '"),
        ("campaign", "a\nb", "campaign: "),
        ("asked", {"cases": {"../x": ["off"]}, "min_share": 1, "retries": 1}, "asked.cases"),
        ("asked", {"cases": {}, "min_share": 0.0, "retries": 1}, "asked.min_share: "),
        ("asked", {"cases": {}, "min_share": 1.5, "retries": 1}, "asked.min_share: "),
        ("asked", {"cases": {}, "min_share": 1, "retries": 101}, "asked.retries: "),
        ("asked", {"cases": {}, "min_share": 1, "retries": -1}, "asked.retries: "),
        ("asked", {"cases": {"c": []}, "min_share": 1, "retries": 1}, "asked.cases.c: "),
        ("facts", {"host": {"sockets": 0}}, "facts.host.sockets: "),
        ("facts", {"site": 3}, "facts.site: "),
        ("facts", {"site": {"references": 3}}, "facts.site.references: "),
        ("facts", {"site": {"references": {"c": 0}}}, "facts.site.references.c: "),
        ("facts", {"site": {"references": {"c": "fast"}}}, "facts.site.references.c: "),
        ("facts", {"site": {"reference_tolerance": -1}}, "facts.site.reference_tolerance: "),
    ],
)
def test_a_header_with_a_value_beyond_its_bounds_is_refused_with_the_field(
    tmp_path: Path, name: str, value: Any, fault: str
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**header().as_dict(), name: value}))
    with pytest.raises(InputError) as error:
        load_header(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/run.json: {fault}")


def test_a_number_that_overflows_is_refused_in_any_field(tmp_path: Path) -> None:
    text = json.dumps({**header().as_dict(), "facts": {"other": [{"deep": "BIG"}]}})
    (tmp_path / "run.json").write_text(text.replace('"BIG"', "1e999"))
    with pytest.raises(InputError, match=r"run\.json: a number beyond 1\.8e308 found"):
        load_header(tmp_path)
    (tmp_path / "run.json").write_text(text.replace('"BIG"', "1e308"))
    assert load_header(tmp_path).facts["other"] == [{"deep": 1e308}]


def test_a_header_may_have_the_bounds_themselves(tmp_path: Path) -> None:
    requirements = {"cases": {"c": ["off"]}, "min_share": 1.0, "retries": 100}
    site = {"reference_tolerance": 0}
    bounds = {
        "started_s": 0.0,
        "finished_s": 0.0,
        "pairs_floor": 1,
        "pairs_cap": 1,
        "seed": 2**63 - 1,
        "campaign_text": "x" * (1 << 20),
        "head": "0" * 64,
        "asked": requirements,
    }
    for facts in ({"host": {"sockets": 1}, "site": site}, {"site": None}):
        record = {**header().as_dict(), **bounds, "facts": facts}
        (tmp_path / "run.json").write_text(json.dumps(record))
        loaded = load_header(tmp_path)
        assert {name: loaded.as_dict()[name] for name in bounds} == bounds
    (tmp_path / "run.json").write_text(json.dumps({**record, "pairs_cap": 10**6, "seed": 0}))
    assert load_header(tmp_path).pairs_cap == 10**6


def test_default_limits_agree_with_the_documentation() -> None:
    """They are in docs/method.md#what-counts and docs/campaigns.md."""
    limits = {"foreign_cpus": 0.25, "steal_share": 0.02, "frequency_drop": 0.1}
    limits |= {"foreign_share": 0.02, "retries": 2, "run_timeout_s": 3600}
    assert {name: getattr(AcceptanceLimits(), name) for name in limits} == limits
    assert set(DISTURBANCE_LIMITS) < set(limits)
    assert MARGIN == 0.02


def test_names_of_treatments() -> None:
    assert standard_arms(same_host=True) == ["off", "on", "spin", "aa"]
    assert standard_arms(same_host=False) == ["off", "on", "aa"]
    levels = {"rate": "25%", "tool": "mpip"}
    assert treatment_name("on", levels) == "on@rate=25%,tool=mpip"
    assert treatment_name("on", {}) == "on"
    assert arm_and_levels("on@rate=25%,tool=mpip") == ("on", levels)
    assert arm_and_levels("off") == ("off", {})
    assert [level_text(level) for level in (True, 1, "a/b")] == ["true", "1", "a/b"]
    assert level_in_name("a/b") == "a_b"
    named = ["aa", "mine", "full", "spin", "daly", "on", "constant", "also", "off"]
    assert " ".join(in_table_order(named)) == "off on constant daly full spin aa also mine"
    named = ["on@rate=75%", "aa", "on@rate=5%", "on", "off@cores=10", "off@cores=9", "on@rate=25%"]
    expected = "off@cores=9 off@cores=10 on on@rate=5% on@rate=25% on@rate=75% aa"
    assert " ".join(in_table_order(named)) == expected
    arms = [arm_of(f"{name}@a=1") for name in ("off", "on", "daly", "spin", "later")]
    continuous = "continuous"  # unknown arms, such as those of later versions, count as writing
    assert [arm.writing for arm in arms] == ["none", continuous, "scheduled", "none", continuous]
    assert [arm.silent for arm in arms] == [True, False, False, True, False]


def test_an_event_is_split_into_name_and_modifier() -> None:
    assert event_parts("cycles:u") == event_parts("cpu_core/cycles/u") == ("cycles", "u")
    assert event_parts("cycles") == ("cycles", "")
