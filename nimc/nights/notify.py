"""Reports how a night ended: metrics, webhook, mail. Nothing here fails a night."""

from __future__ import annotations

import os
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from email.message import EmailMessage
from http.client import HTTPException

from nimc.base.checkout import ROOT
from nimc.base.errors import NimcError
from nimc.base.files import named_output
from nimc.base.programs import ask
from nimc.base.text import one_line
from nimc.nights import formats, summary
from nimc.nights.description import NightlyRequest
from nimc.nights.summary import Summary

#: How long a webhook or the mail program may take in all, seconds.
_ANSWER_S = 30.0
#: A request goes through a proxy of the environment. A redirect is an error: followed, it would be
#: a GET without the summary.
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)
#: Where sendmail is, if not on PATH: cron's is short.
_SENDMAIL_PATH = "/usr/sbin:/usr/lib"


def everyone(ended: Summary, request: NightlyRequest) -> Iterator[str]:
    """Send the summary by mail and webhook; yields a line for each that failed."""
    if request.metrics:
        try:
            path = named_output(ROOT / request.metrics) / f"nimc_{ended.nightly}.prom"
            summary.write(path, formats.prometheus_text(ended), mode=0o644)
        except NimcError as error:
            yield f"metrics: {error}"
    if request.tell.webhook:
        url = os.path.expandvars(request.tell.webhook)
        if fault := post(url, summary.summary_text(ended)):
            yield f"webhook: {fault}"
    if (
        request.tell.mail
        and ended.outcome != "measured"
        and (fault := send(ended, request.tell.mail))
    ):
        yield f"mail: {fault}"


def post(url: str, text: str, within_s: float = _ANSWER_S) -> str | None:
    """POST a JSON document; returns why that failed. The URL may be a secret: it is not named.

    In a thread that is not waited for longer: timeouts of sockets are those of single reads, and
    looking up a name has none.
    """
    said: list[str | None] = []
    thread = threading.Thread(target=lambda: said.append(_post(url, text, within_s)), daemon=True)
    thread.start()
    thread.join(within_s)
    return said[0] if said else f"no answer within {within_s:g} s"


def _post(url: str, text: str, within_s: float) -> str | None:
    if not url.startswith(("http://", "https://")):
        return "its variable holds no http:// or https:// address"
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, text.encode(), headers, method="POST")
        with opener.open(request, timeout=within_s):
            return None
    except (OSError, ValueError) as error:
        return one_line(str(error).replace(url, "URL"))
    except HTTPException as error:  # its text may be a part of the URL
        return f"no HTTP answer, or an invalid address ({type(error).__name__})"


def send(ended: Summary, to: list[str]) -> str | None:
    """Hand a mail to the local mail program; returns why that failed."""
    program = shutil.which("sendmail") or shutil.which("sendmail", path=_SENDMAIL_PATH)
    if program is None:
        return "sendmail: not found on PATH or in /usr/sbin"
    text = mail(ended, to).as_bytes().decode(errors="replace")
    answer = ask([program, "-t", "-i"], timeout_s=_ANSWER_S, stdin=text)
    return None if answer.ok else one_line(answer.reason)


def mail(ended: Summary, to: list[str]) -> EmailMessage:
    """The mail about a night."""
    found = EmailMessage()
    found["To"] = ", ".join(to)
    found["Subject"] = one_line(
        f"nimc: {ended.machine}, {ended.nightly}, night {ended.night}: {ended.outcome}"
    )
    lines = [
        f"outcome:  {ended.outcome}",
        f"reason:   {one_line(ended.reason)}",
        f"machine:  {ended.machine}",
        f"campaign: {ended.campaign}",
        f"run:      {one_line(ended.run or 'none')}",
        f"used:     {ended.used_node_h:.3g} of {ended.budget_node_h:.3g} node-hours",
    ]
    for title, found_lines in (
        ("became slower", [each.text for each in ended.alarms]),
        ("could not be measured", [f"{each.case}: {each.reason}" for each in ended.failures]),
    ):
        if found_lines:
            lines += ["", f"{title}:", *(f"  {one_line(line)}" for line in found_lines)]
    found.set_content("\n".join(lines) + "\n")
    return found
