"""Sessions of signed-in users: the cookie, its look-up, sign-out and revocation.

The cookie holds 256 random bits; the database stores their hash. Each sign-in and each second factor begins a new
session, so a token that someone else planted before is worth nothing.
"""

import hashlib
import re
import secrets
from datetime import datetime, timedelta

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.http.route import Request
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock, new_id
from tonne.selling.users import session_store
from tonne.selling.users.model import User, UserSession

# A session ends after two weeks, or after a day without a request.
LASTS = timedelta(days=14)
IDLE = timedelta(hours=24)
# For the second factor.
INCOMPLETE_LASTS = timedelta(minutes=10)
# How often `last_seen_at` is written.
SEEN_EVERY = timedelta(minutes=1)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_AGENT = 300


class Sessions:
    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        is_https = settings.base_url.startswith("https://")
        self._name = "__Host-tonne_session" if is_https else "tonne_session"
        self._attributes = "Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if is_https else "")

    def now(self) -> datetime:
        return self._clock()

    async def find(self, request: Request) -> UserSession | None:
        """The session of the request's cookie, complete or not."""
        token, now = request.cookie(self._name), self._clock()
        if not _TOKEN.fullmatch(token):
            return None
        async with self._database.connection() as connection:
            session = await session_store.find_session(connection, hash_token(token), now, now - IDLE)
            if session is not None and now - session.last_seen_at >= SEEN_EVERY:
                await session_store.note_seen(connection, session.id, now)
        return session

    async def begin(
        self, tx: Connection, user: User, request: Request, *, is_complete: bool, is_strong: bool
    ) -> tuple[UserSession, dict[str, str]]:
        """A new session, and the header that sets its cookie."""
        now, token = self._clock(), secrets.token_urlsafe(32)
        lasts = LASTS if is_complete else INCOMPLETE_LASTS
        agent = request.headers.get(b"user-agent", b"").decode("latin-1")[:_MAX_AGENT]
        session = UserSession(
            new_id("ses"),
            user,
            is_complete=is_complete,
            is_strong=is_strong,
            created_at=now,
            last_seen_at=now,
            expires_at=now + lasts,
            address=request.client,
            agent=agent,
        )
        await session_store.insert_session(tx, session, hash_token(token))
        return session, {"Set-Cookie": self._cookie(token, lasts)}

    async def complete(
        self, tx: Connection, pending: UserSession, request: Request
    ) -> tuple[UserSession, dict[str, str]]:
        """After the second factor: a new session replaces the one that waited for it."""
        await session_store.revoke_session(tx, pending.user.id, pending.id, self._clock())
        return await self.begin(tx, pending.user, request, is_complete=True, is_strong=True)

    async def sign_out(self, tx: Connection, session: UserSession, *, actor: Actor) -> dict[str, str]:
        """Returns the header that deletes the cookie."""
        now = self._clock()
        await session_store.revoke_session(tx, session.user.id, session.id, now)
        await audit.record(tx, None, "user.signed_out", actor=actor, at=now, subject_id=session.user.id)
        return {"Set-Cookie": self._cookie("", timedelta(0))}

    async def end(self, tx: Connection, user: User, session_id: str, *, actor: Actor) -> None:
        """End a session of the user, if it has not ended."""
        now = self._clock()
        if await session_store.revoke_session(tx, user.id, session_id, now):
            await audit.record(
                tx, None, "user.session_ended", actor=actor, at=now, subject_id=user.id, session_id=session_id
            )

    async def end_others(self, tx: Connection, session: UserSession, *, actor: Actor) -> None:
        """End all sessions of the user but this one."""
        now, user_id = self._clock(), session.user.id
        await session_store.revoke_sessions(tx, user_id, now, but=session.id)
        await audit.record(tx, None, "user.sessions_ended", actor=actor, at=now, subject_id=user_id)

    async def list_of(self, connection: Connection, user_id: str) -> list[UserSession]:
        now = self._clock()
        return await session_store.list_sessions(connection, user_id, now, now - IDLE)

    def _cookie(self, token: str, lasts: timedelta) -> str:
        return f"{self._name}={token}; {self._attributes}; Max-Age={int(lasts.total_seconds())}"


def hash_token(token: str) -> bytes:
    """No salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode()).digest()


def is_recent(session: UserSession, now: datetime, within: timedelta) -> bool:
    """Whether the user signed in a short time ago, which sensitive changes ask for."""
    return now - session.created_at <= within
