"""JSON as people read it."""

import msgspec


def indented_json(document: bytes) -> str:
    """Formatted only: numbers and the order of fields stay as they are."""
    return msgspec.json.format(document, indent=2).decode()
