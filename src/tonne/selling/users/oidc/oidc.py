"""What signing in by OpenID Connect needs to know about a provider."""

from typing import Protocol

from msgspec import Struct

from tonne.platform.values.errors import Kind, TonneError


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
