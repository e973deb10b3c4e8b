"""Changes an operator makes to an organisation. Each is recorded in the audit log."""

from datetime import datetime
from decimal import Decimal

from tonne.accounts import audit, redirect_hosts, store
from tonne.accounts.errors import AddressTooLong, AdminNotFound, RedirectHostNotFound
from tonne.accounts.lookup import require_organisation
from tonne.accounts.open_organisation import check_fee_rate
from tonne.base.actor import Actor
from tonne.db.pool import Connection

MAX_ADDRESS = 1000


async def set_fee_rate(tx: Connection, organisation_id: str, fee_rate: Decimal, *, actor: Actor, now: datetime) -> None:
    """Orders placed earlier keep their fee."""
    check_fee_rate(fee_rate)
    await require_organisation(tx, organisation_id)
    await store.set_fee_rate(tx, organisation_id, fee_rate)
    await audit.record(tx, organisation_id, "organisation.fee_set", actor=actor, at=now, fee_rate=str(fee_rate))


async def set_address(tx: Connection, organisation_id: str, address: str, *, actor: Actor, now: datetime) -> None:
    if len(address) > MAX_ADDRESS:
        raise AddressTooLong
    await require_organisation(tx, organisation_id)
    await store.set_address(tx, organisation_id, address)
    await audit.record(tx, organisation_id, "organisation.address_set", actor=actor, at=now)


async def add_admin(tx: Connection, organisation_id: str, email: str, *, actor: Actor, now: datetime) -> None:
    await require_organisation(tx, organisation_id)
    await store.add_admin(tx, organisation_id, email, now)
    await audit.record(tx, organisation_id, "organisation.admin_added", actor=actor, at=now, email=email)


async def remove_admin(tx: Connection, organisation_id: str, email: str, *, actor: Actor, now: datetime) -> None:
    await require_organisation(tx, organisation_id)
    if not await store.remove_admin(tx, organisation_id, email):
        raise AdminNotFound(f"{email} is not an admin of {organisation_id}. Run `tonne org show` to see its admins.")
    await audit.record(tx, organisation_id, "organisation.admin_removed", actor=actor, at=now, email=email)


async def allow_redirect(tx: Connection, organisation_id: str, host: str, *, actor: Actor, now: datetime) -> str:
    """Returns the host in its canonical spelling."""
    await require_organisation(tx, organisation_id)
    allowed = redirect_hosts.read_host(host)
    spelled = redirect_hosts.spell_host(allowed)
    await redirect_hosts.allow_host(tx, organisation_id, allowed, now)
    await audit.record(tx, organisation_id, "organisation.redirect_allowed", actor=actor, at=now, host=spelled)
    return spelled


async def forbid_redirect(tx: Connection, organisation_id: str, host: str, *, actor: Actor, now: datetime) -> str:
    """Links that name the host no longer redirect there. Returns the host in its canonical spelling."""
    await require_organisation(tx, organisation_id)
    forbidden = redirect_hosts.read_host(host)
    spelled = redirect_hosts.spell_host(forbidden)
    if not await redirect_hosts.forbid_host(tx, organisation_id, forbidden):
        raise RedirectHostNotFound(
            f"{spelled} is not a redirect host of {organisation_id}. Run `tonne org show` to see its redirect hosts."
        )
    await audit.record(tx, organisation_id, "organisation.redirect_forbidden", actor=actor, at=now, host=spelled)
    return spelled
