"""Messages to users: tests pin what a user acts on, and leave the sentence around it free."""

import re


def assert_message(message: str, location: str, *values: str, allowed: str = "") -> None:
    """Assert that a message is of a location, shows values, and says what is allowed.

    `location`: how the message begins, such as `FILE:LINE: FIELD`. `values`: what was found there,
    and names that the message quotes, each as whole words. `allowed`: a part of what is allowed.
    """
    assert message.startswith(f"{location}:"), message
    fault, _, allowed_values = message.removeprefix(location).partition("; allowed")
    for value in values:
        assert re.search(rf"(?<!\w){re.escape(value)}(?!\w)", fault), (value, message)
    assert allowed in allowed_values, message
