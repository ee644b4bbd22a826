"""Tests texts of a report: of results, facts of nodes, conditions, names and times."""

import polars as pl
import pytest

from analysis.effects.result import Verdict
from analysis.report.fact_texts import labelled_facts, ranges_text
from analysis.report.first_sentences import disturbance
from analysis.report.sentences import SENTENCES
from analysis.report.words import (
    breakable_name,
    fom_text,
    notes_of,
    ratio_texts,
    utc_text,
    with_code,
    with_remedy,
)
from analysis.statistics.interval import Estimate, Interval
from analysis.subjects.case_runs import conditions_text
from analysis.subjects.effects import sentence
from records.notes import Note
from tests.analysis.synthetic import result

ENDS = Estimate(1.0, 0.998, 1.25)
UNCLEAR = Estimate(1.01, 0.988, 1.034)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, ["took 0.0 % more time (interval: 0.2 % less to 25.0 % more, 6 pairs)."]),
        ({"writer_rate_b_s": 2e9}, ["2.00 GB/s were written into its node ("]),
        ({"writer_rate_b_s": 2e9, "direction": "read"}, ["2.00 GB/s were read from its node ("]),
        (
            {"next": Interval(0.98, 1.125)},
            [" Interval for the next allocation: 2.0 % less to 12.5 % more."],
        ),
        # A third of six runs is hit, and at most 60 % of all.
        (
            {"mean": ENDS, "hit": Estimate(1 / 3, 0.1, 0.6)},
            [
                "In the mean it took 0.0 % more (0.2 % less to 25.0 % more) in these 6 pairs; ",
                "2 of 6 runs with writes took unusually long (true share at most 60 %). ",
                " Typical run within 3 %; mean -0.2 to +25.0 % in these 6 pairs.",
            ],
        ),
        # Hits of 22 % of all runs do not occur in twelve pairs with a chance of 5 %.
        (
            {"mean": ENDS, "hit": Estimate(0.0, 0.0, 0.4), "pairs": 12},
            [
                "in these 12 pairs; no single run with writes stands out. ",
                "in these 12 pairs; hits of fewer than 22 % of runs may have stayed unseen.",
            ],
        ),
        (
            {"verdict": Verdict.INCONCLUSIVE, "slowdown": UNCLEAR},
            ["Still possible: 1.2 % less to 3.4 % more time"],
        ),
        ({"verdict": Verdict.CONTENTION}, ["took 0.0 % more time"]),
        ({"slowdown": None, "pairs": 5}, ["No estimate: 5 pairs, at least 6 needed."]),
    ],
)
def test_a_sentence_has_the_known_facts_and_no_others(changes: dict, facts: list[str]) -> None:
    row = result(**{"slowdown": ENDS, "verdict": Verdict.NO_EFFECT, "margin": 0.03, **changes})
    text = sentence(row)
    for fact in facts:
        assert fact in text
    for words, holds in (
        ("within 3 %", "hit" in changes),
        ("Still possible", row.verdict is Verdict.INCONCLUSIVE),
        ("next allocation", "next" in changes),
        ("In the mean", "hit" in changes),
        ("unseen", row.hit is not None and row.hit.value == 0),
    ):
        assert (words in text) is holds


def test_the_writers_rate_is_that_into_all_target_nodes() -> None:
    row = result(slowdown=ENDS, writer_rate_b_s=2e9, direction="write")
    assert "2.00 GB/s were written into its 4 nodes (" in sentence(row, targets=4)


_FOREIGN = "During the runs that count, foreign processes kept"
_BUSY = "hardware threads busy"
_STOLEN = "the hypervisor took up to"
_TIME = "of the processor time"


@pytest.mark.parametrize(
    ("foreign", "steal", "text"),
    [
        ([None, None], [None, None], ""),
        ([0.25, 0.125], [None, None], f"{_FOREIGN} 0.12 to 0.25 {_BUSY}."),
        (
            [0.5, None],
            [0.01, 0.02],
            f"{_FOREIGN} 0.50 to 0.50 {_BUSY} and {_STOLEN} 2.0 % {_TIME}.",
        ),
    ],
)
def test_only_runs_that_count_are_used_for_conditions(
    foreign: list, steal: list, text: str
) -> None:
    """The third run was rejected."""
    status = ["counts", "counts", "rejected"]
    columns = {"foreign_cpus": [*foreign, 9.0], "steal_share": [*steal, 0.9]}
    assert conditions_text(pl.DataFrame({"status": status, **columns})) == text


@pytest.mark.parametrize(
    ("record", "label", "text"),
    [
        ({"memory_b": 24 << 30}, "memory", "24 GiB"),
        ({"memory_b": 1024}, "memory", "1 KiB"),
        ({"memory_b": 1023}, "memory", "1023 B"),
        ({"memory_b": 3 << 40}, "memory", "3 TiB"),
        ({"cache": {"size_b": 1536}}, "cache size", "1.5 KiB"),
        ({"link_rate_b_s": 12.5e9}, "link rate", "12.50 GB/s"),
        ({"clock_hz": 2.45e9}, "clock", "2.45 GHz"),
        ({"rate_b_s": float("nan")}, "rate", "nan B/s"),
        ({"cpus": [0, 1, 2, 5, 7, 8]}, "CPUs", "0-2, 5, 7-8"),
        ({"cpu": {"clock_hz": None}, "nic": None}, "not known", "CPU clock, NIC"),
        ({"rdma_devices": []}, "RDMA devices", "none"),
        ({"clock_offsets_s": {"vm": 3.4570693e-06}}, "clock offsets vm", "3.457e-06 s"),
        ({"smt": False}, "SMT", "no"),
        ({"node_mtti_s": 5 * 365.25 * 86400}, "node mean time to interrupt", "5 y"),
        ({"pause_s": 86400}, "pause", "1 d"),
        ({"pause_s": 86399}, "pause", "8.64e+04 s"),
        ({"a_s": {"b": None}}, "not known", "a b"),
        ({"of": [{"name": "x", "size_b": 1}]}, "of x size", "1 B"),
        ({"of": [{"size_b": 1}]}, "of 0 size", "1 B"),
        ({"numa_nodes": [{"number": 3, "memory_b": 1 << 30}]}, "NUMA nodes 3 memory", "1 GiB"),
        ({"mtu_b": 1400}, "MTU", "1400 B"),
        ({"mtu_b": 4096}, "MTU", "4 KiB"),
        ({"offset_s": "of text"}, "offset s", "of text"),
    ],
)
def test_units_of_facts_follow_from_their_keys(
    record: dict[str, object], label: str, text: str
) -> None:
    assert labelled_facts(record) == [(label, text)]


@pytest.mark.parametrize(
    ("off", "on", "texts"),
    [
        (26.2e9, 950e6, ["26.20 GB/s", "0.9500 GB/s"]),
        (None, 4164028046.0, ["\u2013", "4.164 GB/s"]),
        (26.2e9, None, ["26.20 GB/s", "\u2013"]),
    ],
)
def test_both_medians_have_the_unit_of_the_first_that_is_known(
    off: float | None, on: float | None, texts: list[str]
) -> None:
    row = result(off_median=off, on_median=on, unit="B/s")
    assert [fom_text(off, row), fom_text(on, row)] == texts


def test_names_lists_and_times() -> None:
    assert breakable_name("on@rate=25%,tool=<b>") == "on<wbr>@rate=25%,<wbr>tool=&lt;b&gt;"
    none = {"value": "\u2013", "interval": "", "measured_interval": ""}
    assert ratio_texts(None) == none
    measured = {"value": "1.000", "interval": "0.998\u20131.250", "measured_interval": ""}
    assert ratio_texts(ENDS) == measured
    assert ratio_texts(ENDS, Interval(0.98, 1.3)) == {
        **measured,
        "interval": "0.980\u20131.300",
        "measured_interval": "these: 0.998\u20131.250",
    }
    note = Note.SAME_HOST()
    assert with_remedy(note).startswith(f"{note}. ")
    assert with_remedy(f"on, aa: {note}").startswith(f"on, aa: {note}. ")
    assert with_remedy("another note") == "another note"
    assert ranges_text(["a", "b", 1, 2, True]) == "a, b, 1-2, True"
    assert utc_text(0) == "1970-01-01 00:00 UTC"
    assert utc_text(None) == "not finished"
    assert utc_text(1e300) == "1e+300 is not a date"
    assert utc_text(float("nan")) == "nan is not a date"


@pytest.mark.parametrize(
    ("foreign", "steal", "threads", "sentence"),
    [
        ([0.2, 0.2, 5.0], [0.0, 0.0, 0.0], [2], ""),
        ([None, None, None], [None, None, None], [], ""),
        (
            [1.0, 1.2, 1.4],
            [0.0, 0.0, 0.0],
            [2, 2],
            "Disturbed: other programs kept 1.2 of 2 hardware threads busy in the median run, 1.4"
            " at most; this campaign accepts such runs.",
        ),
        (
            [1.0, 1.2, 1.4],
            [0.1, 0.2, 0.3],
            [2, 4],
            "Disturbed: other programs kept 1.2 hardware threads busy in the median run, 1.4 at"
            " most and the hypervisor took 20.0 % of the processor time in the median run; this"
            " campaign accepts such runs.",
        ),
    ],
)
def test_disturbances_have_figures_of_the_runs_that_count(
    foreign: list[float | None], steal: list[float | None], threads: list[int], sentence: str
) -> None:
    """Usual limits are a quarter of a thread and 2 % of the time. The last run does not count."""
    columns = {"foreign_cpus": [*foreign, 9.0], "steal_share": [*steal, 0.9]}
    status = [*["counts"] * 3, "rejected"]
    assert disturbance(pl.DataFrame({**columns, "status": status}), threads) == sentence


def test_commands_of_a_sentence_are_code_and_dates_do_not_break() -> None:
    assert with_code("`nimc run <M>` since 2026-11-26") == (
        '<code>nimc run &lt;M&gt;</code> since <span class="nowrap">2026-11-26</span>'
    )


def test_a_note_names_its_arms_if_not_all_rows_have_it() -> None:
    rows = [result(notes=["x", "y"]), result(arm="spin", notes=["y", "x"])]
    rows.append(result(arm="aa", notes=["x", "x"]))
    assert notes_of(rows) == ["x", "on, spin: y"]


def test_the_meaning_of_a_verdict_has_its_error_level() -> None:
    """At most 4 % of campaigns say 'slower' wrongly, 1 % 'faster' and 5 % 'no effect'."""
    assert set(SENTENCES) == set(Verdict)
    for verdict, share in ((Verdict.CONTENTION, 4), (Verdict.SPEED_UP, 1), (Verdict.NO_EFFECT, 5)):
        sure = f"At most {share} % of campaigns say this wrongly"
        assert sure in SENTENCES[verdict].meaning
