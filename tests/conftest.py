"""Signals that a shell or `nohup` made this process ignore would be ignored by what tests start."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["tests.commands"]
