from tonne.base.errors import Kind, TonneError


class SustainabilityPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="sustainability_page_not_found"):
    """Also for disabled pages: nobody can find out which slugs exist."""

    message = "There is no Sustainability page at this address."


class CertificateNotFound(TonneError, kind=Kind.NOT_FOUND, code="certificate_not_found"):
    """Also for certificates that their account does not publish."""

    message = "There is no public certificate at this address. If you have a certificate, check its number at /verify."


class SlugReserved(TonneError, kind=Kind.INVALID, code="slug_reserved"):
    message = "This slug is reserved. Choose another one."


class SlugTaken(TonneError, kind=Kind.CONFLICT, code="slug_taken"):
    message = "This slug belongs to another page, now or in the past. Choose another one."


class SlugLimitReached(TonneError, kind=Kind.CONFLICT, code="slug_limit_reached"):
    message = "This page already has 20 slugs, which is the limit. Go back to one of them."


class LogoInvalid(TonneError, kind=Kind.INVALID, code="logo_invalid"):
    message = "The logo must be a complete PNG, JPEG or WebP image of at most 96 KiB and 4096 pixels a side."
