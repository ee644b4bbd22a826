"""Runs of `nimc measure`: how they are recognised, their headings, and texts about options."""

from dataclasses import replace

import pytest

from analysis.effects.result import Verdict
from analysis.report.sentences import SENTENCES
from records.measured import command_heading, command_of, reworded_for_measure, rewording
from records.notes import Note
from records.run import RunHeader
from tests.analysis.synthetic import header

#: `nimc measure` refers users to such a campaign if its options are not enough.
CAMPAIGN_REFERENCE = "in a campaign of this command (docs/your-application.md)"
#: Notes that runs of `nimc measure` never have: on received messages, on cores for the system.
CAMPAIGN_NOTES = {Note.TARGET_RECEIVES, Note.UNPAIRED}


def measured(command: str, name: str = "solver-0a1b2c", check: str = "command") -> RunHeader:
    entry = {"check": check, "case": name, "set": {"command": command}}
    return header(campaign=name, resolved={"campaign": {"workloads": [entry]}})


def test_only_runs_of_nimc_measure_have_a_command() -> None:
    assert command_of(measured("./solver small.dat")) == "./solver small.dat"
    two = measured("./solver")
    assert two.resolved
    entries = two.resolved["campaign"]["workloads"] * 2
    for other in (
        header(),
        measured("./solver", name="solvers"),
        measured("./solver", check="stream"),
        replace(two, resolved={"campaign": {"workloads": entries}}),
    ):
        assert command_of(other) == ""
        assert command_heading(other) == ""
        assert (
            rewording(other)("give it to the campaign's arms") == "give it to the campaign's arms"
        )


def test_a_heading_is_one_line_without_the_end_of_a_long_command() -> None:
    assert (
        command_heading(measured("sh -c 'make clean &&\n  make'"))
        == r"sh -c 'make clean &&\n make'"
    )
    assert command_heading(measured("./solver " + "x" * 80)) == "./solver " + "x" * 63 + " ..."


@pytest.mark.parametrize("verdict", Verdict)
def test_no_verdict_speaks_of_a_campaign_to_users_without_one(verdict: Verdict) -> None:
    sentences = SENTENCES[verdict]
    for text in (sentences.meaning, sentences.action):
        assert "campaign" not in reworded_for_measure(text).replace(CAMPAIGN_REFERENCE, "")


@pytest.mark.parametrize("note", [note for note in Note if note not in CAMPAIGN_NOTES])
def test_no_note_speaks_of_a_campaign_to_users_without_one(note: Note) -> None:
    for text in (note.text, note.remedy):
        words = reworded_for_measure(text).replace(CAMPAIGN_REFERENCE, "")
        assert not [word for word in ("campaign", "verify", "queue_pairs") if word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            SENTENCES[Verdict.NO_NOISE_FLOOR].action,
            "see why runs of aa, which repeats the baseline,",
        ),
        (SENTENCES[Verdict.NO_CONTROL].action, "see why runs of the control do not count, or take"),
        (
            SENTENCES[Verdict.SLOWER].action,
            f"{CAMPAIGN_REFERENCE}, count what reaches memory, with",
        ),
        (SENTENCES[Verdict.CONTENTION].action, "measure what a lower --rate gains"),
        (Note.LENGTHENED.remedy, "compare times with runs of the same length; give --repeat"),
        (Note.NOT_JUDGED.remedy, "omit `--busy` to reject disturbed runs"),
        (Note.NOT_JUDGED.text, "recorded, but not judged, because of --busy: {limits}"),
        (Note.PROVENANCE.remedy, "with --fresh, a new run begins"),
        ("a run takes 0.01 s; set repeat higher", "give a higher --repeat"),
    ],
)
def test_remedies_are_reworded_to_options_of_nimc_measure(text: str, words: str) -> None:
    assert words in reworded_for_measure(text)
    assert words not in text
