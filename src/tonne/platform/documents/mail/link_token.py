"""The secret tokens in the links of mails."""

import hashlib

from tonne.platform.values.context import is_id, new_secret_id

_PREFIX = "view"


def new_link_token() -> str:
    """Anyone who has it can see the page, so it is in mails only, never in a log."""
    return new_secret_id(_PREFIX)


def is_link_token(text: str) -> bool:
    return is_id(_PREFIX, text)


def hash_link_token(token: str) -> bytes:
    """No salt: a token has 128 random bits."""
    return hashlib.sha256(token.encode()).digest()
