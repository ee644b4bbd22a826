"""Checks messages to users.

Tests fix what a user acts on (file, field, values), but not the words of the sentence around it.
"""

import re


def assert_message(message: str, location: str, *values: str, allowed: str = "") -> None:
    """Assert that a message names a location, shows values, and says which values are allowed.

    `location` is the beginning of the message, such as `FILE:LINE: FIELD`. `values` are texts that
    the message must quote as whole words: names, and values that were found at the location.
    `allowed` is a part of the list of allowed values at the end of the message.
    """
    assert message.startswith(f"{location}:"), message
    fault, _, allowed_values = message.removeprefix(location).partition("; allowed")
    for value in values:
        assert re.search(rf"(?<!\w){re.escape(value)}(?!\w)", fault), (value, message)
    assert allowed in allowed_values, message
