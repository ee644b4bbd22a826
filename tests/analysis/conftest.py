"""Makes pages without figures, since drawing takes most of the time of a page."""

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make figures without a picture. They keep their texts for readers who do not see them."""
    engine = "matplotlib.layout_engine.ConstrainedLayoutEngine.execute"
    monkeypatch.setattr(engine, lambda *_: None)
    figure = "matplotlib.figure.Figure.savefig"
    monkeypatch.setattr(figure, lambda _, out, **__: out.write(b"<svg></svg>"))
