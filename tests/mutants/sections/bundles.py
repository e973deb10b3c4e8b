"""Sections 4.3 and 8: the selection of bundles."""

from tests.mutants.mutant import Mutant

FILE = "selling/catalogue/selection.py"
SUM = "if all(given) and sum(share.weight for share in shares) != WHOLE:"


def _mutant(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, FILE, old, new, check)


MUTANTS = [
    _mutant("less than 100 per cent", SUM, SUM.replace("!=", ">"), "bundles.another_sum_is_refused.99"),
    _mutant("more than 100 per cent", SUM, SUM.replace("!=", "<"), "bundles.another_sum_is_refused.101"),
    _mutant(
        "about 100 per cent",
        SUM,
        "if all(given) and abs(sum(share.weight for share in shares) - WHOLE) > WHOLE // 1000:",
        "bundles.a_refused_sum_places_no_order.99.99",
    ),
    _mutant(
        "whole percentages only",
        SUM,
        SUM[:-1] + " or any(share.weight % (WHOLE // 100) for share in shares):",
        "bundles.percentages_of_100_are_accepted.decimals",
    ),
    _mutant(
        "percentages only as text",
        "parse_decimal(percentage) if isinstance(percentage, str)",
        "parse_decimal(percentage) if type(percentage) is str",
        "bundles.percentages_may_be_numbers",
    ),
    _mutant(
        "default bundles in equal parts",
        "msgspec.convert(choice, BundleChoiceIn) for choice in stored",
        'BundleChoiceIn(choice["bundle_id"]) for choice in stored',
        "bundles.without_a_selection_the_preconfigured_ratios_apply",
    ),
    _mutant(
        "the second bundle gets more",
        "if choice.percentage is not None else 1\n",
        "if choice.percentage is not None else i + 1\n",
        "bundles.without_percentages_the_split_is_equal.two",
    ),
    _mutant(
        "a percentage for some",
        "if any(given) and not all(given):",
        "if False:",
        "bundles.a_percentage_for_some_is_refused.first-only",
    ),
    _mutant(
        "only the first bundle",
        'They must sum to exactly 100.", field=FIELD)\n    return shares',
        'They must sum to exactly 100.", field=FIELD)\n    return shares[:1]',
        "bundles.exactly_the_selected_bundles_are_ordered",
    ),
]
