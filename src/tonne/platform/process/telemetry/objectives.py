"""The groups of routes that have an objective of their own, as a label of the request metrics.

The objectives are in `deploy/prometheus/alerts.yml`. Paths that are asked for by machines of the operator have none.
"""

NO_OBJECTIVE = "none"
_UNMATCHED = "unmatched"
# The group of what changes something, by the segment after /v1. What only reads is in the group `read`.
_CHANGES = {
    **dict.fromkeys(("orders", "checkouts", "test-helpers"), "order"),
    **dict.fromkeys(("estimates", "quotes"), "estimate"),
    **dict.fromkeys(("accounts", "analytics", "api-keys", "bundle-selections", "offset-links"), "manage"),
    **dict.fromkeys(("persons", "sustainability-page", "sustainability-pages", "webhooks"), "manage"),
}
# By the first segment of other paths.
_PAGES = {
    **dict.fromkeys(("health", "metrics", _UNMATCHED), NO_OBJECTIVE),
    **dict.fromkeys(("card", "checkout", "gateways", "o", "offset"), "pay"),
    **dict.fromkeys(("", ".well-known", "apple-touch-icon.png", "assets", "certificates", "credentials"), "pages"),
    **dict.fromkeys(("dashboard", "docs", "favicon.ico", "images", "log", "logo", "openapi.json", "pictures"), "pages"),
    **dict.fromkeys(("find-orders", "operator", "projects", "robots.txt", "social", "sustainability"), "pages"),
    **dict.fromkeys(("verify", "widget"), "pages"),
}


def objective_of(method: str, path: str) -> str:
    """The group of a route. A test demands one of every route: the metrics of a request never fail it."""
    first, _, rest = path.removeprefix("/").partition("/")
    if first != "v1":
        return _PAGES.get(first, NO_OBJECTIVE)
    if method in {"GET", "HEAD"}:
        return "read"
    return "estimate" if path.endswith("/quote") else _CHANGES.get(rest.partition("/")[0], NO_OBJECTIVE)
