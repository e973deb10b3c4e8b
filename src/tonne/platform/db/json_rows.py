"""Many rows as one statement parameter."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


def json_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """A parameter for `jsonb_populate_recordset`, which matches columns by name and ignores other members."""
    return msgspec.json.encode(list(rows)).decode()
