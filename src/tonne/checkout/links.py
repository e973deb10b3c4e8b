"""Making and changing offset links: what their settings must be beyond their form."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tonne.accounts import audit
from tonne.accounts.redirect_hosts import list_hosts
from tonne.base.currency import DECIMALS
from tonne.base.decimals import scaled
from tonne.base.errors import Fault, Invalid, TonneError
from tonne.base.ids import new_secret_id
from tonne.base.mass import MAX_GRAMS
from tonne.base.money import format_money
from tonne.base.scope import Scope
from tonne.catalog.errors import BundleInvalid
from tonne.catalog.model import Catalogue
from tonne.catalog.selection import FIELD, BundleChoiceIn, resolve, storable
from tonne.checkout import link_store as store
from tonne.checkout.link_errors import OffsetLinkAmountInvalid, OffsetLinkExpiryInvalid, OffsetLinkNotFound
from tonne.checkout.link_model import Bounds, OffsetLink
from tonne.checkout.link_schemas import OffsetLinkIn
from tonne.checkout.redirects import check_redirect
from tonne.db.pool import Connection

# Far more than anybody pays, and within what the database counts.
MAX_VALUE_MINOR = 10**17


@dataclass(frozen=True, slots=True)
class Shop:
    """The account that sells through the link. `catalogue` is that of its mode, None where nothing is imported yet."""

    scope: Scope
    currency: str
    catalogue: Catalogue | None


async def create_link(tx: Connection, shop: Shop, body: OffsetLinkIn, *, actor: str, now: datetime) -> OffsetLink:
    link = await _judged(tx, shop, body, old=None, now=now)
    await store.insert_link(tx, link)
    await _record(tx, link, "offset_link.created", actor, now)
    return link


async def replace_link(
    tx: Connection, shop: Shop, old: OffsetLink, body: OffsetLinkIn, *, actor: str, now: datetime
) -> OffsetLink:
    """All settings at once; id and time of creation stay. `old` is locked."""
    link = await _judged(tx, shop, body, old=old, now=now)
    await store.update_link(tx, link)
    await _record(tx, link, "offset_link.changed", actor, now)
    return link


async def require(tx: Connection, scope: Scope, link_id: str) -> OffsetLink:
    """Found and locked: nobody else changes it until the transaction ends."""
    link = await store.lock_link(tx, scope, link_id)
    if link is None:
        raise OffsetLinkNotFound
    return link


async def _judged(
    tx: Connection, shop: Shop, body: OffsetLinkIn, *, old: OffsetLink | None, now: datetime
) -> OffsetLink:
    """The link that the settings make, or every fault of them.

    A selection or redirect URL that stays as it was is not judged again, and a change may leave the link expired: a
    link can be switched off whatever has changed around it. The checkout judges all of this anew for every person.
    """
    faults: list[Fault] = []
    grams = {name: _grams(body, name, faults) for name in ("preset_quantity", "min_quantity", "max_quantity")}
    minor = {name: _minor(body, name, shop, faults) for name in ("preset_value", "min_value", "max_value")}
    _check_range("quantity", grams, faults)
    _check_range("value", minor, faults)
    _check_presets(body, faults)
    if old is None and body.expires_at is not None and body.expires_at <= now:
        faults += OffsetLinkExpiryInvalid(field="expires_at").faults
    selection = _selection(shop, body.bundle_selection, None if old is None else old.bundle_selection, faults)
    redirect_url = body.redirect_url
    if redirect_url is not None and (old is None or redirect_url != old.redirect_url):
        try:
            hosts = await list_hosts(tx, shop.scope.organisation_id)
            redirect_url = check_redirect(redirect_url, hosts, shop.scope.mode)
        except TonneError as error:
            faults += error.faults
    if faults:
        raise Invalid(faults)
    return OffsetLink(
        scope=shop.scope,
        id=new_secret_id("lnk") if old is None else old.id,
        title=body.title,
        message=body.message,
        bundle_selection=selection,
        preset_quantity_grams=grams["preset_quantity"],
        preset_value_minor=minor["preset_value"],
        amount_editable=body.amount_editable,
        bounds=Bounds(grams["min_quantity"], grams["max_quantity"], minor["min_value"], minor["max_value"]),
        redirect_url=redirect_url,
        redirect_label=body.redirect_label,
        enabled=body.enabled,
        expires_at=body.expires_at,
        created_at=now if old is None else old.created_at,
    )


def _grams(body: OffsetLinkIn, name: str, faults: list[Fault]) -> int | None:
    text: str | None = getattr(body, name)
    if text is None:
        return None
    grams = scaled(Decimal(text), 6)
    if grams is None or not 1 <= grams <= MAX_GRAMS:
        faults += OffsetLinkAmountInvalid(
            f"{name} must be from 0.000001 to 100,000,000 tonnes, with at most 6 decimals.", field=name
        ).faults
        return None
    return grams


def _minor(body: OffsetLinkIn, name: str, shop: Shop, faults: list[Fault]) -> int | None:
    text: str | None = getattr(body, name)
    if text is None:
        return None
    minor = scaled(Decimal(text), DECIMALS[shop.currency])
    if minor is None or not 1 <= minor <= MAX_VALUE_MINOR:
        least, most = (format_money(bound, shop.currency) for bound in (1, MAX_VALUE_MINOR))
        faults += OffsetLinkAmountInvalid(
            f"{name} must be from {least} to {most} {shop.currency}, without further decimals.", field=name
        ).faults
        return None
    return minor


def _check_range(kind: str, amounts: dict[str, int | None], faults: list[Fault]) -> None:
    preset, least, most = (amounts[f"{bound}_{kind}"] for bound in ("preset", "min", "max"))
    if least is not None and most is not None and least > most:
        faults += OffsetLinkAmountInvalid(f"min_{kind} is above max_{kind}.", field=f"min_{kind}").faults
    elif preset is not None and least is not None and preset < least:
        faults += OffsetLinkAmountInvalid(f"preset_{kind} is below min_{kind}.", field=f"preset_{kind}").faults
    elif preset is not None and most is not None and preset > most:
        faults += OffsetLinkAmountInvalid(f"preset_{kind} is above max_{kind}.", field=f"preset_{kind}").faults


def _check_presets(body: OffsetLinkIn, faults: list[Fault]) -> None:
    if body.preset_quantity is not None and body.preset_value is not None:
        faults += OffsetLinkAmountInvalid(
            "Give preset_quantity or preset_value, not both.", field="preset_value"
        ).faults
    if not body.amount_editable and body.preset_quantity is None and body.preset_value is None:
        faults += OffsetLinkAmountInvalid(
            "An amount that cannot be edited must be preset: give preset_quantity or preset_value.",
            field="amount_editable",
        ).faults


def _selection(
    shop: Shop, choices: Sequence[BundleChoiceIn] | None, old: list[dict[str, Any]] | None, faults: list[Fault]
) -> list[dict[str, str]] | None:
    if choices is None:
        return None
    stored = storable(choices)
    if shop.catalogue is None:
        faults += BundleInvalid(field=FIELD).faults
    elif stored != old:
        try:
            resolve(choices, shop.catalogue)
        except TonneError as error:
            faults += error.faults
    return stored


async def _record(tx: Connection, link: OffsetLink, action: str, actor: str, now: datetime) -> None:
    await audit.record(
        tx,
        link.scope.organisation_id,
        actor=actor,
        action=action,
        subject_id=link.id,
        at=now,
        title=link.title,
        enabled=link.enabled,
        redirect_url=link.redirect_url,
    )
