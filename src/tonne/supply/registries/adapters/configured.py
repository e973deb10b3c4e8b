"""The accounts at registries that the settings name."""

from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.supply.registries.adapters.isometric import Isometric
from tonne.supply.registries.gateway import RegistryAccount, RegistryAccounts, RegistryGateway
from tonne_verify.serials.units import KILOGRAM_GRAMS


def configured_registries(settings: Settings) -> RegistryAccounts:
    gateways: dict[str, tuple[RegistryGateway, int]] = {}
    if settings.isometric_organisation_id:
        gateways["isometric"] = Isometric(settings), KILOGRAM_GRAMS
    return {name: RegistryAccount(name, Mode.LIVE, name, *gateway) for name, gateway in gateways.items()}
