"""A mix of bundles in a form: one field per bundle with its share in per cent."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tonne.apps.dashboard.viewer import Form
from tonne.platform.values.amounts import parse_decimal
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.errors import PriceUnavailable
from tonne.selling.catalogue.model import Bundle, Catalogue
from tonne.selling.catalogue.prices.pricing import BundleShare, PriceList
from tonne.selling.catalogue.selection import BundleChoiceIn, percentages_of, resolve, resolve_default

# The field of faults that concern no single bundle.
MIX = "mix"
_NUMBER = re.compile(r"\[(\d+)\]")
_EMPTY = "Give at least one bundle a share. The shares must add up to 100 per cent."


class MixRow(msgspec.Struct, frozen=True):
    """A bundle on sale. `price_minor` is per tonne with the fee, without tax; None while there is no price."""

    field: str
    bundle: Bundle
    mechanism: str
    places: str
    price_minor: int | None
    available_grams: int
    share: str


def share_field(bundle_id: str) -> str:
    return f"share_{bundle_id}"


def mix_rows(catalogue: Catalogue, terms: Terms, shares: Mapping[str, str]) -> list[MixRow]:
    """All bundles on sale, with the share that each has in `shares`."""
    try:
        prices = PriceList(catalogue, terms.currency, terms.fee_rate)
    except PriceUnavailable:
        prices = None
    return [
        MixRow(
            field=share_field(bundle.id),
            bundle=bundle,
            mechanism=bundle.mechanism,
            places=_places(bundle),
            price_minor=None if prices is None else prices.gross_minor(bundle) or None,
            available_grams=terms.available_grams(bundle.free_grams),
            share=shares.get(bundle.id, ""),
        )
        for bundle in _on_sale(catalogue)
    ]


def default_shares(terms: Terms, catalogue: Catalogue) -> dict[str, str]:
    """The account's default mix, by bundle. Empty if there is none that can be used now."""
    try:
        return _as_shares(resolve_default(terms.default_selection, catalogue))
    except PriceUnavailable:
        return {}


def stored_shares(selection: Sequence[Mapping[str, Any]] | None, catalogue: Catalogue) -> dict[str, str]:
    """A stored selection, by bundle. Empty if it has a bundle that is no longer on sale."""
    if not selection:
        return {}
    try:
        return _as_shares(resolve([msgspec.convert(dict(each), BundleChoiceIn) for each in selection], catalogue))
    except (TonneError, msgspec.ValidationError):
        return {}


def typed_shares(form: Form, catalogue: Catalogue) -> dict[str, str]:
    return {bundle.id: form.value(share_field(bundle.id)) for bundle in _on_sale(catalogue)}


def read_mix(form: Form, catalogue: Catalogue, *, is_optional: bool = False) -> list[BundleChoiceIn]:
    """The selection, validated like one that a client of the API sends. All faults are in the form.

    Bundles without a share, or with 0, are not part of it.
    """
    choices = []
    for bundle_id, typed in typed_shares(form, catalogue).items():
        text = typed.removesuffix("%").strip().replace(",", ".")
        if text and parse_decimal(text) != 0:
            choices.append(BundleChoiceIn(bundle_id, text))
    if not choices:
        if not is_optional:
            form.fail(MIX, _EMPTY)
        return []
    try:
        resolve(choices, catalogue)
    except TonneError as error:
        for fault in error.faults:
            number = _NUMBER.search(fault.field or "")
            form.fail(MIX if number is None else share_field(choices[int(number[1])].bundle_id), fault.message)
    return choices


def _on_sale(catalogue: Catalogue) -> list[Bundle]:
    return [bundle for bundle in catalogue.bundles.values() if bundle.enabled]


def _as_shares(shares: Sequence[BundleShare]) -> dict[str, str]:
    texts = percentages_of([share.weight for share in shares])
    return {share.bundle.id: text for share, text in zip(shares, texts, strict=True)}


def _places(bundle: Bundle) -> str:
    countries = list(dict.fromkeys(share.project.country for share in bundle.projects))
    return ", ".join(countries[:3]) + (f" and {len(countries) - 3} more" if len(countries) > 3 else "")
