"""The texts of a certificate's PDF in the language of its record. The template fills in values, written as `{name}`."""

from tonne.platform.web.translate import Translator
from tonne.supply.certificates.record import CertificateLine, CertificateRecord
from tonne.supply.stock.credit_facts import NO_FACTS


def certificate_labels(record: CertificateRecord, _: Translator) -> dict[str, str]:
    return (
        _statement(record, _)
        | _table(_)
        | {
            "letterhead_number": _("No. %(number)s", number="{number}"),
            "page_number": _("Certificate %(number)s", number="{number}"),
            "tonnes": _("tonnes CO₂e"),
            "kilograms": _("kilograms CO₂e"),
            "issued_by": _("Issued by"),
            "issued_on": _("Issued on"),
            "verify": _("Verify this certificate"),
            "order": _("Order %(id)s", id="{id}"),
            "supplied": _("Date of supply: %(day)s", day="{day}"),
            "qr": _("QR code of the verification link"),
            "logo": _("Logo of the beneficiary"),
            "schedule": _("Schedule of retirements"),
            "in_schedule": _.plural(
                "%(n)s retirement, set out in the schedule on the following pages.",
                "%(n)s retirements, set out in the schedule on the following pages.",
                len(record.lines),
            ),
        }
    )


def printed_facts(line: CertificateLine, _: Translator) -> list[str]:
    """Mechanism, durability and labels. What is not recorded is not printed."""
    facts, found = line.facts or NO_FACTS, list[str]()
    if facts.mechanism is not None:
        percent = None if facts.removal_percent is None else facts.removal_percent.value
        names = {
            "removal": _("Removal"),
            "avoidance": _("Avoidance"),
            "mixed": _("Mixed: %(percent)s %% removal", percent=str(percent)),
        }
        found.append(names[facts.mechanism.value])
    if facts.durability_years is not None:
        found.append(_("%(years)s years", years=str(facts.durability_years.value)))
    return found + [_LABELS.get(label.code, label.code) for label in facts.labels or ()]


# "In scope" and "eligible" are two things.
_LABELS = {
    "icvcm_ccp": "ICVCM CCP",
    "icroa_programme": "ICROA-endorsed programme",
    **{
        f"corsia_{phase}_{state}": f"CORSIA {name}, {words}"
        for phase, name in (("pilot", "pilot phase"), ("first", "first phase"), ("second", "second phase"))
        for state, words in (("scope", "in scope"), ("eligible", "eligible"))
    },
}


def more_projects(count: int, _: Translator) -> str:
    return _.plural("And %(n)s more project.", "And %(n)s more projects.", count)


def _statement(record: CertificateRecord, _: Translator) -> dict[str, str]:
    in_advance = sum(line.in_advance is not None for line in record.lines)
    if in_advance == len(record.lines):
        statement = _(
            "Carbon credits for %(quantity)s tonnes of CO₂ equivalent were retired in advance and are assigned to",
            quantity="{quantity}",
        )
    else:
        statement = _(
            "Carbon credits for %(quantity)s tonnes of CO₂ equivalent were retired on behalf of", quantity="{quantity}"
        )
    some = _("Some were retired in advance, as stated.") if 0 < in_advance < len(record.lines) else ""
    return {
        "title": _("Certificate of retirement"),
        "statement": statement,
        "erased": _("name erased on %(day)s", day="{day}"),
        "meaning": _(
            "The credits are marked as retired in the registries named here. They cannot be sold or used again."
        ),
        "some_in_advance": some,
        "replaces": _("Replaces certificate %(number)s", number="{number}"),
        "replacement": _(
            "This certificate replaces No. %(number)s. Reason: %(reason)s", number="{number}", reason="{reason}"
        ),
        "test": _("Issued in test mode: no credit was retired."),
    }


def _table(_: Translator) -> dict[str, str]:
    return {
        "project": _("Project"),
        "serials": _("Registry and serial numbers"),
        "vintage": _("Vintage"),
        "retired_on": _("Retired on"),
        "quantity": _("Tonnes"),
        "total": _("Total"),
        "shared": _("Includes %(share)s t of one shared unit of %(unit)s t.", share="{share}", unit="{unit}"),
        "shared_note": _(
            "A shared unit was retired on behalf of several beneficiaries. Only the share stated belongs to this "
            "certificate."
        ),
        "registry_name": _("Retired in the registry on behalf of %(name)s.", name="{name}"),
        "advance": _(
            "Retired in advance by %(seller)s on %(day)s, assigned to %(name)s on %(assigned)s.",
            **{each: f"{{{each}}}" for each in ("seller", "day", "name", "assigned")},
        ),
        "advance_erased": _(
            "Retired in advance by %(seller)s on %(day)s, assigned on %(assigned)s.",
            **{each: f"{{{each}}}" for each in ("seller", "day", "assigned")},
        ),
    }
