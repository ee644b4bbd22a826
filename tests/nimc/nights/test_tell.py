"""Metrics, JUnit, webhook and mail of a night, against what their documents say; none fails it."""

import email
import json
import math
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from nimc.nights import notify
from nimc.nights.description import DAYS, NightWindow
from nimc.nights.summary import NightAlarm, NightFigure, Summary, summary_text
from nimc.run.runner import Failure
from tests.nimc.conftest import call
from tests.nimc.nights.made import FIGURES, SUMMARY, nightly, summary


@contextmanager
def answering(
    answer: bytes | Callable[[socket.socket], None],
) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a webhook that answers so to one request; and the lines that it gets."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as file:
                got.extend(line.lower() for line in iter(file.readline, b"\r\n"))
                (length,) = (line.split()[1] for line in got if line.startswith(b"content-length"))
                got.append(file.read(int(length)))
                connection.sendall(answer) if isinstance(answer, bytes) else answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/secret", got
        thread.join()


@pytest.fixture
def sendmail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sendmail that keeps its arguments and its mail in a folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/args\ncat > {folder}/mail\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def tell(folder: Path, url: str) -> list[str]:
    """What a night with this webhook reports."""
    return list(notify.everyone(SUMMARY, nightly(folder, tell=f"{{webhook: '{url}'}}")))


def test_the_webhook_gets_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, got):
        monkeypatch.setenv("HOOK", url)
        assert tell(tmp_path, "$HOOK") == []
    assert got[0] == b"post /secret http/1.1\r\n"
    assert b"content-type: application/json\r\n" in got
    assert json.loads(got[-1]) == SUMMARY.as_dict()


@pytest.mark.parametrize("status", [302, 307, 500])
def test_a_refusal_or_redirect_is_reported_and_not_followed(tmp_path: Path, status: int) -> None:
    """A second request would get no answer."""
    elsewhere = b"HTTP/1.1 %d x\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n" % status
    with answering(elsewhere) as (url, _):
        (line,) = tell(tmp_path, url)
    assert line.startswith(f"webhook: HTTP Error {status}: ")
    assert "secret" not in line


@pytest.mark.parametrize(
    "url",
    ["$NOT_SET", "http://127.0.0.1:1/secret", "http://[secret", "http://127.0.0.1:1/my secret"],
)
def test_a_webhook_that_is_not_there_is_reported(url: str, tmp_path: Path) -> None:
    (line,) = tell(tmp_path, url)
    assert line.startswith("webhook: ")
    assert "secret" not in line


def test_a_webhook_that_does_not_speak_http_or_never_ends_its_answer_is_left(
    tmp_path: Path,
) -> None:
    """A byte now and then: no single read is slow. It ends when its caller has left."""
    with answering(b"220 mail.example.org ESMTP\r\n") as (url, _):
        found = tell(tmp_path, url)
    assert found == ["webhook: no HTTP answer, or an invalid address (BadStatusLine)"]
    left = threading.Event()

    def drip(to: socket.socket) -> None:
        to.sendall(b"HTTP/1.1 204 No Content\r\nX: ")
        while not left.wait(0.05):
            to.sendall(b"x")

    with answering(drip) as (url, _):
        try:
            assert notify.post(url, "{}", within_s=0.3) == "no answer within 0.3 s"
        finally:
            left.set()


def sent(sendmail: Path) -> EmailMessage:
    return email.message_from_bytes((sendmail / "mail").read_bytes(), policy=policy.default)


def test_mail_says_what_happened(sendmail: Path, tmp_path: Path) -> None:
    wish = nightly(tmp_path, tell="{mail: [ops@example.org, root]}")
    ended = summary(reason="two\nlines\x1b[2J")
    assert list(notify.everyone(ended, wish)) == []
    assert (sendmail / "args").read_text().split() == ["-t", "-i"]
    mail = sent(sendmail)
    assert mail["To"] == "ops@example.org, root"
    assert mail["Subject"] == "nimc: m1, box, night 2026-11-20: slower"
    body = mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "nights.png" not in notify.mail(ended, []).as_string()
    facts = ["two\\nlines\\x1b[2J\n", "0.25 of 2 node-hours", "slower than its reference"]
    for fact in (*facts, "run:      /r/small-m1-1\n", "snap: no such binary"):
        assert fact in body
    (sendmail / "mail").unlink()
    assert list(notify.everyone(ended, wish, [ended])) == []
    assert not (sendmail / "mail").exists()  # the same as in the night before


def test_the_mail_has_a_picture_of_what_became_slower_in_all_nights(
    sendmail: Path, tmp_path: Path
) -> None:
    """Its panel: a night without the series, one with half the rate, and this one."""
    half = replace(FIGURES[0], value=5e9, low=None, high=None)
    before = [
        summary(night=date(2026, 11, 17), outcome="not run", figures=[]),
        summary(night=date(2026, 11, 19), outcome="measured", figures=[half], alarms=[]),
    ]
    (panel,) = notify.pictured(SUMMARY, before)
    assert panel.title == "stream off fom"
    assert panel.nights == [
        (date(2026, 11, 19), 5e9, None, None),
        (date(2026, 11, 20), 1e10, 9.9e9, 1.01e10),
    ]
    wish = nightly(tmp_path, tell="{mail: [ops@example.org]}")
    assert list(notify.everyone(SUMMARY, wish, before)) == []
    (picture,) = sent(sendmail).iter_attachments()
    assert picture.get_content_type() == "image/png"
    width, height = struct.unpack(">II", picture.get_content()[16:24])  # of its first chunk, IHDR
    assert width > height > 100


def test_without_an_alarm_the_picture_has_the_slowdowns() -> None:
    panels = notify.pictured(summary(outcome="inconclusive", alarms=[]), [])
    assert [each.title for each in panels] == ["stream on slowdown"]
    assert notify.pictured(summary(outcome="not run", figures=[], alarms=[]), []) == []


def lost(*states: str) -> dict[str, Any]:
    """A slower night, with alarms that an operator has `seen`, or that are `new`."""
    found = [
        NightAlarm(f"{seen}{at}", "off", "fom", "reference", "", acknowledged=seen == "seen")
        for at, seen in enumerate(states)
    ]
    return {"outcome": "slower", "alarms": found, "failures": []}


@pytest.mark.parametrize(
    ("before", "ended", "news"),
    [
        (None, {"outcome": "measured"}, False),
        (None, {}, True),
        ({"outcome": "inconclusive"}, {"outcome": "inconclusive", "reason": "another"}, False),
        ({"outcome": "measured"}, {"outcome": "inconclusive"}, True),
        ({"outcome": "inconclusive"}, {"outcome": "slower"}, True),
        ({"outcome": "slower"}, {"outcome": "measured"}, False),
        ({}, {}, False),
        ({"alarms": []}, {}, True),
        ({"failures": []}, {}, True),
        # A night that was killed has sent none.
        ({"outcome": "machine failed", "finished_s": None}, {"outcome": "machine failed"}, True),
        ({"outcome": "measured"}, lost("seen"), False),
        (lost("new"), lost("seen"), False),
        (lost("seen"), lost("new", "seen"), True),
        (lost("new", "seen"), lost("new", "seen"), False),
        (lost("seen"), lost("new"), True),  # it was over, and came again
        (lost("seen"), lost("seen") | {"outcome": "machine failed"}, True),
    ],
)
def test_mail_is_sent_at_a_change_of_outcome_alarms_or_failed_cases(
    before: dict[str, Any] | None, ended: dict[str, Any], news: bool
) -> None:
    last = None if before is None else summary(night=date(2026, 11, 19), **before)
    assert notify.is_news(summary(**ended), last) is news


def test_mail_that_cannot_be_sent_is_reported(sendmail: Path, tmp_path: Path) -> None:
    (sendmail / "sendmail").write_text("#!/bin/sh\necho no such user >&2\nexit 67\n")
    wish = nightly(tmp_path, tell="{mail: [ops@example.org]}")
    assert list(notify.everyone(SUMMARY, wish)) == ["mail: exit status 67: no such user"]


def test_metrics_replace_the_last_nights(tmp_path: Path) -> None:
    folder = tmp_path / "textfile"
    wish = nightly(tmp_path, metrics=str(folder))
    (line,) = notify.everyone(SUMMARY, wish)
    assert line.startswith(f"metrics: {folder}/nimc_box.prom: ")  # no such folder
    folder.mkdir()
    (folder / "nimc_box.prom").symlink_to(tmp_path / "mine")  # others may write there
    (line,) = notify.everyone(SUMMARY, wish)
    assert line.startswith(f"metrics: {folder}/nimc_box.prom: is a symbolic link; allowed: ")
    assert not (tmp_path / "mine").exists()
    (folder / "nimc_box.prom").unlink()
    for outcome in ("slower", "measured"):
        assert list(notify.everyone(summary(outcome=outcome), wish)) == []
    (file,) = folder.iterdir()
    assert 'outcome="measured"} 1.0' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644  # node_exporter is another user


_LINE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def read_metrics(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """As the exposition format 0.0.4 is documented: help and type once, before all samples."""
    assert text.endswith("\n")
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    current, seen = "", set[str]()
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in seen, "a metric in two places"
            seen.add(current)
            assert next(lines) == f"# TYPE {current} gauge"
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        assert match["name"] == current
        labels = _LABEL.findall(match["labels"])
        assert "".join(f'{key}="{value}",' for key, value in labels)[:-1] == match["labels"]
        key = (current, tuple(sorted(labels)))
        assert key not in found, "a sample twice"
        found[key] = float(match["value"])
        assert math.isfinite(found[key])
    return found


def test_metrics_have_units_in_their_names_and_bounds() -> None:
    found = read_metrics(notify.prometheus_text(SUMMARY))

    def of(name: str, **labels: str) -> float | None:
        night = {"campaign": "small", "machine": "m1", "nightly": "box"}
        return found.get((f"nimc_{name}", tuple(sorted((night | labels).items()))))

    on, off = {"case": "stream", "arm": "on"}, {"case": "stream", "arm": "off"}
    assert [of(f"slowdown_ratio{end}", **on) for end in ("", "_low", "_high")] == [2.0, 1.9, 2.1]
    assert of("figure_of_merit_bytes_per_second", **off) == 1e10
    lammps = {"case": "lammps", "arm": "off"}
    assert of("figure_of_merit_seconds", **lammps) == 3.5
    assert of("figure_of_merit_seconds_low", **lammps) is None  # from five runs
    assert of("night_used_node_hours") == 0.25
    ended = dict.fromkeys(("measured", "not run", "inconclusive", "machine failed"), 0)
    for outcome, value in (ended | {"slower": 1}).items():
        assert of("night_outcome", outcome=outcome) == value


def test_metrics_escape_labels_and_keep_odd_units_and_roles() -> None:
    figures = [
        NightFigure('a"\\b', "off", "fom", "zones/s", "higher", 1e300, None, None, 1),
        NightFigure("c", "off", "counter:stalls", "1/s", "lower", 2.5, 2.0, 3.0, 6),
    ]
    found = read_metrics(notify.prometheus_text(summary(figures=figures, finished_s=None)))
    names = {name for name, _ in found}
    assert "nimc_night_finished_timestamp_seconds" not in names
    labels = next(dict(of) for name, of in found if name == "nimc_figure_of_merit")
    assert (labels["case"], labels["unit"]) == (r"a\"\\b", "zones/s")
    role = next(dict(of) for name, of in found if name == "nimc_counter_per_second_low")
    assert role["role"] == "stalls"


def test_junit_says_slower_failed_and_measured() -> None:
    root = ElementTree.fromstring(notify.junit_xml(SUMMARY))
    assert root.tag == "testsuites"
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "1", "skipped": "0"
    }  # fmt: skip
    assert suite.get("timestamp") == "2026-11-20T22:00:00"
    stream, lammps, snap = suite
    assert stream.find("failure").get("message") == "stream: slower than its reference"  # type: ignore[union-attr]
    assert "on slowdown: 2 [1.9, 2.1], memory contention" in stream.findtext("system-out", "")
    assert [part.tag for part in lammps] == ["system-out"]
    assert snap.find("error").get("message") == "no such binary"  # type: ignore[union-attr]


@pytest.mark.parametrize(("outcome", "tag"), [("not run", "skipped"), ("machine failed", "error")])
def test_junit_of_a_night_without_figures(outcome: str, tag: str) -> None:
    night = summary(outcome=outcome, reason="\x1b<&", figures=[], alarms=[], failures=[])
    (suite,) = ElementTree.fromstring(notify.junit_xml(night))
    assert [case[0].tag for case in suite] == [tag] * 3
    assert suite[0][0].get("message") == r"\x1b<&"
    (suite,) = ElementTree.fromstring(
        notify.junit_xml(summary(outcome=outcome, cases=[], figures=[]))
    )
    assert len(suite) == 1  # the campaign's cases are not known


FAILED = summary(
    outcome="machine failed",
    alarms=[],
    failures=[Failure(name, "node_failed") for name in ("lammps", "snap")],
)


@pytest.mark.parametrize(
    ("night", "case", "status"),
    [(FAILED, "stream", 0), (FAILED, "lammps", 3), (FAILED, "snap", 3), (SUMMARY, "stream", 1)],
)
def test_the_job_of_a_case_fails_if_a_part_of_it_was_slower_or_not_measured(
    tmp_path: Path, night: Summary, case: str, status: int
) -> None:
    """STREAM was measured, LAMMPS before its node failed, SNAP not at all."""
    (tmp_path / "night.json").write_text(summary_text(night))
    words = ["nightly", "export", "night.json", "--junit", "--fail", "--case", case]
    assert call(words, tmp_path)[0] == status
    assert call(words[:4], tmp_path)[0] == 0


def test_junit_shows_a_second_alarm_and_no_interval_with_one_end() -> None:
    alarms = [NightAlarm("stream", "off", "fom", "history", of) for of in ("one", "two")]
    figures = [NightFigure("stream", "off", "fom", "s", "lower", 2.0, 1.5, None, 6)]
    (suite,) = ElementTree.fromstring(notify.junit_xml(summary(alarms=alarms, figures=figures)))
    assert suite[0].findtext("failure") == "one\ntwo"
    assert suite[0].findtext("system-out") == "off fom: 2 s"


def test_metrics_say_by_when_the_next_scheduled_night_has_reported() -> None:
    """22:00 to 06:00, from Friday 5 June 2026 on: Fridays to Saturday 13 June, 06:15; every day."""
    ended = summary(night=date(2026, 6, 5))
    for days, end in ((["fri"], datetime(2026, 6, 13, 6, 15)), (DAYS, datetime(2026, 6, 7, 6, 15))):
        of = {"start": "22:00", "end": "06:00", "days": list(days)}
        text = notify.prometheus_text(ended, NightWindow.model_validate(of))
        (next_s,) = (
            value
            for (name, _), value in read_metrics(text).items()
            if name == "nimc_night_next_end_timestamp_seconds"
        )
        assert datetime.fromtimestamp(next_s) == end
