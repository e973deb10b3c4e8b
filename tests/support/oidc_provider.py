"""A small provider of OpenID Connect for tests: a real HTTP server with keys of its own."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tonne.platform.values.context import Clock

CLIENT_ID, CLIENT_SECRET = "tonne", "s3cret of the client"


class OidcServer:
    """`claims` are added to those of the ID token; None removes one. The other attributes make it answer wrongly."""

    def __init__(self, clock: Clock) -> None:
        self.url = ""
        self.claims: dict[str, Any] = {}
        self.issuer: str | None = None
        self.is_down = False
        self.signs_with_secret = False
        self.checks_pkce = True
        self._clock = clock
        self._key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self._codes: dict[str, dict[str, str]] = {}

    def change_key(self, kid: str = "second") -> None:
        self._key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})

    def authorise(self, url: str) -> str:
        """What the person does at the provider: signs in. Returns the address to which the browser goes back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert urlsplit(url).path == "/authorise"
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT_ID)
        assert asked["code_challenge_method"] == "S256"
        assert set(asked["scope"].split()) == {"openid", "email", "profile"}
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        back = urlsplit(asked["redirect_uri"])
        return f"{back.path}?code={code}&state={asked['state']}"

    async def discover(self, _: web.Request) -> web.Response:
        if self.is_down:
            raise web.HTTPServiceUnavailable
        return web.json_response(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorise",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            }
        )

    async def keys(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [self._key.as_dict(private=False)]})

    async def token(self, request: web.Request) -> web.Response:
        fields = await request.post()
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if request.headers.get("Authorization") != expected:
            return web.json_response({"error": "invalid_client"}, status=401)
        asked = self._codes.pop(str(fields["code"]), None)
        digest = hashlib.sha256(str(fields["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or (self.checks_pkce and asked["code_challenge"] != challenge):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"access_token": "unused", "id_token": self._id_token(asked["nonce"])})

    def _id_token(self, nonce: str) -> str:
        now = int(self._clock().timestamp())
        standard = {"iss": self.url, "sub": "person-1", "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {name: value for name, value in {**standard, **self.claims}.items() if value is not None}
        if self.signs_with_secret:
            return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET * 2), ["HS256"])
        return jwt.encode({"alg": "RS256", "kid": self._key.kid}, claims, self._key)


@asynccontextmanager
async def oidc_server(clock: Clock) -> AsyncIterator[OidcServer]:
    server, app = OidcServer(clock), web.Application()
    app.add_routes(
        [
            web.get("/.well-known/openid-configuration", server.discover),
            web.get("/keys", server.keys),
            web.post("/token", server.token),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    listening = site._server
    assert isinstance(listening, asyncio.Server)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield server
    await runner.cleanup()
