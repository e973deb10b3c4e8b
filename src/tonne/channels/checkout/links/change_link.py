"""Creating, replacing and changing a link. The operator finds it by its id alone."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tonne.channels.checkout.errors import OffsetLinkNotFound
from tonne.channels.checkout.links import store
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn, offset_link_out
from tonne.channels.checkout.links.secret import new_link_secret
from tonne.channels.checkout.links.settings import LinkOwner, build_link, load_link_owner, record_link
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.replace import replace
from tonne.platform.values.same_named import same_named
from tonne.selling.catalogue.selection import BundleChoiceIn


async def create_link(
    tx: Connection, owner: LinkOwner, body: OffsetLinkIn, *, box: SecretBox, actor: Actor, now: datetime
) -> tuple[OffsetLink, str]:
    """The link, and the secret that signs its queries. The secret is returned only here and by a rotation."""
    link = await build_link(tx, owner, body, old=None, now=now)
    secret = new_link_secret()
    await store.insert_link(tx, link, box.seal(secret, link.id))
    await record_link(tx, link, old=None, actor=actor, now=now)
    return link, secret


async def create_account_link(
    tx: Connection, scope: Scope, body: OffsetLinkIn, *, settings: Settings, actor: Actor, now: datetime
) -> tuple[OffsetLink, str]:
    """For callers without a cached catalogue."""
    owner, box = await load_link_owner(tx, scope, settings), SecretBox.from_settings(settings)
    return await create_link(tx, owner, body, box=box, actor=actor, now=now)


async def lock_link(tx: Connection, scope: Scope, link_id: str) -> OffsetLink:
    link = await store.lock_link(tx, scope, link_id)
    if link is None:
        raise OffsetLinkNotFound
    return link


async def replace_link(
    tx: Connection, owner: LinkOwner, old: OffsetLink, body: OffsetLinkIn, *, actor: Actor, now: datetime
) -> OffsetLink:
    """Replaces all settings; the id and the creation time stay. The caller has locked `old`."""
    link = await build_link(tx, owner, body, old=old, now=now)
    await store.update_link(tx, link)
    await record_link(tx, link, old=old, actor=actor, now=now)
    return link


def settings_of(link: OffsetLink, currency: str) -> OffsetLinkIn:
    selection = link.bundle_selection
    return same_named(
        OffsetLinkIn,
        offset_link_out(link, currency, ""),
        bundle_selection=None if selection is None else [BundleChoiceIn(**choice) for choice in selection],
        expires_at=link.expires_at,
    )


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
    tx: Connection, link_id: str, changes: Mapping[str, Any], *, settings: Settings, actor: Actor, now: datetime
) -> OffsetLink:
    """`changes` are new values of settings by name; the others keep theirs. A new preset replaces the other one."""
    scope = (await require_link_any_account(tx, link_id)).scope
    owner, old = await load_link_owner(tx, scope, settings), await lock_link(tx, scope, link_id)
    cleared = {
        other: None
        for preset, other in (("preset_quantity", "preset_value"), ("preset_value", "preset_quantity"))
        if changes.get(preset)
    }
    body = replace(settings_of(old, owner.currency), **{**cleared, **changes})
    return await replace_link(tx, owner, old, body, actor=actor, now=now)
