"""The folder of data sets that others published.

They are no part of this project. If they are on this host, they lie beside the checkout.
"""

import pytest

from records.checkout import ROOT

REFERENCE = ROOT.parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason=f"published data sets are not here: no folder {REFERENCE}"
)
