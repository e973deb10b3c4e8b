"""Sums by properties of the projects. No I/O."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.selling.catalogue import facts
from tonne.selling.catalogue.countries import country_of
from tonne.selling.catalogue.details import OffsetType
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.orders.analytics import schemas
from tonne.selling.orders.analytics.model import DayRange
from tonne.selling.orders.analytics.store import BundleSums

NOT_ALLOCATED = "Not yet allocated"
UNKNOWN = "Unknown"
K = TypeVar("K", bound=Hashable)


def bundle_name(catalogue: Catalogue, bundle_id: str) -> str:
    bundle = catalogue.bundles.get(bundle_id)
    return bundle_id if bundle is None else bundle.name


def project_name(catalogue: Catalogue, project_id: str) -> str:
    project = catalogue.projects.get(project_id)
    return project_id if project is None else project.name


class Aggregation:
    """Sums of bundles and projects in one currency, by any property of them."""

    def __init__(self, sums: Sequence[BundleSums], catalogue: Catalogue, currency: str) -> None:
        self._sums = sums
        self._catalogue = catalogue
        self._currency = currency

    def shown(self) -> schemas.AggregatedOut:
        catalogue = self._catalogue
        return schemas.AggregatedOut(
            bundle=[
                schemas.BundleShareOut(key, bundle_name(catalogue, key), *amounts)
                for key, *amounts in self._by(lambda sums: str(sums.bundle_id))
            ],
            location=[schemas.LocationShareOut(*row) for row in self._by(self._location)],
            registry=[schemas.RegistryShareOut(*row) for row in self._by(self._registry)],
            oxford_offsetting_principles=sorted(
                (
                    schemas.OxfordShareOut(key, *amounts)
                    for key, *amounts in self._by(self._oxford_type)
                    if key is not None
                ),
                key=lambda share: share.type,
            ),
            offset_type=[schemas.OffsetTypeShareOut(*row) for row in self._by(self._offset_type)],
        )

    def _by(self, property_of: Callable[[BundleSums], K]) -> list[tuple[K, str, str]]:
        """The largest first. Money in another currency, of an account that had one before, is left out."""
        grams: defaultdict[K, int] = defaultdict(int)
        minor: defaultdict[K, int] = defaultdict(int)
        for sums in self._sums:
            key = property_of(sums)
            grams[key] += sums.grams
            minor[key] += sums.offset_cost_minor if sums.currency == self._currency else 0
        keys = sorted(grams, key=lambda key: (-grams[key], str(key)))
        return [(key, format_tonnes(grams[key]), format_money(minor[key], self._currency)) for key in keys]

    def _location(self, sums: BundleSums) -> str:
        if not sums.project_id:
            return NOT_ALLOCATED
        project = self._catalogue.projects.get(sums.project_id)
        return (country_of(project.country).continent if project else "") or UNKNOWN

    def _registry(self, sums: BundleSums) -> str:
        if not sums.project_id:
            return NOT_ALLOCATED
        project = self._catalogue.projects.get(sums.project_id)
        return UNKNOWN if project is None else facts.registry_name(project.registry) or project.registry

    def _oxford_type(self, sums: BundleSums) -> int | None:
        project = self._catalogue.projects.get(sums.project_id or "")
        if project is not None:
            return facts.oxford_type(project)
        bundle = self._catalogue.bundles.get(sums.bundle_id or "")
        types = {facts.oxford_type(share.project) for share in bundle.projects} if bundle else set()
        return types.pop() if len(types) == 1 else None

    def _offset_type(self, sums: BundleSums) -> OffsetType | None:
        project = self._catalogue.projects.get(sums.project_id or "")
        if project is not None:
            return facts.offset_type_of(project)
        bundle = self._catalogue.bundles.get(sums.bundle_id or "")
        return None if bundle is None else facts.bundle_offset_type(bundle)


def metrics_of(sums: Iterable[BundleSums], catalogue: Catalogue) -> schemas.MetricsOut:
    project_ids = {each.project_id for each in sums if each.project_id}
    goals: defaultdict[int, int] = defaultdict(int)
    for project_id in project_ids:
        project = catalogue.projects.get(project_id)
        for goal in (project.details.un_sdg or ()) if project else ():
            goals[goal] += 1
    counted = [schemas.GoalCountOut(goal, goals[goal]) for goal in sorted(goals)]
    return schemas.MetricsOut(len(project_ids), len(counted), counted or None)


def running_totals(
    sums: Iterable[BundleSums], period: DayRange, catalogue: Catalogue, currency: str
) -> list[schemas.BundleTimeseriesOut]:
    """For each bundle one total for each day, the largest bundle first."""
    by_bundle: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for each in sums:
        start, bundle_id = str(each.start), str(each.bundle_id)
        grams, minor = by_bundle[bundle_id].get(start, (0, 0))
        value_minor = each.offset_cost_minor if each.currency == currency else 0
        by_bundle[bundle_id][start] = (grams + each.grams, minor + value_minor)
    found = []
    for bundle_id, days in by_bundle.items():
        grams = minor = 0
        series = []
        for day in period.days():
            more_grams, more_minor = days.get(str(day), (0, 0))
            grams, minor = grams + more_grams, minor + more_minor
            series.append(schemas.BundleDayOut(str(day), format_tonnes(grams), format_money(minor, currency)))
        found.append(
            (-grams, bundle_id, schemas.BundleTimeseriesOut(bundle_id, bundle_name(catalogue, bundle_id), series))
        )
    return [series for _, _, series in sorted(found, key=lambda each: each[:2])]
