"""Signals are handled as usual, tests are sorted, and their marks are checked.

Programs that tests start would inherit signals that a shell or `nohup` made this process ignore.
"""

import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["tests.commands"]
#: Marks by which Makefile chooses the files to collect.
_MARKS = ("slow", "long", "browser", "minicluster", "guests", "spack")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Files with slow tests come first, so that no process works long after the others ended.

    Raises UsageError for a mark that does not stand in the test's file, whether it is selected or
    not.
    """
    for item in items:
        for mark in _MARKS:
            if item.get_closest_marker(mark) and f"mark.{mark}" not in _text(item.path):
                raise pytest.UsageError(f"{item.path}: mark.{mark} must stand in this file")
    yield
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@cache
def _text(path: Path) -> str:
    return path.read_text()
