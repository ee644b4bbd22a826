import json

import pytest

from nimc.base.errors import InputError
from nimc.cli.main import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    cli.main(["writers", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_rows_of_table_5(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(
        capsys,
        *("--nodes", "64,512,1024,2048,4096,8192", "--mtti", "5y", "--write", "1s", "--json"),
    )
    rows = json.loads(text)["rows"]
    assert [row["nodes"] for row in rows] == [64, 512, 1024, 2048, 4096, 8192]
    assert [row["concurrent_writers"] for row in rows] == [0, 1, 2, 5, 15, 42]
    for row in rows:
        assert row["writes_per_s"] == pytest.approx(row["nodes"] / (row["interval_s"] + 1))
        assert row["concurrent_writers_exact"] == pytest.approx(row["writes_per_s"] * 1.0)


def test_paper_says_that_the_fdr_column_does_not_follow_from_its_inputs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = run(capsys, "--paper")
    assert "does not follow: writers at a time, write of 0.5 s as stated" in text
    assert "effective write of 0.784 s" in text


def test_systems_beyond_the_range_of_the_series_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Nodes of 100 s: 50 of them fail every 2 s, so that a write of 4 s is twice that, and no less.
    asked = ("--nodes", "49,50", "--mtti", "100s", "--write", "4s")
    inside, beyond = json.loads(run(capsys, *asked, "--json"))["rows"]
    assert (inside["in_range"], beyond["in_range"]) == (True, False)
    assert beyond["interval_s"] == 2.0
    assert run(capsys, *asked).endswith("is set to that time: nodes 50\n")


def test_paper_takes_no_other_inputs() -> None:
    with pytest.raises(InputError, match="--nodes: cannot be combined with --paper"):
        cli.main(["writers", "--paper", "--nodes", "64"], standalone_mode=False)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--nodes", "64,"),
        ("--nodes", "0"),
        ("--mtti", "5 years"),
        ("--mtti", "0s"),
        ("--write", ""),
    ],
)
def test_wrong_input_names_the_option(option: str, value: str) -> None:
    with pytest.raises(InputError, match=option):
        cli.main(["writers", option, value], standalone_mode=False)
