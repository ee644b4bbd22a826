"""The checks of `nimc doctor` on counting: hardware counters, PAPI, and every tool."""

from __future__ import annotations

import re
import shutil

from campaigns.host import perf_event
from campaigns.host.probes import Finding
from campaigns.host.programs import ask
from reframe_tests.tools import TOOLS

#: PAPI's event that every processor with counters has.
_CYCLES = "PAPI_TOT_CYC"


def counters() -> list[Finding]:
    """Hardware counters, directly and through PAPI; both by counting."""
    why = perf_event.unavailable()
    if why is None:
        kernel = Finding("counters (perf_event)", "ok", "cycles can be counted")
    else:
        kernel = Finding("counters (perf_event)", "limited", why.text, why.remedy)
    return [kernel, _papi()]


def _papi() -> Finding:
    what = "counters (PAPI)"
    if shutil.which("papi_avail") is None or shutil.which("papi_command_line") is None:
        remedy = "apt install papi-tools; dnf install papi"
        return Finding(what, "limited", "no papi_avail and papi_command_line on PATH", remedy)
    listed = re.search(r"Of \d+ possible events, (\d+) are available", ask(["papi_avail"]).text)
    events = int(listed[1]) if listed else 0
    # The list names what the processor's model has; a virtual machine may count none of it.
    answer = ask(["papi_command_line", _CYCLES])
    if why := refusal(answer.text):
        detail = f"{events} preset events listed, and {_CYCLES} counts nothing: {why}"
        return Finding(what, "limited", detail, "measure on a machine with counters")
    return Finding(what, "ok", f"{events} preset events; {_CYCLES} counts")


def refusal(text: str) -> str | None:
    """Why `papi_command_line PAPI_TOT_CYC` counted nothing, from its output; None if it counted.

    Its exit status is 0 in any case.
    """
    if found := re.search(rf"^{_CYCLES} : *\t*(\d+)", text, re.MULTILINE):
        return None if int(found[1]) else "its count is 0"
    because = re.search(r"because: (.+)", text)
    return because[1].strip() if because else "no answer"


def tools() -> list[Finding]:
    """Every tool that can wrap the ranks; levels that lack the same in one line."""
    reasons: dict[str | None, list[str]] = {}
    for name, tool in TOOLS.items():
        reasons.setdefault(tool.missing(), []).append(name)
    found = []
    for why, names in reasons.items():
        if why is None:
            found.append(Finding(f"tool {', '.join(names)}", "ok", "ready"))
            continue
        lack, bracket, remedy = why.partition(" (")
        hint = remedy.removesuffix(")") if bracket else ""
        found.append(Finding(f"tool {', '.join(names)}", "limited", lack, hint))
    return found
