"""Tells visits of people from requests of programs by the headers of the request alone. Nothing of them is stored."""

import re

from tonne.platform.http.route import Request

# Headers by which browsers mark pages that they load before anybody asks for them.
_PURPOSE_HEADERS = (b"sec-purpose", b"purpose", b"x-purpose", b"x-moz")
_AHEAD = ("prefetch", "prerender", "preview")
# Words in the documented names of search engines, of programs that make previews of links, and of HTTP clients.
# Not "cubot": that is a brand of phones.
_PROGRAMS = re.compile(
    r"(?<!cu)bot(?![a-z])|crawl|spider|slurp|preview|headless|lighthouse|inspectiontool|pagerenderer|mediapartners|"
    r"facebookexternalhit|facebookcatalog|meta-externalagent|whatsapp|vkshare|embedly|iframely|snippet|archiver|"
    r"googleother|google-read-aloud|feedfetcher|uptime|pingdom|"
    r"^(?:curl|wget|python|go-http-client|java/|okhttp|axios|node|libwww|ruby|php|httpie|apache-httpclient)",
    re.IGNORECASE,
)


def is_visit(request: Request) -> bool:
    """Whether a person opened the page, as far as the headers show it.

    False also if the visitor came from another of our pages: the page was opened before, or a member of the
    organisation opened it from the dashboard.
    """
    if request.method != "GET" or _header(request, b"sec-fetch-site") == "same-origin":
        return False
    if any(word in _header(request, name).lower() for name in _PURPOSE_HEADERS for word in _AHEAD):
        return False
    return _PROGRAMS.search(_header(request, b"user-agent")) is None


def _header(request: Request, name: bytes) -> str:
    return request.headers.get(name, b"").decode("latin-1")
