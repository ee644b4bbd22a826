"""A test of ReFrame's log lines: ReFrame makes a line only if a handler of the log takes it.

Each line costs time while a block runs.
"""

import logging
from types import SimpleNamespace

import pytest

from reframe_tests.mixin import NimcMixin


@pytest.mark.parametrize(
    ("levels", "enabled"),
    [([logging.INFO, logging.ERROR], False), ([logging.DEBUG], True), ([], True)],
)
def test_reframe_makes_no_debugging_lines_that_no_handler_takes(levels, enabled):
    """If a logger has no handlers, nobody knows where its lines go, and the logger is unchanged."""
    logger = logging.Logger("reframe", logging.DEBUG)
    for level in levels:
        handler = logging.NullHandler()
        handler.level = level
        logger.addHandler(handler)
    adapter = logging.LoggerAdapter(logger, {})
    NimcMixin.skip_unwritten_lines(SimpleNamespace(logger=adapter))
    assert adapter.isEnabledFor(logging.DEBUG) == enabled
    assert adapter.isEnabledFor(logging.INFO)
