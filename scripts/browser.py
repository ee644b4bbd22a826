"""Chromium for screenshots of pages, and its options for the light and the dark scheme."""

from __future__ import annotations

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
LIGHT, DARK = (f"--blink-settings=preferredColorScheme={scheme}" for scheme in (1, 0))
