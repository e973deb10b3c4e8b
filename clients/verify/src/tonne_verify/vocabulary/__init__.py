"""The words of credentials: a JSON-LD context and a JSON schema, which never change.

They are part of this package, so that nothing is fetched. Every seller publishes the same bytes, and each credential
states their digests.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tonne_verify.errors import NotProven

CREDENTIALS_V2 = "https://www.w3.org/ns/credentials/v2"
CONTEXT_FILE, SCHEMA_FILE = "context-v1.json", "schema-v1.json"
MEDIA_TYPES = {CONTEXT_FILE: "application/ld+json", SCHEMA_FILE: "application/schema+json"}


@cache
def read_vocabulary(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()


@cache
def digest_sri(name: str) -> str:
    """As in the attribute `integrity` of HTML."""
    return "sha384-" + base64.b64encode(hashlib.sha384(read_vocabulary(name)).digest()).decode()


def related_resource(name: str, url: str) -> dict[str, str]:
    """What a credential states of a file that it refers to."""
    return {"id": url, "mediaType": MEDIA_TYPES[name], "digestSRI": digest_sri(name)}


def check_context(document: Mapping[str, Any]) -> None:
    """Raises NotProven if software that knows JSON-LD could understand the credential in another way than this one."""
    contexts, related = document.get("@context"), document.get("relatedResource", ())
    pinned = {each.get("id"): each.get("digestSRI") for each in related if isinstance(each, dict)}
    first, *others = contexts if isinstance(contexts, list) and contexts else [None]
    if first != CREDENTIALS_V2 or any(
        not isinstance(each, str) or pinned.get(each) != digest_sri(CONTEXT_FILE) for each in others
    ):
        raise NotProven("The credential gives its words another meaning: its `@context` is not one that is known.")
