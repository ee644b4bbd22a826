"""Opens a page in a real browser.

The functions return its layout, the number of its printed sheets, and what axe-core (a checker of
accessibility) finds.
"""

import html
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.browser import CHROMIUM, LIGHT

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
#: Path of axe.min.js (npm package axe-core).
AXE = os.environ.get("NIMC_AXE")
needs_axe = pytest.mark.skipif(AXE is None, reason="NIMC_AXE does not name an axe.min.js")

#: Page that shows each page to be tested in a frame of its width, opens all of its details, and
#: writes what it measures as JSON.
_WRAPPER = """<!doctype html><body><pre id="found"></pre><script>
const pages = %s;
const look = frame => {
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
};
const show = ([text, width]) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style = `border:0;width:${width}px;height:900px`;
  frame.onload = () => done(look(frame));
  frame.srcdoc = text;
  document.body.append(frame);
});
Promise.all(pages.map(show)).then(found => {
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script></body>"""


def layouts(tmp_path: Path, *pages: tuple[str, int], scheme: str = LIGHT) -> list[dict[str, Any]]:
    """Return what the script measures of each page in a window of its width."""
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(_WRAPPER % json.dumps(pages).replace("</", "<\\/"), encoding="utf-8")
    done = _chromium(tmp_path, wrapper, "--virtual-time-budget=5000", "--dump-dom", scheme)
    match = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    measured: list[dict[str, Any]] = json.loads(html.unescape(match[1]))
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return measured


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


def dom(tmp_path: Path, text: str) -> str:
    """Return the page after its scripts have run."""
    page = tmp_path / "shown.html"
    page.write_text(text, encoding="utf-8")
    return _chromium(tmp_path, page, "--virtual-time-budget=5000", "--dump-dom").stdout


def sheets(tmp_path: Path, text: str) -> int:
    """Return how many sheets of paper the page needs."""
    page, printed = tmp_path / "printed.html", tmp_path / "printed.pdf"
    page.write_text(text, encoding="utf-8")
    _chromium(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    return len(re.findall(rb"/Type */Page\b", printed.read_bytes()))


_RUN_AXE = """<script>%s</script><script>
document.querySelectorAll("details").forEach(d => d.open = true);
axe.run(document).then(found => {
  const pre = document.createElement("pre");
  pre.id = "found";
  pre.textContent = JSON.stringify(found.violations.map(v => ({
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
    match = re.search(r'<pre id="found">(.*?)</pre></body>', done.stdout, re.DOTALL)
    assert match is not None, done.stderr
    records: list[dict[str, Any]] = json.loads(html.unescape(match[1]))
    return records
