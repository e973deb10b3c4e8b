"""Selections of bundles: those of clients, and defaults."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.values.amounts import apportion, format_scaled, parse_decimal, scaled
from tonne.platform.values.errors import Fault, Invalid, TonneError
from tonne.selling.catalogue import errors
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.pricing import BundleShare
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit, cut_quantity

FIELD = "bundle_selection"
MASSES_FIELD = "bundle_masses"
# Percentages have at most as many decimals as `parse_decimal` reads, and are exact: thirds can sum to 100.
DIGITS = 12
WHOLE = 100 * 10**DIGITS
# Shares that we choose have two decimals where that is possible.
HUNDREDTH = WHOLE // 10_000


class BundleChoiceIn(msgspec.Struct, forbid_unknown_fields=True):
    bundle_id: Annotated[
        str, Meta(max_length=100, description="Id of a bundle on sale.", examples=["bun_06gtv168k5mt6mitjtjihcsfns"])
    ]
    percentage: Annotated[
        Any,
        Meta(
            description="Above 0, at most 12 decimals. For all bundles, with a sum of exactly 100, or for none.",
            extra_json_schema={
                "anyOf": [{"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,12})?$"}, {"type": "null"}]
            },
            examples=["100"],
        ),
    ] = None


class BundleMass(msgspec.Struct, frozen=True):
    """How much a client orders of a bundle."""

    bundle_id: str
    mass_grams: int


def resolve_masses(masses: Sequence[BundleMass], catalogue: Catalogue, unit: QuantityUnit | None) -> list[BundleShare]:
    """Each bundle with its grams as its weight, cut to whole units. Raises with every error in them."""
    faults: list[Fault] = []
    shares: list[BundleShare] = []
    seen: set[str] = set()
    for i, each in enumerate(masses):
        bundle = catalogue.bundles.get(each.bundle_id)
        grams = cut_quantity(each.mass_grams, unit)
        if bundle is None or not bundle.enabled:
            faults += errors.BundleInvalid(field=f"{MASSES_FIELD}[{i}].bundle_id").faults
        elif each.bundle_id in seen:
            faults += errors.BundleInvalid(
                "This bundle is named twice. Send its whole mass once.", field=f"{MASSES_FIELD}[{i}].bundle_id"
            ).faults
        elif not grams:
            faults += errors.QuantityInvalid(
                f"The mass is less than 1 {unit}. Send a larger mass, or a smaller quantity_trunc.",
                field=f"{MASSES_FIELD}[{i}].mass.amount",
            ).faults
        else:
            shares.append(BundleShare(bundle, grams))
        seen.add(each.bundle_id)
    if faults:
        raise Invalid(faults)
    return shares


def resolve(choices: Sequence[BundleChoiceIn], catalogue: Catalogue) -> list[BundleShare]:
    """Validate a client's selection. Raises with every error in it."""
    faults: list[Fault] = []
    if not choices:
        raise errors.RatiosInvalid(
            f"{FIELD} is empty. Omit it to use the default, or select at least one bundle.", field=FIELD
        )
    shares: list[BundleShare] = []
    given = [choice.percentage is not None for choice in choices]
    seen: set[str] = set()
    for i, choice in enumerate(choices):
        bundle = catalogue.bundles.get(choice.bundle_id)
        if bundle is None or not bundle.enabled:
            faults += errors.BundleInvalid(field=f"{FIELD}[{i}].bundle_id").faults
        elif choice.bundle_id in seen:
            faults += errors.BundleInvalid(
                "This bundle is selected twice. Select it once.", field=f"{FIELD}[{i}].bundle_id"
            ).faults
        seen.add(choice.bundle_id)
        weight = weight_of(choice.percentage) if choice.percentage is not None else 1
        if weight is None:
            faults += errors.RatiosInvalidFormat(field=f"{FIELD}[{i}].percentage").faults
        elif bundle is not None:
            shares.append(BundleShare(bundle, weight))
    if any(given) and not all(given):
        faults += errors.RatiosInvalid(
            "Some bundles have a percentage and others have none. Send it for all or for none.", field=FIELD
        ).faults
    if faults:
        raise Invalid(faults)
    if all(given) and sum(share.weight for share in shares) != WHOLE:
        total = percent_text(sum(share.weight for share in shares))
        raise errors.RatiosInvalid(f"The percentages sum to {total}. They must sum to exactly 100.", field=FIELD)
    return shares


def storable(choices: Sequence[BundleChoiceIn]) -> list[dict[str, str]]:
    """A selection as it is stored, with percentages as the client wrote them."""
    return [
        {"bundle_id": choice.bundle_id} | ({} if choice.percentage is None else {"percentage": str(choice.percentage)})
        for choice in choices
    ]


def resolve_default(account_default: list[dict[str, Any]] | None, catalogue: Catalogue) -> Sequence[BundleShare]:
    """The default selection of the account or organisation, or else of the catalogue.

    If that one cannot be used now, no other is used in its place: the order waits until it is corrected.
    """
    stored = account_default if account_default is not None else catalogue.default_selection
    if not stored:
        raise errors.PriceUnavailable("There is no default selection of bundles. Send bundle_selection.")
    # Only defaults are kept: a client could send any number of selections.
    key = msgspec.json.encode(stored)
    kept: Sequence[BundleShare] | None = catalogue.kept.get(key)
    if kept is not None:
        return kept
    try:
        shares = resolve([msgspec.convert(choice, BundleChoiceIn) for choice in stored], catalogue)
    except (TonneError, msgspec.ValidationError) as error:
        raise errors.PriceUnavailable(
            "The default selection of bundles cannot be used now. Send bundle_selection."
        ) from error
    catalogue.kept[key] = shares
    return shares


def weight_of(percentage: object) -> int | None:
    """A percentage as a weight, of which `WHOLE` is 100 per cent; None if it is not valid."""
    number = parse_decimal(percentage) if isinstance(percentage, str) else None
    weight = None if number is None else scaled(number, DIGITS)
    return weight if weight is not None and 0 < weight <= WHOLE else None


def percent_text(weight: int) -> str:
    return format_scaled(weight, DIGITS).rstrip("0").rstrip(".")


def percentages_of(weights: Sequence[int]) -> list[str]:
    """Percentages that sum to 100: those that were given, or with two decimals for other weights."""
    if sum(weights) != WHOLE:
        weights = [part * HUNDREDTH for part in apportion(WHOLE // HUNDREDTH, weights)]
    return [percent_text(each) for each in weights]
