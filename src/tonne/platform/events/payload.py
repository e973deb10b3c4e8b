"""The JSON of an event, sent byte for byte in every delivery: its columns, and the document that it is about.

Only the document is stored, compressed. The rest is built from the columns, always in the same form.
"""

import hashlib
from collections.abc import Iterable, Sequence

from tonne.platform.db.json_compression import JsonDictionary, compress_json, decompress_json

API_VERSION = "v1"
# SQL: what comes before the document. It has no line break. `{}` is the row of the event.
_HEAD = (
    f"""'{{{{"api_version":"{API_VERSION}","event_id":"' || {{0}}.id || '","account_id":"' || {{0}}.account_id"""
    """ || '","event_type":"' || {0}.event_type"""
    """ || '","sequence":"' || to_char({0}.sequence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
    """ || '","data":{{"' || split_part({0}.event_type, '.', 1) || '":'"""
)
_TAIL = b"}}"
_BEFORE_ID = len(f'{{"api_version":"{API_VERSION}","event_id":"')


def head_of(row: str) -> str:
    """An SQL expression: the JSON before the document, for `event_payload`."""
    return _HEAD.format(row)


def joined_heads_of(row: str) -> str:
    """An aggregate, for `join_payloads`, separated by line breaks. Aggregate the documents in the same order."""
    return f"string_agg({head_of(row)}, E'\\n' ORDER BY {row}.position)"


def encode_document(document: bytes) -> bytes:
    """The form in which `events.document` stores the document of an event."""
    return compress_json(document, JsonDictionary.ORDER)


def decode_document(stored: bytes) -> bytes:
    return decompress_json(stored)


def event_payload(head: str, stored: bytes) -> bytes:
    return b"".join((head.encode(), decode_document(stored), _TAIL))


def join_payloads(heads: Sequence[str], stored: Iterable[bytes]) -> bytes:
    """The payloads of several events, joined by commas."""
    return b",".join(map(event_payload, heads, stored))


def digest_ids(heads: Sequence[str]) -> str:
    """The id of a message with the events of these heads: the same for the same events in the same order."""
    return message_id([head[_BEFORE_ID : head.index('"', _BEFORE_ID)] for head in heads])


def message_id(event_ids: Sequence[str]) -> str:
    return f"msg_{hashlib.sha256(' '.join(event_ids).encode()).hexdigest()[:32]}"
