"""Errors of signing."""

from tonne.platform.values.errors import Kind, TonneError


class SigningKeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="signing_key_not_found"):
    message = "There is no such key. `tonne signing-keys list` lists them."


class SigningUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="signing_unavailable"):
    """The key cannot be used. Nothing is lost: the caller tries again."""

    message = "The document cannot be signed at the moment. Please try again later."
