"""Checks that a page is well-formed HTML, and collects parts of its content."""

from collections import Counter
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "img", "hr", "wbr"}


class Page(HTMLParser):
    """Checks that tags close in order and ids are unique; collects addresses and text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []
        assert [name for name, times in self.ids.items() if name and times > 1] == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.ids[values.get("id") or ""] += 1
        for name in ("href", "xlink:href", "src", "action"):
            self.addresses.append(values.get(name) or "")
        self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data
