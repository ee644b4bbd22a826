"""No command line of membench is a fault of memory or an undefined operation."""

import shutil

import pytest

from tests.fuzz import options

#: Command lines; `make fuzz` tries more.
LINES = 50_000


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
def test_any_command_line_of_membench_is_read_or_refused(tmp_path):
    status, said = options.run(options.build(tmp_path), LINES, 1)
    assert status == 0, said
    tried, kept = (int(word) for word in said.split() if word.isdigit())
    assert tried == LINES
    assert kept > 20  # it is guided: lines that reached new code
