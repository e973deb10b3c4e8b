"""Changes an operator makes to an organisation. Each is recorded in the audit log."""

from decimal import Decimal
from fractions import Fraction

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import open_stream
from tonne.platform.values.context import By, Mode, new_id
from tonne.selling.accounts import customer_mail, redirect_hosts, store
from tonne.selling.accounts.errors import (
    AddressTooLong,
    AdminNotFound,
    FeeRateInvalid,
    NameInvalid,
    RedirectHostNotFound,
    TestMailAddressNotFound,
)
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.model import Organisation, OrganisationDetails

DEFAULT_FEE_RATE = Decimal("0.10")


async def open_organisation(tx: Connection, name: str, fee_rate: Decimal, *, by: By) -> Organisation:
    """Opens the organisation in both modes, each with its own event stream."""
    name = check_name(name)
    organisation = Organisation(new_id("org"), name, check_fee_rate(fee_rate), by.at)
    await store.insert_organisation(tx, organisation, fee_rate)
    for mode in Mode:
        await store.insert_mode(tx, organisation.id, mode)
        await open_stream(tx, organisation.id, mode)
    after = {"name": name, "fee_rate": fee_rate}
    await audit.record(tx, organisation.id, "organisation.opened", by=by, after=after)
    return organisation


def check_fee_rate(fee_rate: Decimal) -> Fraction:
    if not 0 <= fee_rate < 1 or fee_rate != round(fee_rate, 5):
        raise FeeRateInvalid
    return Fraction(fee_rate)


def check_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise NameInvalid
    return name


MAX_ADDRESS = 1000


async def set_fee_rate(tx: Connection, organisation_id: str, fee_rate: Decimal, *, by: By) -> None:
    """Orders placed earlier keep their fee."""
    check_fee_rate(fee_rate)
    await _lock(tx, organisation_id)
    old_rate = await store.set_fee_rate(tx, organisation_id, fee_rate)
    before, after = {"fee_rate": old_rate.normalize()}, {"fee_rate": fee_rate.normalize()}
    await audit.record(tx, organisation_id, "organisation.fee_set", by=by, before=before, after=after)


async def set_address(tx: Connection, organisation_id: str, address: str, *, by: By) -> None:
    if len(address) > MAX_ADDRESS:
        raise AddressTooLong
    old = await _lock(tx, organisation_id)
    await store.set_address(tx, organisation_id, address)
    before, after = {"address": old.address}, {"address": address}
    await audit.record(tx, organisation_id, "organisation.address_set", by=by, before=before, after=after)


async def add_admin(tx: Connection, organisation_id: str, email: str, *, by: By) -> None:
    old = await _lock(tx, organisation_id)
    await store.add_admin(tx, organisation_id, email, by.at)
    before, after = {"admins": old.admins}, {"admins": sorted({*old.admins, email})}
    await audit.record(tx, organisation_id, "organisation.admin_added", by=by, before=before, after=after)


async def remove_admin(tx: Connection, organisation_id: str, email: str, *, by: By) -> None:
    old = await _lock(tx, organisation_id)
    if not await store.remove_admin(tx, organisation_id, email):
        raise AdminNotFound(f"{email} is not an admin of {organisation_id}. Run `tonne org show` to see its admins.")
    before, after = {"admins": old.admins}, {"admins": [admin for admin in old.admins if admin != email]}
    action = "organisation.admin_removed"
    await audit.record(tx, organisation_id, action, by=by, before=before, after=after)


async def allow_test_mail(tx: Connection, organisation_id: str, email: str, *, by: By) -> None:
    old = await _lock(tx, organisation_id)
    await customer_mail.allow_address(tx, organisation_id, email, by.at)
    await _record_test_mail(tx, old, "organisation.test_mail_allowed", by=by)


async def forbid_test_mail(tx: Connection, organisation_id: str, email: str, *, by: By) -> None:
    old = await _lock(tx, organisation_id)
    if not await customer_mail.forbid_address(tx, organisation_id, email):
        raise TestMailAddressNotFound(
            f"{organisation_id} does not allow test mail to {email}. Run `tonne org show` to see its addresses."
        )
    await _record_test_mail(tx, old, "organisation.test_mail_forbidden", by=by)


async def _record_test_mail(tx: Connection, old: OrganisationDetails, action: str, *, by: By) -> None:
    organisation_id = old.organisation.id
    new = await require_organisation(tx, organisation_id)
    before, after = ({"test_mail_addresses": each.test_mail_addresses} for each in (old, new))
    await audit.record(tx, organisation_id, action, by=by, before=before, after=after)


async def allow_redirect(tx: Connection, organisation_id: str, host: str, *, by: By) -> str:
    """Returns the host in its canonical spelling."""
    old = await _lock(tx, organisation_id)
    allowed = redirect_hosts.read_host(host)
    spelled = redirect_hosts.spell_host(allowed)
    await redirect_hosts.allow_host(tx, organisation_id, allowed, by.at)
    before, after = {"hosts": old.redirect_hosts}, {"hosts": sorted({*old.redirect_hosts, spelled})}
    action = "organisation.redirect_allowed"
    await audit.record(tx, organisation_id, action, by=by, before=before, after=after, host=spelled)
    return spelled


async def forbid_redirect(tx: Connection, organisation_id: str, host: str, *, by: By) -> str:
    """Links that name the host no longer redirect there. Returns the host in its canonical spelling."""
    old = await _lock(tx, organisation_id)
    forbidden = redirect_hosts.read_host(host)
    spelled = redirect_hosts.spell_host(forbidden)
    if not await redirect_hosts.forbid_host(tx, organisation_id, forbidden):
        raise RedirectHostNotFound(
            f"{spelled} is not a redirect host of {organisation_id}. Run `tonne org show` to see its redirect hosts."
        )
    before = {"hosts": old.redirect_hosts}
    after = {"hosts": [allowed for allowed in old.redirect_hosts if allowed != spelled]}
    action = "organisation.redirect_forbidden"
    await audit.record(tx, organisation_id, action, by=by, before=before, after=after, host=spelled)
    return spelled


async def _lock(tx: Connection, organisation_id: str) -> OrganisationDetails:
    """Until the commit, so that the values before a change are still those that the change replaces."""
    await store.lock_organisation(tx, organisation_id)
    return await require_organisation(tx, organisation_id)
