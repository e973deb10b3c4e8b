"""What crawlers may read: the public pages, but no page of a customer or a signed-in person."""

from tonne.platform.http.route import Request, Response

# Pages with `noindex` that crawlers may read to find that out are not in this list.
PRIVATE = ("/v1/", "/checkout/", "/o/", "/card/", "/dashboard", "/operator", "/gateways/", "/metrics", "/health/")


async def robots_txt(_: Request) -> Response:
    """Which pages crawlers may read."""
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in PRIVATE), "Allow: /"]
    body = "".join(f"{line}\n" for line in lines).encode()
    return Response(body, media_type=b"text/plain; charset=utf-8", headers={"Cache-Control": "public, max-age=86400"})
