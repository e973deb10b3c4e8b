from datetime import datetime

from tonne.base.actor import Actor
from tonne.base.scope import Scope
from tonne.checkout import link_store as store
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_schemas import OffsetLinkIn
from tonne.checkout.link_settings import LinkOwner, build_link, load_link_owner, record_link
from tonne.db.pool import Connection


async def create_link(
    tx: Connection, owner: LinkOwner, body: OffsetLinkIn, *, actor: Actor, now: datetime
) -> OffsetLink:
    link = await build_link(tx, owner, body, old=None, now=now)
    await store.insert_link(tx, link)
    await record_link(tx, link, old=None, actor=actor, now=now)
    return link


async def create_account_link(
    tx: Connection, scope: Scope, body: OffsetLinkIn, *, actor: Actor, now: datetime
) -> OffsetLink:
    """For callers without a cached catalogue."""
    return await create_link(tx, await load_link_owner(tx, scope), body, actor=actor, now=now)
