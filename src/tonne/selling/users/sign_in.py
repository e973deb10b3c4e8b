"""Signing in, and the sessions of users: the cookie, its look-up, sign-out and revocation.

Users sign in with a password and, if they have one, a second factor, or with a passkey alone. The cookie holds 256
random bits; the database stores their hash. Each sign-in and each second factor begins a new session, so a token that
someone else planted before is worth nothing.
"""

import hashlib
import re
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Clock, new_id
from tonne.platform.values.language import N_
from tonne.platform.values.urls import is_loopback
from tonne.selling.users import store
from tonne.selling.users.devices import Devices
from tonne.selling.users.errors import CodeRefused, SignInRefused
from tonne.selling.users.model import User, UserSession, normal_email
from tonne.selling.users.passwords import Passwords, needs_rehash
from tonne.selling.users.second_factor.passkeys import Passkeys, Purpose
from tonne.selling.users.second_factor.second_factor import accepted_step, hash_recovery_code

# A session ends after two weeks, or after a day without a request.
LASTS = timedelta(days=14)
IDLE = timedelta(hours=24)
# For the second factor.
INCOMPLETE_LASTS = timedelta(minutes=10)
# Changes of security need a sign-in of this time: an unattended browser or a stolen session must not be enough.
RECENT = timedelta(minutes=30)
# Approvals need one of this time: nobody approves in the browser of a person who is away.
APPROVAL_RECENT = timedelta(minutes=5)
# How often `last_seen_at` is written.
SEEN_EVERY = timedelta(minutes=1)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_AGENT = 300


class Sessions:
    def __init__(self, database: Database, settings: Settings, clock: Clock, box: SecretBox) -> None:
        self._database = database
        self._clock = clock
        self.devices = Devices(settings, clock, box)
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
            session = await store.find_session(connection, hash_token(token), now, now - IDLE)
            if session is not None and now - session.last_seen_at >= SEEN_EVERY:
                await store.note_seen(connection, session.id, now)
        return session

    def find_payer(self, request: Request) -> str | None:
        """Who pays for the request in a busy process: the user, without a query, or None for the network.

        The sealed cookie of a known browser proves the user. All sessions of a user together have one share.
        """
        device = self.devices.read(request)
        return None if device is None else device.user_id

    async def begin(
        self, tx: Connection, user: User, request: Request, *, is_complete: bool, is_strong: bool
    ) -> tuple[UserSession, list[str]]:
        """A new session, and its cookie. If it is complete, the browser is known from now on."""
        now, token = self._clock(), secrets.token_urlsafe(32)
        lasts = LASTS if is_complete else INCOMPLETE_LASTS
        # Of a browser that signs in again, the old session is worth nothing any more.
        await store.revoke_token(tx, hash_token(request.cookie(self._name)), now)
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
        await store.insert_session(tx, session, hash_token(token))
        known = [self.devices.cookie(user)] if is_complete else []
        return session, [self._cookie(token, lasts), *known]

    async def complete(self, tx: Connection, pending: UserSession, request: Request) -> tuple[UserSession, list[str]]:
        """After the second factor: a new session replaces the one that waited for it."""
        await store.revoke_session(tx, pending.user.id, pending.id, self._clock())
        return await self.begin(tx, pending.user, request, is_complete=True, is_strong=True)

    async def sign_out(self, tx: Connection, session: UserSession, *, actor: Actor) -> str:
        """Returns what deletes the cookie. The browser stays known."""
        now = self._clock()
        await store.revoke_session(tx, session.user.id, session.id, now)
        await audit.record(tx, None, "user.signed_out", by=actor.at(now), subject_id=session.user.id)
        return self._cookie("", timedelta(0))

    async def end(self, tx: Connection, user: User, session_id: str, *, actor: Actor) -> None:
        """End a session of the user, if it has not ended."""
        now = self._clock()
        if await store.revoke_session(tx, user.id, session_id, now):
            await audit.record(
                tx, None, "user.session_ended", by=actor.at(now), subject_id=user.id, session_id=session_id
            )

    async def end_others(self, tx: Connection, session: UserSession, *, actor: Actor) -> None:
        """End all sessions of the user but this one."""
        now, user_id = self._clock(), session.user.id
        await store.revoke_sessions(tx, user_id, now, but=session.id)
        await audit.record(tx, None, "user.sessions_ended", by=actor.at(now), subject_id=user_id)

    async def list_of(self, connection: Connection, user_id: str) -> list[UserSession]:
        now = self._clock()
        return await store.list_sessions(connection, user_id, now, now - IDLE)

    def _cookie(self, token: str, lasts: timedelta) -> str:
        return f"{self._name}={token}; {self._attributes}; Max-Age={int(lasts.total_seconds())}"


def hash_token(token: str) -> bytes:
    """No salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode()).digest()


def is_recent(session: UserSession, now: datetime, within: timedelta = RECENT) -> bool:
    """Whether the user signed in a short time ago, which changes of security ask for."""
    return now - session.created_at <= within


# Attempts for one e-mail address from one network, attempts in one known browser, and codes of one user: 10 at once,
# then one every 90 seconds.
ATTEMPTS = 10
ATTEMPTS_PER_S = 1 / 90
# Attempts for one e-mail address from all networks together, known browsers excepted.
ACCOUNT_ATTEMPTS = 100
ACCOUNT_ATTEMPTS_PER_S = 1 / 20
# Attempts from one network address, for any user.
CLIENT_ATTEMPTS = 30
CLIENT_ATTEMPTS_PER_S = 1 / 10
# Challenges for passkeys that one network address asks for: each is a row.
CHALLENGES = 30
CHALLENGES_PER_S = 1 / 2
_DEMO_FROM_ELSEWHERE = "Users of the demo can sign in only on the machine that runs it."
_TOO_MANY = N_("Too many attempts to sign in. Wait a few minutes, then try again.")


def user_actor(user: User, request: Request) -> Actor:
    return Actor(ActorKind.USER, user.id, request.client)


class SignIn:
    """All ways to sign in return the session and the cookies to set."""

    def __init__(
        self,
        database: Database,
        sessions: Sessions,
        passwords: Passwords,
        box: SecretBox,
        *,
        passkeys: Passkeys,
        clock: Clock,
        timer: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._passwords = passwords
        self._box = box
        self._passkeys = passkeys
        self._clock = clock
        self._by_email = TokenBuckets("sign_in_email", ATTEMPTS_PER_S, ATTEMPTS, timer)
        self._by_device = TokenBuckets("sign_in_device", ATTEMPTS_PER_S, ATTEMPTS, timer)
        self._by_account = TokenBuckets("sign_in_account", ACCOUNT_ATTEMPTS_PER_S, ACCOUNT_ATTEMPTS, timer)
        self._by_client = TokenBuckets("sign_in_client", CLIENT_ATTEMPTS_PER_S, CLIENT_ATTEMPTS, timer)
        self._codes = TokenBuckets("sign_in_code", ATTEMPTS_PER_S, ATTEMPTS, timer)
        self._challenges = TokenBuckets("passkey_challenges", CHALLENGES_PER_S, CHALLENGES, timer)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return self._by_email, self._by_device, self._by_account, self._by_client, self._codes, self._challenges

    async def by_password(self, request: Request, email: str, password: str) -> tuple[UserSession, list[str]]:
        """A complete session, or one that waits for the second factor. Raises SignInRefused or RateLimited."""
        asker = await self._limit_email(request, normal_email(email))
        found = await self._database.run(store.find_user_by_email, email)
        user, stored_hash = found or (None, None)
        is_right = await self._passwords.is_right(stored_hash, password, asker)
        if user is None or not is_right or user.disabled_at is not None:
            raise SignInRefused
        require_demo_is_local(user, request)
        new_hash = None
        if stored_hash is not None and needs_rehash(stored_hash):
            new_hash = await self._passwords.hash(password, asker)
        async with self._database.transaction() as tx:
            if new_hash is not None:
                await store.set_password_hash(tx, user.id, new_hash)
            session, cookies = await self._sessions.begin(
                tx, user, request, is_complete=not user.has_second_factor, is_strong=False
            )
            if session.is_complete:
                await record_sign_in(tx, session, request, self._clock())
        return session, cookies

    async def by_code(self, request: Request, pending: UserSession, code: str) -> tuple[UserSession, list[str]]:
        """The second step: a code of the authenticator app, or a recovery code. Raises CodeRefused or RateLimited."""
        self.limit_attempts(pending.user)
        async with self._database.transaction() as tx:
            await self.accept_code(tx, pending.user, code)
            session, cookies = await self._sessions.complete(tx, pending, request)
            await record_sign_in(tx, session, request, self._clock())
        return session, cookies

    async def passkey_options(self, request: Request, browser: str, pending: UserSession | None = None) -> str:
        """What the browser's passkey must sign, as JSON. `browser` is the token of its forms.

        With `pending` it is the second step after the password. Raises PasskeysUnavailable or RateLimited.
        """
        self._challenges.require(request.limited_as, message=_TOO_MANY)
        if pending is None:
            return await self._passkeys.sign_in_options(Purpose.SIGN_IN, browser)
        return await self._passkeys.sign_in_options(Purpose.SECOND_FACTOR, pending.id, pending.user)

    async def by_passkey(self, request: Request, browser: str, answer: str) -> tuple[UserSession, list[str]]:
        """A passkey alone: it is in the user's possession, and the device has verified the user.

        Raises PasskeyRefused, SignInRefused, PasskeysUnavailable or RateLimited.
        """
        self.limit_client(request)
        challenge = await self._passkeys.use_sign_in_challenge(Purpose.SIGN_IN, browser)
        async with self._database.transaction() as tx:
            user = await self._passkeys.verify(tx, challenge, answer)
            require_demo_is_local(user, request)
            session, cookies = await self._sessions.begin(tx, user, request, is_complete=True, is_strong=True)
            await record_sign_in(tx, session, request, self._clock())
        return session, cookies

    async def by_second_passkey(
        self, request: Request, pending: UserSession, answer: str
    ) -> tuple[UserSession, list[str]]:
        """The second step with a passkey. Raises PasskeyRefused, PasskeysUnavailable or RateLimited."""
        self.limit_attempts(pending.user)
        challenge = await self._passkeys.use_sign_in_challenge(Purpose.SECOND_FACTOR, pending.id)
        async with self._database.transaction() as tx:
            await self._passkeys.verify(tx, challenge, answer, user=pending.user)
            session, cookies = await self._sessions.complete(tx, pending, request)
            await record_sign_in(tx, session, request, self._clock())
        return session, cookies

    async def _limit_email(self, request: Request, email: str) -> str:
        """In whose name the attempt waits: the network, or a browser in which this user has signed in before.

        Strangers use up neither the attempts nor the turns of a known browser, also not those in the same network.
        Raises RateLimited.
        """
        device = self._sessions.devices.read(request)
        if (
            device is not None
            and self._by_device.consume(device.id).allowed
            and await self._database.run(store.is_known, device.user_id, email, device.since)
        ):
            return device.id
        self.limit_client(request)
        self._by_email.require(f"{request.limited_as} {email}", message=_TOO_MANY)
        self._by_account.require(email, message=_TOO_MANY)
        return request.limited_as

    def limit_client(self, request: Request) -> None:
        """Raises RateLimited."""
        self._by_client.require(request.limited_as, message=_TOO_MANY)

    def limit_attempts(self, user: User) -> None:
        """For the second step, and for changes that ask for the password or a code. Raises RateLimited."""
        self._codes.require(user.id, message=_TOO_MANY)

    async def accept_code(self, tx: Connection, user: User, code: str) -> None:
        """Consume a code of the app or a recovery code. Raises CodeRefused."""
        now = self._clock()
        row = await store.lock_totp(tx, user.id)
        if row["totp_enabled"]:
            step = accepted_step(self._box.open(row["totp_box"], user.id), code, now, row["totp_step"])
            if step is not None:
                await store.set_totp(tx, user.id, row["totp_box"], enabled=True, step=step)
                return
        if not await store.use_recovery_code(tx, user.id, hash_recovery_code(code), now):
            raise CodeRefused


async def record_sign_in(tx: Connection, session: UserSession, request: Request, now: datetime) -> None:
    await audit.record(
        tx,
        None,
        "user.signed_in",
        by=user_actor(session.user, request).at(now),
        subject_id=session.user.id,
        session_id=session.id,
        second_factor=session.is_strong,
    )


def require_demo_is_local(user: User, request: Request) -> None:
    """The demo's passwords are printed in a terminal. Raises SignInRefused for requests of other machines."""
    if user.is_demo and not is_loopback(request.client):
        raise SignInRefused(_DEMO_FROM_ELSEWHERE)
