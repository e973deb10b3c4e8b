"""Query strings."""

from urllib.parse import parse_qsl

from tonne.platform.values.errors import Fault, Invalid

MAX_PARAMETERS = 200


def read_query(raw: bytes) -> list[tuple[str, str]]:
    """Names and values, in their order. Raises Invalid."""
    if raw.count(b"&") >= MAX_PARAMETERS:
        raise _invalid(f"The query string has too many parameters. Send at most {MAX_PARAMETERS}.")
    try:
        return _pairs(raw.decode("ascii"))
    except ValueError as error:
        raise _invalid("The query string cannot be read.") from error


def is_map_entry(text: str, name: str) -> bool:
    """Whether a query parameter is one of `name[key]`."""
    return text.startswith(f"{name}[") and text.endswith("]")


def _pairs(query: str) -> list[tuple[str, str]]:
    if "%" in query or "+" in query:
        return parse_qsl(query, keep_blank_values=True, errors="strict")
    # Nearly every query has nothing to decode, and splitting it is much faster.
    split = [part.partition("=") for part in query.split("&") if part]
    return [(name, value) for name, _, value in split]


def _invalid(message: str) -> Invalid:
    return Invalid([Fault("validation_error", message)])
