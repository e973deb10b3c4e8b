"""Browsers in which a user has signed in before. Failed attempts of strangers do not lock them out.

The cookie is sealed with the installation's key, so that nobody can make one: it contains a random id, the user and the
time. `devices_since` of the user revokes it: it is set when the password changes or all sessions are ended.
"""

import secrets
from datetime import datetime, timedelta

from msgspec import Struct

from tonne.platform.http.route import Request
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.users.model import User

LASTS = timedelta(days=180)
# What a sealed cookie belongs to: it opens nowhere else.
_OWNER = "device"
_MAX_COOKIE = 500


class Device(Struct, frozen=True):
    id: str
    user_id: str
    since: datetime


class Devices:
    def __init__(self, settings: Settings, clock: Clock, box: SecretBox) -> None:
        self._clock = clock
        self._box = box
        is_https = settings.base_url.startswith("https://")
        self._name = "__Host-tonne_device" if is_https else "tonne_device"
        self._attributes = "Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_https else "")

    def cookie(self, user: User) -> str:
        """What makes this browser known."""
        text = f"{secrets.token_urlsafe(16)} {user.id} {self._clock().isoformat()}"
        sealed = self._box.seal(text, _OWNER).hex()
        return f"{self._name}={sealed}; {self._attributes}; Max-Age={int(LASTS.total_seconds())}"

    def read(self, request: Request) -> Device | None:
        """None without a cookie of ours, or if it is too old. Whether it was revoked, the caller must look up."""
        sealed = request.cookie(self._name)
        if not sealed or len(sealed) > _MAX_COOKIE:
            return None
        try:
            device_id, user_id, since = self._box.open(bytes.fromhex(sealed), _OWNER).split(" ")
        except (ValueError, SecretUnreadable):
            return None
        device = Device(device_id, user_id, datetime.fromisoformat(since))
        return device if self._clock() - device.since < LASTS else None
