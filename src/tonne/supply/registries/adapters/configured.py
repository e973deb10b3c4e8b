"""The accounts at registries that the settings name."""

import base64
import json
from datetime import UTC, date, datetime

from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.supply.registries.adapters.isometric import Isometric
from tonne.supply.registries.adapters.puro import Puro
from tonne.supply.registries.gateway import RegistryAccount, RegistryAccounts, RegistryGateway
from tonne_verify.serials.units import KILOGRAM_GRAMS, TONNE_GRAMS


def configured_registries(settings: Settings) -> RegistryAccounts:
    gateways: dict[str, tuple[RegistryGateway, int, date | None]] = {}
    if settings.isometric_organisation_id:
        expires_on = find_expiry(settings.isometric_access_token)
        gateways["isometric"] = Isometric(settings), KILOGRAM_GRAMS, expires_on
    if settings.puro_account_number:
        gateways["puro"] = Puro(settings), TONNE_GRAMS, None
    return {name: RegistryAccount(name, Mode.LIVE, name, *gateway) for name, gateway in gateways.items()}


def find_expiry(token: str) -> date | None:
    """What a JSON Web Token says of itself; None for other tokens. Only for a warning, so nothing is verified."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC).date()
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
