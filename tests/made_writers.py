"""Makes writers as the conductor plans them, and records of writers in samples.

Keyword arguments replace fields.
"""

from typing import Any

from conductor.injectors.base import Writer
from records.sample import WriterRecord


def writer(**changes: Any) -> Writer:
    """Return a planned writer that writes from one node to another."""
    fields: dict[str, Any] = {
        "index": 0,
        "origin": "o",
        "target": "t",
        "address": "127.0.0.1",
        "port": 20000,
        "message_b": 65536,
    }
    return Writer(**{**fields, **changes})


def record(**changes: Any) -> WriterRecord:
    """Return the record of a ucx writer that writes through the memory of one host.

    Its uncontended rate is 2 GB/s; beside an application, its rate is half of that.
    """
    fields: dict[str, Any] = {
        "injector": "ucx",
        "origin": "h",
        "target": "h",
        "transport": "shared memory",
        "message_b": 65536,
        "asked_b_s": None,
        "rate_alone_b_s": 2e9,
        "rate_b_s": 1e9,
        "rate_min_b_s": 1e9,
        "bytes_b": 1e6,
    }
    return WriterRecord(**{**fields, **changes})


def control(**changes: Any) -> WriterRecord:
    """Return the record of a control: a busy process in place of a writer, which writes nothing."""
    nothing = dict.fromkeys(("rate_alone_b_s", "rate_b_s", "rate_min_b_s", "bytes_b"), 0.0)
    return record(**{"injector": "spin", "transport": "none", "message_b": 0, **nothing, **changes})
