"""A provider of OpenID Connect: authorisation code with PKCE, state and nonce.

The provider is chosen by the operator and may be in a private network, so its address is not restricted. Redirects and
proxies of the environment are not followed, responses are limited in time and size, and all endpoints must use https if
the issuer does.
"""

import json
from typing import Any, Protocol

import aiohttp
import structlog
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Kind, TonneError
from tonne.selling.users.model import normal_email


class OidcUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="oidc_unavailable"):
    """The sign-in provider does not respond, or not as OpenID Connect demands.

    Try again later, or use the password; the log (`oidc_unavailable`) has the reason.
    """

    message = "The sign-in provider does not respond. Try again in a few minutes, or sign in with your password."


class OidcRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="oidc_refused"):
    """The sign-in provider or Tonne refused a sign-in by OpenID Connect; the message says why.

    As the message says, or use the password.
    """

    message = "The sign-in with the provider did not work. Try again, or sign in with your password."


class OidcAttempt(Struct, frozen=True):
    """What the browser keeps, sealed, between leaving for the provider and coming back."""

    state: str
    nonce: str
    code_verifier: str


class OidcIdentity(Struct, frozen=True):
    """What the provider says about the person."""

    issuer: str
    subject: str
    # In lower case. Empty if the provider sends none, or has not verified it.
    verified_email: str
    name: str


class OidcGateway(Protocol):
    async def sign_in_url(self, attempt: OidcAttempt) -> str:
        """The page of the provider. Raises OidcUnavailable."""

    async def redeem(self, attempt: OidcAttempt, code: str) -> OidcIdentity:
        """Exchange the code for a verified ID token. Raises OidcUnavailable or OidcRefused."""


CALLBACK = "/dashboard/oidc/callback"
SCOPE = "openid email profile"
# Neither `none` nor signatures with the client secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TIMEOUT_S = 10.0
MAX_BYTES = 256 * 1024
# Providers change their keys and addresses rarely.
METADATA_LASTS_S = 3600
CLOCK_LEEWAY_S = 60
MAX_SUBJECT = 255

_log = structlog.get_logger()


class OidcProvider:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._client_secret = settings.oidc_client_secret
        self._redirect_uri = settings.base_url + CALLBACK
        self._clock = clock
        self._metadata: dict[str, Any] = {}
        self._metadata_until = 0.0
        self._keys: KeySet | None = None

    async def sign_in_url(self, attempt: OidcAttempt) -> str:
        metadata = await self._find_metadata()
        url: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            self._client_id,
            "code",
            redirect_uri=self._redirect_uri,
            scope=SCOPE,
            state=attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.code_verifier),
            code_challenge_method="S256",
        )
        return url

    async def redeem(self, attempt: OidcAttempt, code: str) -> OidcIdentity:
        metadata = await self._find_metadata()
        body = prepare_token_request(
            "authorization_code", code=code, redirect_uri=self._redirect_uri, code_verifier=attempt.code_verifier
        )
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        auth = ClientAuth(self._client_id, self._client_secret, method if self._client_secret else "none")
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        url, headers, body = auth.prepare("POST", metadata["token_endpoint"], headers, body)
        status, answer = await self._send("POST", url, headers, body)
        if status >= 500:
            raise self._unavailable(f"the token endpoint returned {status}")
        if status != 200 or not isinstance(answer.get("id_token"), str):
            # The error is a word such as invalid_client. The answer itself may contain tokens.
            _log.warning("oidc_code_refused", status=status, error=str(answer.get("error", ""))[:100])
            raise OidcRefused("The sign-in provider did not accept this sign-in. Try again.")
        return await self._verify(answer["id_token"], attempt)

    async def _verify(self, id_token: str, attempt: OidcAttempt) -> OidcIdentity:
        try:
            try:
                token = jwt.decode(id_token, await self._find_keys(), algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                # The provider has new keys.
                self._keys = None
                token = jwt.decode(id_token, await self._find_keys(), algorithms=ALGORITHMS)
            claims = CodeIDToken(
                token.claims,
                token.header,
                {
                    "iss": {"essential": True, "value": self._issuer},
                    "aud": {"essential": True, "value": self._client_id},
                },
                {"nonce": attempt.nonce, "client_id": self._client_id},
            )
            claims.validate(now=int(self._clock().timestamp()), leeway=CLOCK_LEEWAY_S)
        except (JoseError, ValueError, TypeError) as error:
            _log.warning("oidc_token_refused", reason=f"{type(error).__name__}: {str(error)[:200]}")
            raise OidcRefused("The answer of the sign-in provider is not valid. Try again.") from error
        subject, email = claims["sub"], claims.get("email")
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or "\x00" in subject:
            raise OidcRefused
        # Some providers write the claim as a string.
        is_verified = claims.get("email_verified") in {True, "true"} and isinstance(email, str)
        name = claims.get("name")
        return OidcIdentity(
            self._issuer,
            subject,
            normal_email(str(email)) if is_verified else "",
            name if isinstance(name, str) else "",
        )

    async def _find_metadata(self) -> dict[str, Any]:
        now = self._clock().timestamp()
        if now >= self._metadata_until:
            status, found = await self._send("GET", get_well_known_url(self._issuer, external=True))
            if status != 200 or found.get("issuer") != self._issuer:
                raise self._unavailable(f"status {status} and issuer {str(found.get('issuer'))[:200]!r}")
            scheme = self._issuer.partition(":")[0]
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                url = found.get(name)
                if not isinstance(url, str) or not url.startswith(("https://", f"{scheme}://")):
                    raise self._unavailable(f"{name} is missing or not at {scheme}")
            self._metadata, self._keys = found, None
            self._metadata_until = now + METADATA_LASTS_S
        return self._metadata

    async def _find_keys(self) -> KeySet:
        if self._keys is None:
            status, found = await self._send("GET", (await self._find_metadata())["jwks_uri"])
            if status != 200:
                raise self._unavailable(f"the keys returned {status}")
            found["keys"] = [key for key in found.get("keys", []) if key.get("use", "sig") == "sig"]
            self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
        return self._keys

    async def _send(
        self, method: str, url: str, headers: dict[str, str] | None = None, body: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object of the response, empty if it is something else."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.request(method, url, headers=headers, data=body, allow_redirects=False) as response,
            ):
                content = await response.content.read(MAX_BYTES + 1)
                while len(content) <= MAX_BYTES and (part := await response.content.read(MAX_BYTES)):
                    content += part
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._unavailable(type(error).__name__) from error
        try:
            found = json.loads(content) if len(content) <= MAX_BYTES else None
        except ValueError:
            found = None
        return response.status, found if isinstance(found, dict) else {}

    def _unavailable(self, reason: str) -> OidcUnavailable:
        _log.warning("oidc_unavailable", issuer=self._issuer, reason=reason)
        return OidcUnavailable()
