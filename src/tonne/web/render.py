"""Renders templates: escaped, in the visitor's locale, with a strict content security policy."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from tonne.base.errors import Kind, TonneError
from tonne.base.settings import Settings
from tonne.http.errors import STATUS
from tonne.http.route import Request, Response
from tonne.web import visitor

HTML = b"text/html; charset=utf-8"
# No inline scripts or styles, no other hosts, no framing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MEDIA_TYPES = {"css": b"text/css; charset=utf-8", "js": b"text/javascript; charset=utf-8", "svg": b"image/svg+xml"}
_TITLES = {
    Kind.NOT_FOUND: "Page not found",
    Kind.INVALID: "That didn't work",
    Kind.CONFLICT: "That isn't possible right now",
    Kind.RATE_LIMITED: "Too many requests",
    Kind.UNAVAILABLE: "Temporarily unavailable",
}
_INTERNAL_ERROR = "Something went wrong on our side. Reload the page in a moment."


class Renderer:
    def __init__(self, settings: Settings, packages: Sequence[str] = ()) -> None:
        """`packages` are the Python packages that have a folder `templates`, in addition to `tonne.web`."""
        self._seller_name = settings.seller_name
        self._base_url = settings.base_url
        self._templates = Environment(
            loader=ChoiceLoader([PackageLoader(package) for package in ("tonne.web", *packages)]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for format_ in (visitor.money, visitor.tonnes, visitor.number, visitor.percent, visitor.day, visitor.month):
            self._templates.filters[format_.__name__] = _localised(format_)
        self._templates.globals.update(asset=asset_url)

    def page(
        self,
        request: Request | None,
        template: str,
        /,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> Response:
        """Not cacheable unless `headers` say otherwise."""
        language = "" if request is None else request.headers.get(b"accept-language", b"").decode("latin-1")
        context = {
            "locale": visitor.locale_of(language),
            "seller_name": self._seller_name,
            "base_url": self._base_url,
            "test_mode": False,
            "refresh_s": None,
        }
        body = self._templates.get_template(template).render({**context, **values})
        safe = {
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Vary": "Accept-Language",
        }
        return Response(body.encode(), status, HTML, {**safe, **(headers or {})})

    def error(self, refusal: TonneError, request_id: str) -> Response:
        """Render an error as a page. Internal errors show the request id."""
        status = STATUS[refusal.kind]
        return self.page(
            None,
            "error.html",
            status=status,
            headers=refusal.headers,
            title=_TITLES.get(refusal.kind, "Something went wrong"),
            message=_INTERNAL_ERROR if status == 500 else str(refusal),
            request_id=request_id if status >= 500 else None,
        )


def see_other(address: str) -> Response:
    """Redirect after a form, so that reloading the next page does not submit it again."""
    return Response(b"", 303, headers={"Location": address, "Cache-Control": "no-store"})


def asset(name: str) -> Response | None:
    """A static file. Its URL changes with its content, so browsers may cache it for ever."""
    body = _files().get(name)
    if body is None:
        return None
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(body, media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=kept)


def asset_url(name: str) -> str:
    return f"/assets/{name}?v={hashlib.sha256(_files()[name]).hexdigest()[:12]}"


@cache
def _files() -> dict[str, bytes]:
    folder = resources.files("tonne.web") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _MEDIA_TYPES}


def _localised(format_: Callable[..., str]) -> Callable[..., str]:
    """A filter that passes the visitor's locale as the last argument."""

    @pass_context
    def template_filter(context: Context, *values: Any) -> str:
        return format_(*values, context["locale"])

    return template_filter
