"""What a figure shows, read from its SVG."""

import re
from collections import Counter


def bars(svg: str) -> Counter[str]:
    """The number of intervals, by the name of their colour."""
    return Counter(re.findall(r"stroke: var\(--([\w-]+)\); stroke-width: 3[;\"]", svg))
