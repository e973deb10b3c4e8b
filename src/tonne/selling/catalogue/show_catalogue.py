"""Bundles and projects as the API shows them, made from the snapshot in memory."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from tonne.platform.values.amounts import GRAMS_PER_TONNE, format_money, format_tonnes
from tonne.platform.values.context import Mode, to_wire
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue import catalogue_schemas, facts
from tonne.selling.catalogue.countries import country_of
from tonne.selling.catalogue.details import Approach, OffsetDelivery, ProjectDetails, RetirementTimeframe
from tonne.selling.catalogue.errors import PriceUnavailable
from tonne.selling.catalogue.model import Bundle, Catalogue, Project
from tonne.selling.catalogue.prices.pricing import PriceList

RECENTLY = timedelta(days=30)
# Details that are shown as they are stored.
_SHOWN_DETAILS = (
    *("region", "protocol", "additional_standards_met", "verifying_body", "registration_date"),
    *("crediting_start_date", "crediting_end_date", "avg_annual_emission_reductions", "durability"),
    *("risk_of_reversal", "risk_of_predicted_emissions", "results", "un_sdg", "logo"),
)


class PreparedCatalogue:
    """What the API shows of a catalogue to every account, made once for each version."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.source = catalogue.projects
        self.bundles_of = facts.bundles_by_project(catalogue)
        self.projects_by_slug = {project.slug: project for project in catalogue.projects.values()}
        self.project_fields = {id_: self._project(project) for id_, project in catalogue.projects.items()}
        self.bundle_fields = {id_: _bundle(bundle) for id_, bundle in catalogue.bundles.items()}
        self.members = {
            id_: [
                catalogue_schemas.BundleProjectOut(
                    **self.project_fields[share.project.id],
                    project_id=share.project.id,
                    project_name=share.project.name,
                    project_slug=share.project.slug,
                    weight=share.weight,
                )
                for share in bundle.projects
            ]
            for id_, bundle in catalogue.bundles.items()
        }

    def is_on_sale(self, project: Project) -> bool:
        return any(bundle.enabled for bundle in self.bundles_of.get(project.id, ()))

    def was_disabled_since(self, project: Project, since: datetime) -> bool:
        """Whether a bundle that contained it was taken off sale since then."""
        return any(is_disabled_since(bundle, since) for bundle in self.bundles_of.get(project.id, ()))

    def _project(self, project: Project) -> dict[str, Any]:
        """The fields of a ProjectSummaryOut."""
        country, details = country_of(project.country), project.details
        return {
            "id": project.id,
            "name": project.name,
            "slug": project.slug,
            "type": project.type,
            "mechanism": project.mechanism,
            "country": project.country,
            "registry": project.registry,
            "registry_project_id": project.registry_project_id,
            "registry_url": project.registry_url,
            "methodology": project.methodology,
            "description": project.description,
            "image": project.image,
            "created_at": to_wire(project.created_at),
            "short_name": details.short_name or project.name,
            "project_type": project.type,
            "country_code": country.code,
            "country_name": country.name,
            "registry_name": facts.registry_name(project.registry),
            "registry_link": project.registry_url,
            "disabled": not self.is_on_sale(project),
            "primary_image": project.image,
            "thumbnail_image": project.thumbnail,
            "media": details.media or [],
            "offset_type": facts.offset_type_of(project),
            "carbon_permanence": facts.permanence_of(project),
            "oxford_type": facts.oxford_type(project),
            # Clients of other services expect numbers.
            "latitude": country.latitude if details.latitude is None else details.latitude,
            "longitude": country.longitude if details.longitude is None else details.longitude,
            **{name: getattr(details, name) for name in _SHOWN_DETAILS},
        }


def is_disabled_since(bundle: Bundle, since: datetime) -> bool:
    return not bundle.enabled and bundle.disabled_at is not None and bundle.disabled_at >= since


def _bundle(bundle: Bundle) -> dict[str, Any]:
    """The fields of a BundleSummaryOut without prices and supply."""
    approach = bundle.details.approach
    return {
        "id": bundle.id,
        "name": bundle.name,
        "slug": bundle.slug,
        "description": bundle.description,
        "primary_image": bundle.primary_image,
        "enabled": bundle.enabled,
        "created_at": to_wire(bundle.created_at),
        "disabled": not bundle.enabled,
        "offset_type": facts.bundle_offset_type(bundle),
        "approach": None if approach is None else Approach(approach),
        "carbon_permanence": facts.bundle_permanence(bundle),
        "background_colour": facts.background_colour(bundle),
        "primary_image_hires": bundle.primary_image,
        "small_thumbnail": bundle.thumbnail,
    }


class PreparedCatalogues:
    """The current version of each mode's catalogue."""

    def __init__(self) -> None:
        self._prepared: dict[Mode, PreparedCatalogue] = {}

    def of(self, catalogue: Catalogue) -> PreparedCatalogue:
        # The projects are the same object until another version of the catalogue is loaded.
        known = self._prepared.get(catalogue.mode)
        if known is None or known.source is not catalogue.projects:
            known = self._prepared[catalogue.mode] = PreparedCatalogue(catalogue)
        return known


class CatalogueOfAccount:
    """The catalogue with the prices and the supply of one account."""

    def __init__(self, catalogue: Catalogue, prepared: PreparedCatalogue, terms: Terms) -> None:
        self._catalogue = catalogue
        self._prepared = prepared
        self._terms = terms
        self._prices: PriceList | None = None
        with suppress(PriceUnavailable):
            self._prices = PriceList(catalogue, terms.currency, terms.fee_rate)

    def bundle(self, bundle: Bundle) -> catalogue_schemas.BundleOut:
        return catalogue_schemas.BundleOut(**self._bundle_fields(bundle), projects=self._prepared.members[bundle.id])

    def project(self, project: Project) -> catalogue_schemas.ProjectOut:
        details, prepared = project.details, self._prepared
        return catalogue_schemas.ProjectOut(
            **prepared.project_fields[project.id],
            bundles=[
                catalogue_schemas.BundleSummaryOut(**self._bundle_fields(self._catalogue.bundles[bundle.id]))
                for bundle in prepared.bundles_of.get(project.id, ())
            ],
            carbon_credits=self._credits(project),
            quality_assessment=_quality(details),
            timeline=details.timeline and sorted(details.timeline, key=lambda entry: -entry.year),
            impact_summary=details.impact_summary,
            carbon_storage_over_time=details.carbon_storage_over_time
            and sorted(details.carbon_storage_over_time, key=lambda entry: entry.year),
            datasets=details.datasets,
            links_and_news=catalogue_schemas.LinksAndNewsOut(details.links or [], details.news or [])
            if details.links or details.news
            else None,
        )

    def _bundle_fields(self, bundle: Bundle) -> dict[str, Any]:
        currency, prices = self._terms.currency, self._prices
        net_minor = self._net_minor(bundle)
        return {
            **self._prepared.bundle_fields[bundle.id],
            "currency": currency,
            "unit_price": None if net_minor is None else format_money(net_minor, currency),
            "gross_unit_price": None
            if net_minor is None or prices is None
            else format_money(prices.gross_minor(bundle), currency),
            "available_quantity": format_tonnes(self._terms.available_grams(bundle.free_grams)),
        }

    def _net_minor(self, bundle: Bundle) -> int | None:
        """None without a usable exchange rate, and for a price that rounds to zero: the bundle cannot be sold."""
        return None if self._prices is None else self._prices.net_minor(bundle) or None

    def _credits(self, project: Project) -> catalogue_schemas.CarbonCreditsOut:
        """Lots are credits that a registry has issued, so unless the operator says otherwise they are `ex_post`."""
        details = project.details
        return catalogue_schemas.CarbonCreditsOut(
            OffsetDelivery(details.offset_delivery or OffsetDelivery.EX_POST),
            RetirementTimeframe(details.retirement_timeframe or RetirementTimeframe.NEAR_TERM),
            self._inventory(project),
        )

    def _inventory(self, project: Project) -> list[catalogue_schemas.InventoryOut] | None:
        sold = [bundle for bundle in self._prepared.bundles_of.get(project.id, ()) if bundle.enabled]
        prices = [net for net in map(self._net_minor, sold) if net is not None]
        if not prices:
            return None
        price = catalogue_schemas.PriceOut(format_money(min(prices), self._terms.currency), self._terms.currency)
        vintages = self._catalogue.vintages.get(project.id, ())
        return [
            catalogue_schemas.InventoryOut(
                str(each.vintage), _tonnes(self._terms.available_grams(each.free_grams)), price
            )
            for each in reversed(vintages)
            if each.free_grams
        ]


def _tonnes(grams: int) -> float:
    return grams // GRAMS_PER_TONNE if grams % GRAMS_PER_TONNE == 0 else grams / GRAMS_PER_TONNE


def _quality(details: ProjectDetails) -> catalogue_schemas.QualityAssessmentOut | None:
    durability, additionality = details.quality_durability, details.quality_additionality
    measurement, risk, cobenefits = (
        details.quality_measurement,
        details.quality_risk_mitigation,
        details.quality_cobenefits,
    )
    if not (durability and additionality and measurement and risk and cobenefits):
        return None
    return catalogue_schemas.QualityAssessmentOut(durability, additionality, measurement, risk, cobenefits)
