"""Makes damaged inputs: valid inputs into which faults are put, and random bytes."""

import random
import re
from collections.abc import Sequence

#: Largest size of a damaged input, bytes.
MOST_B = 256 * 1024
_MOST_FAULTS = 6
_NUMBER = re.compile(rb"[-+]?\d[\d.eE+-]*")
#: A value in JSON, YAML or CSV: quoted text, a number, a word.
_VALUE = re.compile(rb'"[^"\n]*"|[-+]?\d[\d.eE+-]*|\w+')
_NUMBERS = (
    b"", b"0", b"-1", b"-0", b"1e999", b"-1e999", b"1e308", b"1e-320", b"nan", b"inf", b"-inf",
    b"9" * 19, b"9" * 400, b"9" * 5000, b"1000000000000", b"2147483648", b"0x10", b"1_0",
    b"1.2.3", b"1e", b"-", b".", b"+", b"****", b"\xd9\xa3", b"\xc2\xb2", b"1,5",
    b"0-99999999999",
)  # fmt: skip
_VALUES = (
    b"null", b"true", b"{}", b"[]", b"[[]]", b'""', b'"\\ud800"', b'"\\u0000"', b'{"a": 1}',
    b"NaN", b"Infinity", b"1.5", b"[1]", b'"\\"', b"*a", b"&a", b"!!int x", b"? a", b"@", b"a:",
)  # fmt: skip
_BYTES = (
    b"\0", b"\x1b[2J", b"\r", b"\n", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\xff", b"\xc3", b"\x80",
    b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\xef\xbb\xbf", b"\xe2\x80\xae", b",",
    b":", b"=", b"(", b")", b'"', b" ", b"{", b"[", b"%", b"\\", b"  ", b"\n\n\n",
)  # fmt: skip


def _lines(text: bytes, rng: random.Random) -> bytes:
    """Remove a random line, repeat it, or swap it with another line."""
    lines = text.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    times = rng.choice((0, 2, 3, 100, 3000, None))
    if times is None:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first : first + 1] = [lines[first]] * times
    return b"\n".join(lines)


def _value(text: bytes, rng: random.Random) -> bytes:
    """Replace a number or word by another one of the text, or by an unusual or invalid value."""
    pattern, new_values = rng.choice(((_NUMBER, _NUMBERS), (_VALUE, _VALUES), (_VALUE, _NUMBERS)))
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    new = rng.choice(matches)[0] if rng.random() < 0.3 else rng.choice(new_values)
    return text[: match.start()] + new + text[match.end() :]


def _bytes(text: bytes, rng: random.Random) -> bytes:
    """Remove or overwrite a part of the text, insert bytes, or cut off the end."""
    start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
    few = rng.randbytes(rng.randint(1, 4))
    return rng.choice(
        (
            text[:start],
            text[:start] + text[end:],
            text[:start] + few + text[start + len(few) :],
            text[:start] + rng.choice(_BYTES) + text[start:],
        )
    )


def damaged(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Return one of the seeds (valid inputs) with up to six faults.

    In one of ten cases, random bytes are returned instead.
    """
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(200))
    text = rng.choice(seeds)
    for _ in range(rng.randint(0, _MOST_FAULTS)):
        text = rng.choice((_lines, _value, _value, _bytes))(text, rng)[:MOST_B]
    return text


def inputs(name: str, seeds: Sequence[bytes], number: int) -> list[bytes]:
    """Return `number` damaged inputs for the target of this name, the same ones in every call."""
    return [damaged(seeds, random.Random(f"{name} {index}")) for index in range(number)]
