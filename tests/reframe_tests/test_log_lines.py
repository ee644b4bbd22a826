"""Lines of ReFrame's log, which cost time while a block runs, are made only for a handler."""

import logging
from types import SimpleNamespace

import pytest

from reframe_tests.mixin import NimcMixin


@pytest.mark.parametrize(
    ("levels", "enabled"),
    [([logging.INFO, logging.ERROR], False), ([logging.DEBUG], True), ([], True)],
)
def test_debugging_lines_that_no_handler_takes_are_not_made(levels, enabled):
    """Without handlers, what a logger does is not known, and nothing is changed."""
    logger = logging.Logger("reframe", logging.DEBUG)
    for level in levels:
        handler = logging.NullHandler()
        handler.level = level
        logger.addHandler(handler)
    adapter = logging.LoggerAdapter(logger, {})
    NimcMixin.skip_unwritten_lines(SimpleNamespace(logger=adapter))
    assert adapter.isEnabledFor(logging.DEBUG) == enabled
    assert adapter.isEnabledFor(logging.INFO)
