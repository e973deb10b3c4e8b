from tonne.base.errors import Kind, TonneError


class SustainabilityPageNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "sustainability_page_not_found"
    message = "There is no Sustainability page at this address."


class SlugReserved(TonneError):
    kind = Kind.INVALID
    code = "slug_reserved"
    message = "This slug is kept for the service itself: choose another one."


class SlugTaken(TonneError):
    kind = Kind.CONFLICT
    code = "slug_taken"
    message = "This slug is, or was, that of another page: choose another one."


class SlugLimitReached(TonneError):
    kind = Kind.CONFLICT
    code = "slug_limit_reached"
    message = "This page has had 20 slugs, and keeps them all: go back to one of them."


class LogoInvalid(TonneError):
    kind = Kind.INVALID
    code = "logo_invalid"
    message = "The logo must be a whole PNG, JPEG or WebP image of at most 96 KiB and 4096 pixels a side."
