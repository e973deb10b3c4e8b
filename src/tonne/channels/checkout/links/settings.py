"""Creating, replacing and changing an offset link, and validating its settings beyond their format.

The operator finds a link by its id alone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from tonne.channels.checkout.errors import (
    OffsetLinkAmountInvalid,
    OffsetLinkExpiryInvalid,
    OffsetLinkNotFound,
    OffsetLinkNotPayable,
)
from tonne.channels.checkout.links import store
from tonne.channels.checkout.links.model import OffsetLink, check_redirect
from tonne.channels.checkout.links.schemas import OffsetLinkIn, offset_link_out
from tonne.channels.checkout.links.signed_query import new_link_secret
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.http.errors import AccountNotFound
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, format_scaled, scaled
from tonne.platform.values.context import By, Scope, new_secret_id, replace, same_named
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.accounts.redirect_hosts import list_hosts
from tonne.selling.accounts.store import find_account
from tonne.selling.catalogue.errors import BundleInvalid
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.selection import FIELD, BundleChoiceIn, resolve, storable
from tonne.selling.catalogue.store import load_catalogue

# Well within a bigint, so that sums cannot overflow.
MAX_VALUE_MINOR = 10**17


class LinkOwner(Struct, frozen=True):
    """The account that sells through the link. `catalogue` is None when nothing is imported for its mode.

    `takes_cards` is false if the account's mode has no card gateway.
    """

    scope: Scope
    currency: str
    catalogue: Catalogue | None
    takes_cards: bool


async def load_link_owner(connection: Connection, scope: Scope, settings: Settings) -> LinkOwner:
    account = await find_account(connection, scope)
    if account is None:
        raise AccountNotFound
    catalogue = await load_catalogue(connection, scope.mode, "")
    return LinkOwner(scope, account.currency, catalogue, takes_cards(settings, scope.mode))


async def build_link(
    tx: Connection, owner: LinkOwner, body: OffsetLinkIn, *, old: OffsetLink | None, now: datetime
) -> OffsetLink:
    """The link with these settings, or `Invalid` with every error in them.

    An unchanged selection or redirect URL is not validated again, and an existing link may be saved although it has
    expired: otherwise a link could not be disabled once its bundle is off sale or its host is forbidden. The checkout
    validates all of this again for every visitor.
    """
    faults: list[Fault] = []
    grams = _read_amounts(body, "quantity", "t", 6, MAX_GRAMS, faults=faults)
    minor = _read_amounts(body, "value", owner.currency, DECIMALS[owner.currency], MAX_VALUE_MINOR, faults=faults)
    _check_presets(body, faults)
    if old is None and body.expires_at is not None and body.expires_at <= now:
        faults += OffsetLinkExpiryInvalid(field="expires_at").faults
    selection = _selection(owner, body.bundle_selection, None if old is None else old.bundle_selection, faults)
    redirect_url = body.redirect_url
    if redirect_url is not None and (old is None or redirect_url != old.redirect_url):
        try:
            hosts = await list_hosts(tx, owner.scope.organisation_id)
            redirect_url = check_redirect(redirect_url, hosts, owner.scope.mode)
        except TonneError as error:
            faults += error.faults
    if faults:
        raise Invalid(faults)
    if body.enabled and not owner.takes_cards and (old is None or not old.enabled):
        raise OffsetLinkNotPayable(field="enabled")
    return same_named(
        OffsetLink,
        body,
        scope=owner.scope,
        id=new_secret_id("lnk") if old is None else old.id,
        bundle_selection=selection,
        preset_quantity_grams=grams.preset,
        preset_value_minor=minor.preset,
        min_quantity_grams=grams.least,
        max_quantity_grams=grams.most,
        min_value_minor=minor.least,
        max_value_minor=minor.most,
        redirect_url=redirect_url,
        created_at=now if old is None else old.created_at,
    )


class _Amounts(NamedTuple):
    """In grams or minor units."""

    preset: int | None
    least: int | None
    most: int | None


def _read_amounts(
    body: OffsetLinkIn, kind: str, unit: str, decimals: int, largest: int, *, faults: list[Fault]
) -> _Amounts:
    """The preset, the minimum and the maximum of one kind, `quantity` or `value`."""

    def invalid(name: str, message: str) -> None:
        faults.extend(OffsetLinkAmountInvalid(f"{name} {message}", field=name).faults)

    def read(name: str) -> int | None:
        text: str | None = getattr(body, name)
        amount = None if text is None else scaled(Decimal(text), decimals)
        if text is None or (amount is not None and 1 <= amount <= largest):
            return amount
        allowed = f"from {format_scaled(1, decimals)} to {format_scaled(largest, decimals)} {unit}"
        invalid(name, f"must be {allowed}, with {f'at most {decimals}' if decimals else 'no'} decimals.")
        return None

    preset, least, most = (read(f"{name}_{kind}") for name in ("preset", "min", "max"))
    if least is not None and most is not None and least > most:
        invalid(f"min_{kind}", f"is above max_{kind}.")
    elif preset is not None and least is not None and preset < least:
        invalid(f"preset_{kind}", f"is below min_{kind}.")
    elif preset is not None and most is not None and preset > most:
        invalid(f"preset_{kind}", f"is above max_{kind}.")
    return _Amounts(preset, least, most)


def _check_presets(body: OffsetLinkIn, faults: list[Fault]) -> None:
    if body.preset_quantity is not None and body.preset_value is not None:
        faults += OffsetLinkAmountInvalid(
            "Set either preset_quantity or preset_value, not both.", field="preset_value"
        ).faults
    if not body.amount_editable and body.preset_quantity is None and body.preset_value is None:
        faults += OffsetLinkAmountInvalid(
            "Set preset_quantity or preset_value: an amount that people cannot edit must be preset.",
            field="amount_editable",
        ).faults


def _selection(
    owner: LinkOwner, choices: Sequence[BundleChoiceIn] | None, old: list[dict[str, Any]] | None, faults: list[Fault]
) -> list[dict[str, str]] | None:
    if choices is None:
        return None
    stored = storable(choices)
    if owner.catalogue is None:
        faults += BundleInvalid(field=FIELD).faults
    elif stored != old:
        try:
            resolve(choices, owner.catalogue)
        except TonneError as error:
            faults += error.faults
    return stored


async def record_link(tx: Connection, link: OffsetLink, *, old: OffsetLink | None, by: By) -> None:
    action = "offset_link.created" if old is None else "offset_link.changed"
    before, after = None if old is None else _audited_values(old), _audited_values(link)
    await audit.record(tx, link.scope, action, by=by, subject_id=link.id, before=before, after=after)


def _audited_values(link: OffsetLink) -> audit.Values:
    return {name: value for name, value in asdict(link).items() if name not in {"scope", "id", "created_at"}}


async def create_link(
    tx: Connection, owner: LinkOwner, body: OffsetLinkIn, *, box: SecretBox, by: By
) -> tuple[OffsetLink, str]:
    """The link, and the secret that signs its queries. The secret is returned only here and by a rotation."""
    link = await build_link(tx, owner, body, old=None, now=by.at)
    secret = new_link_secret()
    await store.insert_link(tx, link, box.seal(secret, link.id))
    await record_link(tx, link, old=None, by=by)
    return link, secret


async def create_account_link(
    tx: Connection, scope: Scope, body: OffsetLinkIn, *, settings: Settings, by: By
) -> tuple[OffsetLink, str]:
    """For callers without a cached catalogue."""
    owner, box = await load_link_owner(tx, scope, settings), SecretBox.from_settings(settings)
    return await create_link(tx, owner, body, box=box, by=by)


async def lock_link(tx: Connection, scope: Scope, link_id: str) -> OffsetLink:
    link = await store.lock_link(tx, scope, link_id)
    if link is None:
        raise OffsetLinkNotFound
    return link


async def replace_link(tx: Connection, owner: LinkOwner, old: OffsetLink, body: OffsetLinkIn, *, by: By) -> OffsetLink:
    """Replaces all settings; the id and the creation time stay. The caller has locked `old`."""
    link = await build_link(tx, owner, body, old=old, now=by.at)
    await store.update_link(tx, link)
    await record_link(tx, link, old=old, by=by)
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
    tx: Connection, link_id: str, changes: Mapping[str, Any], *, settings: Settings, by: By
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
    return await replace_link(tx, owner, old, body, by=by)
