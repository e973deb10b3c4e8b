"""Validating the settings of an offset link beyond their format."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from tonne.channels.checkout.errors import OffsetLinkAmountInvalid, OffsetLinkExpiryInvalid, OffsetLinkNotPayable
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.redirects import check_redirect
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.money.cards.gateways.card_gateways import takes_cards
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.http.errors import AccountNotFound
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, format_scaled, scaled
from tonne.platform.values.context import Actor, Scope, new_secret_id
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.platform.values.same_named import same_named
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


async def record_link(tx: Connection, link: OffsetLink, *, old: OffsetLink | None, actor: Actor, now: datetime) -> None:
    action = "offset_link.created" if old is None else "offset_link.changed"
    before, after = None if old is None else _audited_values(old), _audited_values(link)
    await audit.record(tx, link.scope, action, actor=actor, at=now, subject_id=link.id, before=before, after=after)


def _audited_values(link: OffsetLink) -> audit.Values:
    return {name: value for name, value in asdict(link).items() if name not in {"scope", "id", "created_at"}}
