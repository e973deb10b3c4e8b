"""Which bundles a selection means, and how a bad one is refused."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tonne.platform.values.amounts import format_scaled
from tonne.platform.values.context import Mode, replace
from tonne.platform.values.errors import TonneError
from tonne.selling.catalogue.errors import PriceUnavailable
from tonne.selling.catalogue.model import Bundle, Catalogue
from tonne.selling.catalogue.selection import WHOLE, BundleChoiceIn, resolve, resolve_default

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def _bundle(bundle_id: str, *, enabled: bool = True) -> Bundle:
    return Bundle(bundle_id, bundle_id, bundle_id, "", None, 1000, enabled, NOW, ())


def _catalogue(default: list[dict[str, Any]] | None = None) -> Catalogue:
    bundles = {name: _bundle(name) for name in ("a", "b", "c", "d")} | {"off": _bundle("off", enabled=False)}
    return Catalogue(Mode.TEST, "EUR", 1, default, {}, bundles, {})


def _choices(*pairs: tuple[str, Any]) -> list[BundleChoiceIn]:
    return [BundleChoiceIn(bundle_id, percentage) for bundle_id, percentage in pairs]


def _faults(choices: Sequence[BundleChoiceIn]) -> list[tuple[str, str | None]]:
    with pytest.raises(TonneError) as refusal:
        resolve(choices, _catalogue())
    return [(fault.error_code.removeprefix("bundle_selection_"), fault.field) for fault in refusal.value.faults]


def test_percentages_become_weights_in_the_order_given() -> None:
    shares = resolve(_choices(("b", "33.33"), ("a", "66.67")), _catalogue())
    assert [(share.bundle.id, share.weight) for share in shares] == [
        ("b", 33_330_000_000_000),
        ("a", 66_670_000_000_000),
    ]


@pytest.mark.parametrize("percentage", ["100", "100.0", "100.00", "0100"])
def test_the_whole_may_be_spelled_as_one_likes(percentage: str) -> None:
    assert [share.weight for share in resolve(_choices(("a", percentage)), _catalogue())] == [WHOLE]


def test_no_percentages_mean_equal_parts() -> None:
    assert [share.weight for share in resolve(_choices(("a", None), ("b", None), ("c", None)), _catalogue())] == [
        1,
        1,
        1,
    ]


@given(st.lists(st.integers(1, 9_999), min_size=2, max_size=3, unique=True))
@hypothesis_settings(deadline=None)
def test_any_hundredths_that_sum_to_the_whole_are_taken(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 10_000]
    weights = [after - before for before, after in itertools.pairwise(edges)]
    choices = _choices(*((name, format_scaled(weight, 2)) for name, weight in zip("abcd", weights, strict=False)))
    assert [share.weight * 10_000 // WHOLE for share in resolve(choices, _catalogue())] == weights


@pytest.mark.parametrize(
    "percentages", [("33.33", "33.33", "33.33"), ("50", "50", "0.01"), ("60", "39.99"), ("99.99",)]
)
def test_percentages_that_do_not_sum_to_exactly_100_are_refused(percentages: tuple[str, ...]) -> None:
    choices = _choices(*zip("abc", percentages, strict=False))
    assert _faults(choices) == [("ratios_invalid", "bundle_selection")]


def test_the_refusal_names_the_sum() -> None:
    with pytest.raises(TonneError, match=r"99\.99"):
        resolve(_choices(("a", "33.33"), ("b", "33.33"), ("c", "33.33")), _catalogue())


def test_an_empty_selection_is_refused() -> None:
    assert _faults([]) == [("ratios_invalid", "bundle_selection")]


def test_percentages_for_some_but_not_all_are_refused() -> None:
    assert _faults(_choices(("a", "100"), ("b", None))) == [("ratios_invalid", "bundle_selection")]


@pytest.mark.parametrize(
    "percentage",
    [
        *(
            "0",
            "0.00",
            "-1",
            "abc",
            "",
            " 50",
            "50%",
            "1e2",
            "NaN",
            "Infinity",
            "٥٠",
            "33.3333333333333",
            "100.01",
            "1" * 40,
            "+50",
        ),
        *(50, 50.5, True, [], {}, ["50"]),
    ],
)
def test_a_percentage_that_is_no_plain_decimal_is_refused_where_it_stands(percentage: Any) -> None:
    """Numbers of a body arrive as their spelling; an int or float here would be a fault of our own."""
    assert ("ratios_invalid_format", "bundle_selection[1].percentage") in _faults(
        _choices(("a", "50"), ("b", percentage))
    )


@pytest.mark.parametrize("bundle_id", ["nowhere", "off", "", "a ", "A"])
def test_an_unknown_or_disabled_bundle_is_refused_where_it_stands(bundle_id: str) -> None:
    choices = _choices(("a", "50"), (bundle_id, "50"))
    assert _faults(choices) == [("bundle_invalid", "bundle_selection[1].bundle_id")]


def test_a_bundle_named_twice_is_refused_at_its_second_place() -> None:
    assert _faults(_choices(("a", "50"), ("a", "50"))) == [("bundle_invalid", "bundle_selection[1].bundle_id")]
    assert _faults(_choices(("a", None), ("a", None))) == [("bundle_invalid", "bundle_selection[1].bundle_id")]


def test_every_fault_is_reported_at_once() -> None:
    choices = _choices(("off", "0"), ("a", None), ("a", "x"))
    assert _faults(choices) == [
        ("bundle_invalid", "bundle_selection[0].bundle_id"),
        ("ratios_invalid_format", "bundle_selection[0].percentage"),
        ("bundle_invalid", "bundle_selection[2].bundle_id"),
        ("ratios_invalid_format", "bundle_selection[2].percentage"),
        ("ratios_invalid", "bundle_selection"),
    ]


def test_the_accounts_default_goes_before_the_catalogues() -> None:
    catalogue = _catalogue([{"bundle_id": "c"}])
    assert [share.bundle.id for share in resolve_default([{"bundle_id": "b", "percentage": "100"}], catalogue)] == ["b"]
    assert [share.bundle.id for share in resolve_default(None, catalogue)] == ["c"]


def test_a_default_is_resolved_once_per_copy_of_the_catalogue() -> None:
    catalogue, own = _catalogue([{"bundle_id": "c"}]), [{"bundle_id": "b"}]
    assert resolve_default(own, catalogue) is resolve_default([{"bundle_id": "b"}], catalogue)
    assert resolve_default(own, catalogue) != resolve_default(None, catalogue)
    changed = replace(catalogue, bundles=catalogue.bundles | {"b": _bundle("b", enabled=False)})
    with pytest.raises(PriceUnavailable):
        resolve_default(own, changed)


@pytest.mark.parametrize("default", [None, []])
def test_without_any_default_there_is_no_price(default: list[dict[str, Any]] | None) -> None:
    with pytest.raises(PriceUnavailable):
        resolve_default(None, _catalogue(default))


@pytest.mark.parametrize(
    "default",
    [
        [{"bundle_id": "off"}],
        [{"bundle_id": "gone"}],
        [{"bundle_id": "a", "percentage": "99"}],
        [{"bundle_id": "a", "percentage": 100}],
        [{"percentage": "100"}],
        [{"bundle_id": "a", "colour": "red"}],
    ],
)
def test_a_default_that_cannot_be_used_waits_and_is_not_replaced_by_another(default: list[dict[str, Any]]) -> None:
    """The catalogue's default does not replace it: the account did not choose those bundles."""
    with pytest.raises(PriceUnavailable):
        resolve_default(default, _catalogue([{"bundle_id": "a"}]))
