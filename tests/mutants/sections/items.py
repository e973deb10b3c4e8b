"""Sections 2.2 and 2.3: the bundles and projects of an order."""

from tests.mutants.mutant import Mutant
from tonne_conformance.sections.items import BUNDLE_FIELDS, PROJECT_FIELDS

BUNDLES = "selling/catalogue/schemas.py"
PROJECTS = "selling/orders/schemas.py"


def _missing(file: str, shape: str, name: str, check: str) -> Mutant:
    new = f'class {shape}(msgspec.Struct, rename={{"{name}": "{name}_"}}):'
    return Mutant(f"{shape} without {name}", file, f"class {shape}(msgspec.Struct):", new, check)


def _bundle(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, BUNDLES, old, new, check)


MUTANTS = [
    *(_missing(BUNDLES, "BundleItemOut", name, f"items.each_bundle_has_the_field.{name}") for name in BUNDLE_FIELDS),
    *(
        _missing(PROJECTS, "ProjectItemOut", name, f"items.each_project_has_the_field.{name}")
        for name in PROJECT_FIELDS
    ),
    _bundle(
        "the price of a bundle is a number",
        "unit_price=format_money(line.unit_price_minor, currency),",
        "unit_price=line.unit_price_minor,",
        "items.each_amount_of_a_bundle_is_a_decimal_string.unit_price",
    ),
    _bundle(
        "the shortage of a bundle is a number",
        "insufficient_available_quantity=line.insufficient_available_quantity,",
        "insufficient_available_quantity=int(line.insufficient_available_quantity),",
        "items.the_shortage_is_a_boolean",
    ),
    _bundle(
        "the picture of a bundle does not exist",
        "primary_image=line.primary_image,",
        'primary_image=f"{line.primary_image}.gone",',
        "items.the_image_of_a_bundle_can_be_loaded",
    ),
    Mutant(
        "the quantity of a project is a number",
        PROJECTS,
        "quantity=format_tonnes(project.quantity_grams),",
        "quantity=project.quantity_grams,",
        "items.each_field_of_a_project_is_a_string.quantity",
    ),
]
