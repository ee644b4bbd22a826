import pytest

from tests.commands import Command


def test_paper_says_that_the_fdr_column_does_not_follow_from_its_inputs(command: Command) -> None:
    text = command("writers", "--paper")
    assert "does not follow: writers at a time, write of 0.5 s as stated" in text
    assert "effective write of 0.784 s" in text


def test_systems_beyond_the_range_of_the_series_are_named(command: Command) -> None:
    # Ranks of 100 s: 50 of them fail every 2 s, so that a write of 4 s is twice that, and no less.
    asked = ("--ranks", "49,50", "--mtti", "100s", "--write", "4s")
    inside, beyond = command.json("writers", *asked)["rows"]
    assert (inside["in_range"], beyond["in_range"]) == (True, False)
    assert beyond["interval_s"] == 2.0
    assert command("writers", *asked).endswith("is set to that time: ranks 50\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--paper --ranks 64", "--ranks: cannot be combined with --paper"),
        ("--ranks 0", "ranks: 0 found; allowed: 1 or more"),
        ("--mtti 0s", "mtti: 0 s is not a duration"),
        ("--write=", "--write"),
    ],
)
def test_wrong_input_names_the_option(command: Command, words: str, said: str) -> None:
    command("writers", *words.split(), code=2)
    assert said in command.err
