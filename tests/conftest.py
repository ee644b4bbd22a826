"""Signals that a shell or `nohup` made this process ignore would be ignored by what tests start."""

import signal

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["tests.commands"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Change the order of files: those with slow tests first, then from both ends in turn.

    No process then works long after the others ended. Files next to each other often wait for the
    same, such as writers: a file from the other end computes meanwhile.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    paths = list(dict.fromkeys(item.path for item in items))
    from_end = {path: min(index, len(paths) - 1 - index) for index, path in enumerate(paths)}
    items.sort(key=lambda item: (item.path not in slow, from_end[item.path]))
