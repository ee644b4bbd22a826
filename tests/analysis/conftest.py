"""Pages without figures, for tests of what else they say: most of a page's time is its figures."""

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures have their words for readers who do not see them, and no picture."""
    engine = "matplotlib.layout_engine.ConstrainedLayoutEngine.execute"
    monkeypatch.setattr(engine, lambda *_: None)
    figure = "matplotlib.figure.Figure.savefig"
    monkeypatch.setattr(figure, lambda _, out, **__: out.write(b"<svg></svg>"))
