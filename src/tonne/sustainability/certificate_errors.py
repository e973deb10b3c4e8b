from tonne.base.errors import Kind, TonneError


class CertificateNotFound(TonneError):
    """Whether there is none, or one that its account does not show to the public, is not said."""

    kind = Kind.NOT_FOUND
    code = "certificate_not_found"
    message = "There is no certificate here for everybody to see. Whoever holds one can check its number instead."
