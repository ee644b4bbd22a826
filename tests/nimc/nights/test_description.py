"""Descriptions: what is refused, with file, line and field."""

from datetime import time
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.nights.description import load
from tests.nimc.nights.made import TEXT, nightly

KNOWN = TEXT.format(campaign="c.yaml", results="r")


def test_a_description_holds_si_units(tmp_path: Path) -> None:
    found = nightly(
        tmp_path, fresh_after="90min", retention="{age: 1d, size: 1GiB}", job="[--partition=cron]"
    )
    asked = found.asked
    assert (asked.fresh_after_s, asked.budget_node_h) == (5400, 2)
    assert (asked.retention.age_s, asked.retention.size_b) == (86400, 2**30)
    assert (found.window.start, found.window.end) == (time(22), time(5))
    assert (found.name, found.longest_s) == ("box", 7 * 3600 + 900)
    assert found.folder == tmp_path / "results" / "nights"


def test_the_shipped_one_is_valid_and_names_a_campaign_that_exists() -> None:
    found = load("example")
    assert found.campaign.is_file()
    assert found.target == "example"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (KNOWN.replace("22:00", "24:00"), 3, "window.start: '24:00' found; allowed: a time of day"),
        (KNOWN.replace("tue", "tues"), 3, "window.days.1: 'tues' found; allowed:"),
        (KNOWN.replace("tue", "mon"), 3, "window.days: a list found; allowed: each day once"),
        (KNOWN.replace("budget: 2", "budget: 0"), 4, "budget: 0 found; allowed: greater than 0"),
        (KNOWN + "fresh_after: 20\n", 6, "fresh_after: '20' is not a duration"),
        (KNOWN + "fresh_after: 0s\n", 6, "fresh_after: '0s' found; allowed: greater than 0"),
        (KNOWN + "bugdet: 2\n", 6, "bugdet: unknown key; allowed: machine, campaign, window,"),
        (KNOWN + "retention: {ages: 1d}\n", 6, "retention.ages: unknown key; allowed: age, size"),
        (KNOWN + "tell: {mail: ['a b']}\n", 6, "tell.mail.0: 'a b' found; allowed: a mail address"),
        (KNOWN + "tell: {webhook: 'file:///x'}\n", 6, "tell.webhook: 'file:///x' found; allowed:"),
        (KNOWN + "job: ['a b']\n", 6, "job.0: 'a b' found"),
        (KNOWN.replace("localhost", "../x"), 1, "machine: '../x' found; allowed: a word"),
        (KNOWN.replace("machine: localhost\n", ""), 1, "machine: missing"),
        ("- a\n", 1, "a list found; allowed: a mapping of keys"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(InputError) as error:
        nightly(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/box.yaml:{line}: {what}")
    assert "\n" not in str(error.value)


def test_a_name_that_is_no_file_is_refused() -> None:
    with pytest.raises(InputError, match=r"not found; known nightlies: .*example"):
        load("nothing")
    for name in ("../localhost", "a b", "", "/tmp/a b.yaml"):
        with pytest.raises(InputError, match="invalid name"):
            load(name)
