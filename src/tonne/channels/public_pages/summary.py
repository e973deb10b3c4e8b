"""The summary of a Sustainability page as a PDF of one or two pages, in the visitor's language."""

from datetime import datetime
from pathlib import Path
from typing import Any

from babel import Locale

from tonne.channels.public_pages.figures.figures import Figures
from tonne.channels.public_pages.figures.read_figures import PageFigures
from tonne.channels.public_pages.model import SustainabilityPage
from tonne.channels.public_pages.preview import without_symbols
from tonne.platform.settings.settings import Settings
from tonne.platform.web import visitor
from tonne.platform.web.translate import Translator
from tonne.platform.web.visitor_language import VisitorLanguage
from tonne.supply.certificates.pdf import qr_code

TEMPLATE = Path(__file__).parent / "templates" / "summary.typ"
MAX_PROJECTS = 24
MAX_BARS = 24


def summary_record(
    page: SustainabilityPage, found: PageFigures, language: VisitorLanguage, *, today: datetime, settings: Settings
) -> dict[str, Any]:
    _, locale, figures = language.translator, language.locale, found.figures
    address = page.address(settings.base_url)
    shown = figures.projects[:MAX_PROJECTS]
    amounts = visitor.aligned([project.grams for project in shown], locale)
    others = sum(project.grams for project in (*figures.projects[MAX_PROJECTS:], *figures.other_projects))
    return {
        "mode": page.scope.mode.value,
        "language": language.code,
        "title": without_symbols(page.title),
        "beneficiary": without_symbols(found.beneficiary),
        "seller": without_symbols(settings.seller_name),
        "address": address,
        "qr": qr_code(address),
        "total": visitor.rounded(figures.total_grams, locale),
        "exact": visitor.exact(figures.total_grams, locale),
        "year": "" if figures.year is None else str(figures.year),
        "tiles": _tiles(figures, _, locale),
        "shares": [
            {"name": _mechanism(share.name, _), "percent": share.percent, "grams": share.grams, "series": share.series}
            for share in figures.mechanisms
        ],
        "months": _months(figures),
        "projects": [
            {
                "name": without_symbols(project.name),
                "kind": [part for part in (_mechanism(project.mechanism, _), project.type, project.country) if part],
                "registry": project.registry,
                "vintages": project.vintages,
                "amount": amount,
            }
            for project, amount in zip(shown, amounts, strict=True)
        ],
        "others": "" if not others else _("Smaller projects: %(amount)s", amount=visitor.rounded(others, locale)),
        "labels": _labels(_, visitor.day(today, locale)),
    }


def _labels(_: Translator, today: str) -> dict[str, str]:
    return {
        "heading": _("Summary of retirements"),
        "retired": _("of CO₂ equivalent, as carbon credits retired on behalf of"),
        "as_of": _("As of %(day)s", day=today),
        "shares": _("Removal and avoidance"),
        "per_month": _("Per month"),
        "project": _("Project"),
        "registry": _("Registry"),
        "vintage": _("Vintage"),
        "amount": _("Retired"),
        "meaning": _("What this means"),
        "credits": _(
            "Each credit represents one tonne of CO₂ equivalent that a project has removed or avoided. Retired credits "
            "are permanently taken off the market and can't be sold or used again."
        ),
        "claims": _(
            "Retiring credits supports these projects. It doesn't change the emissions of an organisation, a product "
            "or a journey, so it isn't proof that any of them is neutral."
        ),
        "current": _("Current figures and certificates"),
        "test": _("TEST: nothing here is real"),
    }


def _tiles(figures: Figures, _: Translator, locale: Locale) -> list[dict[str, str]]:
    projects, countries = figures.projects_count, len(figures.countries)
    tiles = [{"figure": str(projects), "text": _.plural("project", "projects", projects)}]
    if countries:
        tiles.append({"figure": str(countries), "text": _.plural("country", "countries", countries)})
    if figures.removal is not None:
        tiles.append({"figure": figures.removal.percent, "text": _("carbon removal")})
    if figures.first_month is not None and figures.year is None:
        tiles.append({"figure": visitor.month(figures.first_month, locale), "text": _("first retirement")})
    return tiles


def _mechanism(name: str, _: Translator) -> str:
    return {"removal": _("Removal"), "avoidance": _("Avoidance")}.get(name, "")


def _months(figures: Figures) -> list[dict[str, Any]]:
    """Heights are shares of the highest month."""
    months = () if figures.timeline is None else figures.timeline.months
    return [{"name": month.name, "height": month.width / 100} for month in months[-MAX_BARS:]]
