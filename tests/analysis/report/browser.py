"""Opens pages in a real browser.

The functions return their layouts, their titles, the number of a page's printed sheets, and what
axe-core (a checker of accessibility) finds.
"""

import html
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.browser import CHROMIUM, LIGHT

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
#: Path of axe.min.js (npm package axe-core).
AXE = os.environ.get("NIMC_AXE")
needs_axe = pytest.mark.skipif(AXE is None, reason="NIMC_AXE does not name an axe.min.js")

#: Page that loads each page to be tested into a frame, and writes as JSON what `measure` finds in
#: it. A frame is removed then, since a frame that stays would be laid out again and again.
_WRAPPER = """<!doctype html><body><pre id="results"></pre><script>
const measure = %s;
const show = ([text, style]) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style = style;
  frame.onload = () => {
    done(measure(frame));
    frame.remove();
  };
  frame.srcdoc = text;
  document.body.append(frame);
});
Promise.all(%s.map(show)).then(results => {
  document.getElementById("results").textContent = JSON.stringify(results);
});
</script></body>"""
#: Function that opens all details of the page in a frame, and measures it.
_MEASURE = """frame => {
  const page = frame.contentDocument, root = page.documentElement, folded = root.scrollHeight;
  page.querySelectorAll("details").forEach(d => d.open = true);
  const right = node => {
    const range = page.createRange();
    range.selectNodeContents(node);
    const box = node.getBoundingClientRect();
    return Math.max(box.right, range.getBoundingClientRect().right);
  };
  const wide = [...page.querySelectorAll("body *")]
    .filter(e => right(e) > root.clientWidth + 0.5 && !e.closest(".scroll")
      && !e.querySelector(".scroll"))
    .map(e => e.tagName + "." + (e.getAttribute("class") || "") + e.textContent.slice(0, 40));
  const lines = node => {
    const range = page.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect();
  };
  const stuck = [...page.querySelectorAll("tbody .sub")]
    .filter(e => e.textContent && e.previousSibling && e.previousSibling.textContent.trim()
      && lines(e).top < lines(e.previousSibling).bottom - 2)
    .map(e => e.parentNode.textContent.slice(0, 40));
  const crossing = [...page.querySelectorAll("svg")].flatMap(svg => {
    const texts = [...svg.querySelectorAll("text")].map(e => [e, e.getBoundingClientRect()]);
    return texts.flatMap(([e, a], at) => texts.slice(at + 1)
      .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height / 3)
      .map(([other]) => e.textContent + " | " + other.textContent));
  });
  return {
    details: page.querySelectorAll("details").length,
    folded, opened: root.scrollHeight,
    width: root.clientWidth, scroll: root.scrollWidth, wide, stuck, crossing,
    ink: frame.contentWindow.getComputedStyle(page.body).color,
    loaded: frame.contentWindow.performance.getEntriesByType("resource").map(e => e.name)
      .filter(name => !name.startsWith("data:")),
  };
}"""
#: Style of a frame of a width. It is laid out, but not painted.
_LAID_OUT = "border:0;position:fixed;visibility:hidden;width:{}px;height:900px"


def layouts(tmp_path: Path, *pages: tuple[str, int], scheme: str = LIGHT) -> list[dict[str, Any]]:
    """Return what the script measures of each page in a window of its width."""
    shown = [(text, _LAID_OUT.format(width)) for text, width in pages]
    measured, log = _in_frames(tmp_path, _MEASURE, shown, scheme)
    assert [line for line in log.splitlines() if "CONSOLE" in line] == []
    return measured


def titles(tmp_path: Path, *pages: str) -> list[str]:
    """Return the title of each page after its scripts have run."""
    shown = [(text, "display:none") for text in pages]
    return _in_frames(tmp_path, "frame => frame.contentDocument.title", shown)[0]


def _in_frames(
    tmp_path: Path, function: str, pages: Sequence[tuple[str, str]], *flags: str
) -> tuple[list[Any], str]:
    """Load each page into a frame of its style.

    Returns what the function finds in each, and the browser's log.
    """
    wrapper = tmp_path / "wrapper.html"
    texts = json.dumps(pages).replace("</", "<\\/")
    wrapper.write_text(_WRAPPER % (function, texts), encoding="utf-8")
    done = _chromium(tmp_path, wrapper, "--virtual-time-budget=5000", "--dump-dom", *flags)
    match = re.search(r'<pre id="results">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr
    return json.loads(html.unescape(match[1])), done.stderr


def _chromium(tmp_path: Path, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1600,1200",
            *flags,
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )


def sheets(tmp_path: Path, text: str) -> int:
    """Return how many sheets of paper the page needs."""
    page, printed = tmp_path / "printed.html", tmp_path / "printed.pdf"
    page.write_text(text, encoding="utf-8")
    _chromium(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    return len(re.findall(rb"/Type */Page\b", printed.read_bytes()))


_RUN_AXE = """<script>%s</script><script>
document.querySelectorAll("details").forEach(d => d.open = true);
axe.run(document).then(results => {
  const pre = document.createElement("pre");
  pre.id = "results";
  pre.textContent = JSON.stringify(results.violations.map(v => ({
    id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html.slice(0, 200)) })));
  document.body.append(pre);
});
</script></body>"""


def violations(tmp_path: Path, text: str, *flags: str) -> list[dict[str, Any]]:
    """Return what axe-core finds with all sections open: `id`, `impact`, HTML of the `nodes`."""
    page = tmp_path / "axe.html"
    script = _RUN_AXE % Path(str(AXE)).read_text(encoding="utf-8")
    text = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    page.write_text(text.replace("</body>", script), encoding="utf-8")
    done = _chromium(tmp_path, page, "--virtual-time-budget=60000", "--dump-dom", *flags)
    match = re.search(r'<pre id="results">(.*?)</pre></body>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr
    records: list[dict[str, Any]] = json.loads(html.unescape(match[1]))
    return records
