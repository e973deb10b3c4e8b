from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class SustainabilityPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="sustainability_page_not_found"):
    """Also for disabled pages: nobody can find out which slugs exist."""

    message = N_("There is no Sustainability page at this address.")


class CertificateNotFound(TonneError, kind=Kind.NOT_FOUND, code="certificate_not_found"):
    """Also for certificates that their account does not publish."""

    message = N_(
        "There is no public certificate at this address. If you have a certificate, check its number at /verify."
    )


class SlugReserved(TonneError, kind=Kind.INVALID, code="slug_reserved"):
    message = "This slug is reserved. Choose another one."


class SlugTaken(TonneError, kind=Kind.CONFLICT, code="slug_taken"):
    message = "This slug belongs to another page, now or in the past. Choose another one."


class SlugLimitReached(TonneError, kind=Kind.CONFLICT, code="slug_limit_reached"):
    message = "This page already has 20 slugs, which is the limit. Go back to one of them."


class LogoInvalid(TonneError, kind=Kind.INVALID, code="logo_invalid"):
    message = "The logo must be a complete PNG, JPEG or WebP image of at most 96 KiB and 4096 pixels a side."


class UnsupportedImageFormat(TonneError, kind=Kind.INVALID, code="unsupported_image_format"):
    message = "The logo must be a complete PNG, JPEG or WebP image of at most 96 KiB and 4096 pixels a side."


class AccountLogoNotFound(TonneError, kind=Kind.NOT_FOUND, code="account_logo_not_found"):
    message = "There is no such logo. The account has another one now, or none."


class SustainabilityPageExists(TonneError, kind=Kind.CONFLICT, code="sustainability_page_exists"):
    message = "The account has a Sustainability page already. Change it with PUT."


class SlugNotUnique(TonneError, kind=Kind.CONFLICT, code="sustainability_page_slug_not_unique"):
    message = "This slug belongs to another page, now or in the past. Choose another one."
