"""Strategies of Hypothesis: captured texts with faults in them, and arbitrary bytes."""

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

#: No input is larger, bytes.
MOST_B = 256 * 1024
_MOST_FAULTS = 6
_NUMBER = re.compile(rb"[-+]?\d[\d.eE+-]*")
#: A value in JSON, YAML or CSV: quoted text, a number, a word.
_VALUE = re.compile(rb'"[^"\n]*"|[-+]?\d[\d.eE+-]*|\w+')
_NUMBERS = (
    *(b"", b"0", b"-1", b"-0", b"1e999", b"-1e999", b"1e308", b"1e-320", b"nan", b"inf", b"-inf"),
    *(b"9" * 19, b"9" * 400, b"9" * 5000, b"1000000000000", b"2147483648", b"0x10", b"1_0"),
    *(b"1.2.3", b"1e", b"-", b".", b"+", b"****", b"\xd9\xa3", b"\xc2\xb2", b"1,5"),
    b"0-99999999999",
)  # fmt: skip
_VALUES = (
    *(b"null", b"true", b"{}", b"[]", b"[[]]", b'""', b'"\\ud800"', b'"\\u0000"', b'{"a": 1}'),
    *(b"NaN", b"Infinity", b"1.5", b"[1]", b'"\\"', b"*a", b"&a", b"!!int x", b"? a", b"@", b"a:"),
)
_BYTES = (
    *(b"\0", b"\x1b[2J", b"\r", b"\n", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\xff", b"\xc3", b"\x80"),
    *(b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\xef\xbb\xbf", b"\xe2\x80\xae", b","),
    *(b":", b"=", b"(", b")", b'"', b" ", b"{", b"[", b"%", b"\\", b"  ", b"\n\n\n"),
)


def _place(draw, text: bytes) -> int:
    return draw(st.integers(0, len(text)))


def _delete_line(draw, text: bytes) -> bytes:
    lines = text.split(b"\n")
    del lines[draw(st.integers(0, len(lines) - 1))]
    return b"\n".join(lines)


def _repeat_line(draw, text: bytes) -> bytes:
    lines = text.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    lines[at:at] = [lines[at]] * draw(st.sampled_from((1, 2, 100, 3000)))
    return b"\n".join(lines)


def _swap_lines(draw, text: bytes) -> bytes:
    lines = text.split(b"\n")
    one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _replaced(pattern: re.Pattern[bytes], others: Sequence[bytes]) -> Callable[..., bytes]:
    def replace(draw, text: bytes) -> bytes:
        found = list(pattern.finditer(text))
        if not found:
            return text
        chosen = found[draw(st.integers(0, len(found) - 1))]
        return text[: chosen.start()] + draw(st.sampled_from(others)) + text[chosen.end() :]

    return replace


def _copy_value(draw, text: bytes) -> bytes:
    """One value in the place of another."""
    found = list(_VALUE.finditer(text))
    if not found:
        return text
    one, other = (found[draw(st.integers(0, len(found) - 1))] for _ in range(2))
    return text[: one.start()] + other[0] + text[one.end() :]


def _truncate(draw, text: bytes) -> bytes:
    return text[: _place(draw, text)]


def _cut_out(draw, text: bytes) -> bytes:
    start, end = sorted(_place(draw, text) for _ in range(2))
    return text[:start] + text[end:]


def _insert(draw, text: bytes) -> bytes:
    at = _place(draw, text)
    return text[:at] + draw(st.sampled_from(_BYTES)) + text[at:]


def _overwrite(draw, text: bytes) -> bytes:
    at = _place(draw, text)
    put = draw(st.binary(min_size=1, max_size=4))
    return text[:at] + put + text[at + len(put) :]


_FAULTS = (
    _delete_line, _repeat_line, _swap_lines, _replaced(_NUMBER, _NUMBERS),
    _replaced(_VALUE, _VALUES + _NUMBERS), _copy_value, _truncate, _cut_out, _insert, _overwrite,
)  # fmt: skip


@st.composite
def _faulty(draw, seeds: Sequence[bytes]) -> bytes:
    text = draw(st.sampled_from(seeds))
    for fault in draw(st.lists(st.sampled_from(_FAULTS), max_size=_MOST_FAULTS)):
        text = fault(draw, text)[:MOST_B]
    return text


def inputs(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """The seeds with up to six faults each; now and then arbitrary bytes or text."""
    return st.one_of(
        *[_faulty(seeds)] * 6,
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    )
