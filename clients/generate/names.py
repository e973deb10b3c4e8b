"""The names of the clients' methods, by one grammar for all operations and both languages.

The first word is `create`, `list`, `retrieve`, `update` or `delete`, as the method and the response say, or a named
action. The words of the path follow, without those of the resource and without parameters: `orders.create_by_mass`,
`estimates.retrieve_flight`, `accounts.archive_client`.
"""

import re
from collections.abc import Iterator, Sequence

VERBS = {"get": "retrieve", "post": "create", "put": "update", "patch": "update", "delete": "delete"}
# The last part of the path of an action: every other POST creates something. `download`, `upload` and `replace` (PUT
# where PATCH is `update`) are the remaining actions.
ACTIONS = frozenset(
    {
        *(
            "archive",
            "unarchive",
            "cancel",
            "complete",
            "decline",
            "dispute",
            "erase",
            "export",
            "pay",
            "quote",
            "reduce",
            "release",
            "retire",
        ),
        *("retry-now", "rewind", "rotate", "rotate-secret", "settle-invoice", "skip", "test"),
    }
)
# Instead of the names by the rule, where they are ambiguous or no English.
NAMES = {
    "get /v1/accounts/client": ("list", "clients"),
    "get /v1/estimates/shipping/all": ("list", "shipping"),
    "get /v1/sustainability-pages/public/{organisation_id}/{type}/{handle}": ("retrieve", "public", "by", "handle"),
    "post /v1/test-helpers/orders/{order_id}/settle-invoice": ("settle", "invoice"),
}


def method_words(verb: str, method: str, path: str) -> tuple[str, ...]:
    """`verb` is what the method does if the path does not end in an action."""
    if own := NAMES.get(f"{method} {path}"):
        return own
    parts = path.split("/")[3:]
    if parts and parts[-1] in ACTIONS:
        return (*parts[-1].split("-"), *_nouns(parts[:-1], is_one=True))
    return (verb, *_nouns(parts, is_one=verb == "create"))


def _nouns(parts: Sequence[str], *, is_one: bool) -> Iterator[str]:
    """A plural that an id or another part follows means one of them, as does the last one after `create`."""
    for number, part in enumerate(parts, 1):
        if not part.startswith("{"):
            plain = part.removesuffix(".json")
            yield from (re.sub(r"(?<!s)s$", "", plain) if is_one or number < len(parts) else plain).split("-")
