"""Data sets that others published: not in this project, but beside its checkout if at all."""

import pytest

from records.checkout import ROOT

REFERENCE = ROOT.parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason=f"published data sets are not here: no folder {REFERENCE}"
)
