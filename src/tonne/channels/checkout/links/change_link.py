"""Partial updates of a link. The operator finds it by its id alone."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tonne.channels.checkout.errors import OffsetLinkNotFound
from tonne.channels.checkout.links import store
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.replace_link import lock_link, replace_link
from tonne.channels.checkout.links.schemas import OffsetLinkIn, offset_link_out
from tonne.channels.checkout.links.settings import LinkOwner, load_link_owner
from tonne.platform.db.pool import Connection
from tonne.platform.http.json_body import decode_json, read
from tonne.platform.settings.settings import Settings
from tonne.platform.values.actor import Actor


def read_link_settings(settings: Mapping[str, Any]) -> OffsetLinkIn:
    """Settings by their names in the API, validated like the body of a request."""
    return read(decode_json(json.dumps(settings).encode()), OffsetLinkIn)


def settings_of(link: OffsetLink, currency: str) -> dict[str, Any]:
    """All settings of a link by their names in the API."""
    current = msgspec.to_builtins(offset_link_out(link, currency, ""))
    return {name: current[name] for name in OffsetLinkIn.__struct_fields__}


async def require_link_any_account(connection: Connection, link_id: str) -> OffsetLink:
    link = await store.find_link_any_account(connection, link_id)
    if link is None:
        raise OffsetLinkNotFound(
            f"There is no offset link {link_id}. Run `tonne link list` to see the links of an account."
        )
    return link


async def show_link_any_account(
    connection: Connection, link_id: str, *, settings: Settings
) -> tuple[OffsetLink, LinkOwner]:
    link = await require_link_any_account(connection, link_id)
    return link, await load_link_owner(connection, link.scope, settings)


async def change_link_any_account(
    tx: Connection, link_id: str, changes: dict[str, Any], *, settings: Settings, actor: Actor, now: datetime
) -> OffsetLink:
    """Settings that `changes` does not name keep their value; None clears one. A new preset replaces the other one."""
    scope = (await require_link_any_account(tx, link_id)).scope
    owner, old = await load_link_owner(tx, scope, settings), await lock_link(tx, scope, link_id)
    body = settings_of(old, owner.currency) | changes
    for preset, other in (("preset_quantity", "preset_value"), ("preset_value", "preset_quantity")):
        if changes.get(preset) and other not in changes:
            body[other] = None
    return await replace_link(tx, owner, old, read_link_settings(body), actor=actor, now=now)
