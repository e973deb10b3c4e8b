from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class SustainabilityPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="sustainability_page_not_found"):
    """There is no Sustainability page at this URL, or it is not enabled; the response, a page, does not say which.

    Check the URL, or enable the page with `PUT /v1/sustainability-page`.

    Also for disabled pages: nobody can find out which slugs exist.
    """

    message = N_("There is no Sustainability page at this address.")


class CertificateNotFound(TonneError, kind=Kind.NOT_FOUND, code="certificate_not_found"):
    """There is no certificate with this number, or its account does not publish it; the response, a page, does not say
    which.

    Check the number at `/verify`, or publish certificates on the Sustainability page.

    Also for certificates that their account does not publish.
    """

    message = N_(
        "There is no public certificate at this address. If you have a certificate, check its number at /verify."
    )


class ProjectPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="project_page_not_found"):
    """There is no project with this name in URLs in the catalogue; the response is a page.

    Find the project with `GET /v1/projects`; its `slug` is the end of the address.
    """

    message = N_("There is no project at this address.")


class SlugReserved(TonneError, kind=Kind.INVALID, code="slug_reserved"):
    """The slug of a Sustainability page is reserved, such as `admin`.

    Choose another one.
    """

    message = "This slug is reserved. Choose another one."


class SlugTaken(TonneError, kind=Kind.CONFLICT, code="slug_taken"):
    """The slug is or was used by another Sustainability page of this mode.

    Choose another one.
    """

    message = "This slug belongs to another page, now or in the past. Choose another one."


class SlugLimitReached(TonneError, kind=Kind.CONFLICT, code="slug_limit_reached"):
    """The Sustainability page has had 20 slugs, all of which stay reserved for it.

    Use one of them again.
    """

    message = "This page already has 20 slugs, which is the limit. Go back to one of them."


class SustainabilityPageExists(TonneError, kind=Kind.CONFLICT, code="sustainability_page_exists"):
    """A Sustainability page is created for an account that has one.

    Change it with `PUT`.
    """

    message = "The account has a Sustainability page already. Change it with PUT."


class SlugNotUnique(TonneError, kind=Kind.CONFLICT, code="sustainability_page_slug_not_unique"):
    """The same, with `/v1/sustainability-pages`.

    Choose another one.
    """

    message = "This slug belongs to another page, now or in the past. Choose another one."
