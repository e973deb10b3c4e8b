"""Errors of signing."""

from tonne.platform.values.errors import Kind, TonneError


class SigningKeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="signing_key_not_found"):
    """On the command line: a signing key is named that does not exist.

    List the keys with `tonne signing-keys list`.
    """

    message = "There is no such key. `tonne signing-keys list` lists them."


class SigningUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="signing_unavailable"):
    """The key that signs PDFs and credentials cannot be used, for example because its hardware module does not
    respond.

    Repeat the request later; nothing is lost. The operator finds the reason in the log and with `tonne check`.

    The key cannot be used. Nothing is lost: the caller tries again.
    """

    message = "The document cannot be signed at the moment. Please try again later."
