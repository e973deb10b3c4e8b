"""Checks the address of each retirement: it must be a page of the registry, and describe this retirement only."""

from collections.abc import Collection, Sequence

from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import RegistryPage
from tonne.platform.values.context import Mode
from tonne.supply.stock.lots.registries import RegistryPages, group_prefixes
from tonne.supply.stock.parcels.parcel_book import BookedParcel
from tonne_verify.serials.spelling import registry_id


def registry_pages(pages: Sequence[RegistryPage]) -> RegistryPages:
    """The pages that the operator has set, by the id that all names of a registry share."""
    return RegistryPages(group_prefixes((registry_id(page.registry), page.prefix) for page in pages))


# A retirement, as its page describes it: project, whether it is in the service's name, and beneficiary.
_Retirement = tuple[str, bool, str]

READ_USED = """
SELECT DISTINCT retirement_url, project_id, in_service_name, beneficiary FROM parcels
WHERE mode = $1 AND retirement_url = ANY ($2::text[]) AND status = 'retired'
"""


class RetirementPages:
    """Nothing is retired in test mode, so there are no pages of registries: any address is accepted."""

    def __init__(self, pages: RegistryPages, mode: Mode) -> None:
        self._pages = pages
        self._mode = mode
        self._used: dict[str, tuple[_Retirement, str]] = {}

    async def read_used_any_account(self, tx: Connection, urls: Collection[str]) -> None:
        """Read which of these addresses confirmed retirements have already."""
        if self._mode is Mode.LIVE:
            for row in await tx.fetch(READ_USED, self._mode, list(urls)):
                retirement = (row["project_id"], row["in_service_name"], row["beneficiary"])
                self._used[row["retirement_url"]] = (retirement, "an earlier confirmation")

    def refusal(self, line: int, url: str, parcel: BookedParcel) -> str | None:
        """Why the line cannot have this address; None if it can.

        Several lines may have the same one if they are one retirement: of one project and beneficiary.
        """
        if self._mode is not Mode.LIVE:
            return None
        message = self._pages.refusal(parcel.registry, parcel.registry_id, parcel.registry_url, url)
        if message is not None or self._pages.is_report(parcel.registry_id):
            return message
        retirement = (parcel.project_id, parcel.in_service_name, parcel.beneficiary)
        used_for, where = self._used.setdefault(url, (retirement, f"line {line}"))
        if used_for == retirement:
            return None
        what = "project" if used_for[0] != retirement[0] else "beneficiary"
        return f"{where} has this address for another {what}: enter the page of this retirement."
