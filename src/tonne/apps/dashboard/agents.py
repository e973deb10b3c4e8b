"""Names of browsers and systems in words, for the list of sessions."""

import re

# The order matters: Edge and Opera also say Chrome, Chrome also says Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
    ("curl", "curl"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


def browser_text(agent: str) -> str:
    browser = next((name for mark, name in _BROWSERS if re.search(rf"{mark}\w*/", agent)), "Unknown browser")
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    return browser if system is None else f"{browser} on {system}"
