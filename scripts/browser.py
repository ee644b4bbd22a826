"""Path of Chromium, for screenshots of pages, and its options for light and dark schemes."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LIGHT = "--blink-settings=preferredColorScheme=1"
DARK = "--blink-settings=preferredColorScheme=0"
