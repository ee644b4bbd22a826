"""Restores the default handling of signals, sorts tests and checks their marks.

A shell or `nohup` may have made this process ignore signals. Programs that tests start would
inherit this.
"""

import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["tests.commands"]
#: Marks by which the Makefile chooses the files to collect.
_MARKS = ("slow", "long", "browser", "minicluster", "guests", "spack")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Put files with slow tests first, so that no process works long after the others ended.

    Raises UsageError if the text of a test's file does not contain the test's mark. This is also
    checked for tests that are not selected.
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
