"""Do credential, statements and retirements say the same?"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tonne_verify.errors import NotProven
from tonne_verify.openings import ERASED, Opening
from tonne_verify.serials.facts import is_other_country, is_project
from tonne_verify.serials.parse import has_grammar, parse
from tonne_verify.serials.units import TONNE_GRAMS, SerialError, UnitRange

Json = Mapping[str, Any]
QUANTITY = re.compile(r"(?P<whole>0|[1-9][0-9]{0,14})(?:\.(?P<part>[0-9]{1,6}))?")
# The statement has these in `names`, or they say what became of the certificate later.
NOT_FACTS = {
    "id",
    "beneficiary",
    "reason",
    "assigned_to",
    "registry_name",
    "name_erased_on",
    "logo",
    "supplied_on",
}
REQUIRED = ("number", "mode", "total_quantity", "lines")
# What a line of a certificate has in common with the statement about its retirement.
RETIREMENT_FACTS = ("registry", "project_id", "vintage", "serial_range", "retired_on", "retirement_url")


def check_shape(subject: Any) -> Json:
    """The subject of a credential, with lines that can be read."""
    lines = subject.get("lines") if isinstance(subject, dict) else None
    if not isinstance(lines, list) or not lines or not all(isinstance(line, dict) for line in lines):
        raise NotProven("The credential has no lines: it is not the credential of a certificate.")
    found: Json = subject
    return found


def check_agreement(document: Json, issued: Opening) -> None:
    """Raises NotProven unless the credential says what the statement in the log says."""
    facts: Json = issued.statement["facts"]
    subject = {
        "issued_at": document.get("validFrom"),
        "verification_url": document.get("id"),
        **document["credentialSubject"],
    }
    _check_nothing_more(subject, facts, "")
    if any(subject.get(key) is None or facts.get(key) is None for key in REQUIRED):
        raise NotProven("The credential or the statement in the log lacks the number, the quantity or the lines.")
    if issued.statement["subject"] != facts["number"] or issued.statement["mode"] != facts["mode"]:
        raise NotProven("The statement in the log contradicts itself.")
    _compare(facts, subject, "")
    if issued.statement["names"] is None:
        raise NotProven("The statement in the log has no names: nothing shows for whom the certificate is.")
    if issued.names is not None:
        _compare_names(issued.names, subject)


def _compare(facts: Any, stated: Any, place: str) -> None:
    """Everything that the log states is in the credential. Missing and null mean the same."""
    if isinstance(facts, dict) and isinstance(stated, dict):
        for key, fact in facts.items():
            # The credential may leave out what it does not need, such as the language of the PDF.
            if place or key in stated:
                _compare(fact, stated.get(key), f"{place}.{key}" if place else key)
    elif isinstance(facts, list) and isinstance(stated, list) and len(facts) == len(stated):
        for position, (fact, each) in enumerate(zip(facts, stated, strict=True), start=1):
            _compare(fact, each, f"{place} {position}")
    elif facts != stated:
        raise NotProven(f"`{place}` is {stated!r} in the credential, but {facts!r} in the log.")


def _check_nothing_more(stated: Any, facts: Any, place: str) -> None:
    """The credential claims nothing that is not in the log, such as a label."""
    if isinstance(stated, dict):
        known = facts if isinstance(facts, dict) else {}
        for key, each in stated.items():
            if key not in NOT_FACTS:
                _check_nothing_more(each, known.get(key), f"{place}.{key}" if place else key)
    elif isinstance(stated, list) and isinstance(facts, list) and len(stated) == len(facts):
        for position, (each, fact) in enumerate(zip(stated, facts, strict=True), start=1):
            _check_nothing_more(each, fact, f"{place} {position}")
    elif stated is not None and facts is None:
        raise NotProven(f"`{place}` is {stated!r} in the credential, but the log does not state it.")


def _compare_names(names: Json, subject: Json) -> None:
    logged, said = logged_names(names), list(_names(subject))
    if len(logged) != len(said):
        raise NotProven("The statement in the log does not have the names of all lines.")
    for (place, in_log), (_, stated) in zip(logged, said, strict=True):
        if stated is not None and in_log != stated:
            raise NotProven(f"`{place}` is {stated!r} in the credential, but {in_log!r} in the log.")


def logged_names(names: Json) -> list[tuple[str, Any]]:
    """The names of a statement, each with what it is the name of."""
    lines = names.get("lines")
    if not isinstance(lines, list) or not all(isinstance(each, dict) for each in lines):
        raise NotProven("The statement in the log does not have the names of all lines.")
    return list(_names({**names, "replaces": names, "lines": [{**each, "in_advance": each} for each in lines]}))


def _names(subject: Json) -> Iterator[tuple[str, Any]]:
    yield "beneficiary", subject.get("beneficiary")
    yield "reason", _object(subject.get("replaces")).get("reason")
    for line in subject["lines"]:
        yield "registry_name", line.get("registry_name")
        yield "assigned_to", _object(line.get("in_advance")).get("assigned_to")


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def names_without_proof(subject: Json) -> list[tuple[str, Any]]:
    """What the credential says although the names in the log were erased."""
    return [(place, stated) for place, stated in _names(subject) if stated not in (None, ERASED)]


def check_quantities(subject: Json, retirements: Sequence[Json]) -> list[str]:
    """Raises NotProven unless the lines add up, and each line has a retirement in the log that covers it.

    The serials of the retirements are counted: they have the grams that are stated, and no unit is in two of them.
    Returns those that cannot be counted.
    """
    lines: Sequence[Json] = subject["lines"]
    if sum(grams(line.get("quantity")) for line in lines) != grams(subject["total_quantity"]):
        raise NotProven("The lines of the certificate do not add up to its quantity.")
    left = {key_of(facts): grams(facts.get("quantity")) for facts in retirements}
    by_key = {key_of(facts): facts for facts in retirements}
    uncounted = _check_units(by_key.values())
    for line in lines:
        serials = line.get("serial_range")
        if key_of(line) not in left:
            raise NotProven(f"The log has no retirement of {serials} with the same project, vintage, day and link.")
        left[key_of(line)] -= grams(line["quantity"])
        if left[key_of(line)] < 0:
            raise NotProven(f"The certificate counts more tonnes of {serials} than were retired.")
        units_of({**by_key[key_of(line)], "country": line.get("country")})
    return uncounted


def _check_units(retirements: Iterable[Json]) -> list[str]:
    found: list[UnitRange] = []
    uncounted = []
    for facts in retirements:
        units = units_of(facts)
        if units is None:
            uncounted.append(str(facts.get("serial_range")))
        else:
            found.append(units)
    found.sort(key=lambda units: (units.namespace, units.first))
    for before, after in pairwise(found):
        if before.namespace == after.namespace and after.first <= before.last:
            raise NotProven(f"The serials {before.text} and {after.text} overlap: a tonne is counted twice.")
    return uncounted


def units_of(facts: Json) -> UnitRange | None:
    """The units of a retirement. Raises NotProven if they have fewer grams than it states.

    A registry without a grammar may write its serials in any way: None if they cannot be counted.
    """
    registry, serial = str(facts.get("registry")), str(facts.get("serial_range"))
    try:
        units = parse(registry, serial)
    except SerialError as error:
        if has_grammar(registry):
            raise NotProven(str(error)) from error
        return None
    # A unit of a registry without a grammar may be smaller than a tonne, but is never larger.
    if units.quantity_grams < grams(facts.get("quantity")):
        raise NotProven(
            f"The serial {serial} has {show_tonnes(units.quantity_grams)} t, not the {facts.get('quantity')} t that"
            " are stated."
        )
    vintage = str(facts.get("vintage"))
    if units.vintage is not None and not str(units.vintage[0].year) <= vintage <= str(units.vintage[1].year):
        years = " to ".join(dict.fromkeys(str(day.year) for day in units.vintage))
        raise NotProven(f"The serial {serial} is of {years}, not of the vintage {vintage} that is stated.")
    project, country, alias = (facts.get(name) for name in ("project_id", "country", "serial_project"))
    if units.project_id is not None and not is_project(units.project_id, str(project), alias and str(alias)):
        raise NotProven(f"The serial {serial} is of project {units.project_id}, not of {project}, which is stated.")
    if units.country is not None and country is not None and is_other_country(units.country, str(country)):
        raise NotProven(f"The serial {serial} is of the country {units.country}, not of {country}, which is stated.")
    return units


def key_of(facts: Json) -> tuple[str, ...]:
    return tuple(str(facts.get(name)) for name in RETIREMENT_FACTS)


def grams(value: Any) -> int:
    """Of a quantity in tonnes, which is a text. Spellings that people read as another number are refused."""
    found = QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise NotProven(f"{value!r} is not a quantity in tonnes, to the gram.")
    return int(found["whole"]) * TONNE_GRAMS + int((found["part"] or "").ljust(6, "0"))


def show_tonnes(quantity_grams: int) -> str:
    whole, rest = divmod(quantity_grams, TONNE_GRAMS)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")
