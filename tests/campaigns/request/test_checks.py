"""Variables that a campaign may set, read from the checks' source."""

from __future__ import annotations

from pathlib import Path

from campaigns.request.checks import settable


def test_variables_of_the_class_and_of_the_mixin(tmp_path: Path) -> None:
    (tmp_path / "mixin.py").write_text(
        "class NimcMixin:\n"
        "    pairs = variable(int, value=10)\n"
        "    warmups = variable(int, value=1)\n"
        "    notes = variable(list, value=[])\n"
    )
    (tmp_path / "stream.py").write_text(
        "class stream(NimcMixin):\n"
        "    tags = {'single_node'}\n"
        "    iterations = variable(int, value=300)\n"
        "class stream_quick(stream):\n"
        "    other = variable(int, value=1)\n"
    )
    assert settable(tmp_path, "stream") == {"iterations", "warmups"}
