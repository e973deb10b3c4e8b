"""The router finds the route of a path."""

import pytest

from tonne.http.errors import RouteNotFound
from tonne.http.route import Access, Request, Response, Route
from tonne.http.router import Router


async def endpoint(_: Request) -> Response:
    return Response(b"")


def route(path: str, method: str = "GET") -> Route:
    return Route(method=method, path=path, endpoint=endpoint, access=Access.PUBLIC, tag="", answers={200: None})


PATHS = (
    "/orders",
    "/orders/by-mass",
    "/orders/by-key/{key:path}",
    "/orders/{order_id}",
    "/orders/{order_id}/lines/{line_id}",
)
ROUTER = Router([route(path) for path in PATHS])


def found(path: str) -> tuple[str, dict[str, str]] | None:
    try:
        resource, parameters = ROUTER.find(path)
    except RouteNotFound:
        return None
    return resource.by_method["GET"].path, parameters


@pytest.mark.parametrize("path", ["/orders", "/orders/", "//orders", "/orders//"])
def test_repeated_and_trailing_slashes_are_ignored(path: str) -> None:
    assert found(path) == ("/orders", {})


@pytest.mark.parametrize(
    "path", ["", "/", "*", "/order", "/Orders", "/orders%2F", "/orders/a/b", "/orders/a/lines", "/a/orders"]
)
def test_other_paths_are_not_found(path: str) -> None:
    assert found(path) is None


def test_a_fixed_segment_is_preferred_to_a_parameter() -> None:
    assert found("/orders/by-mass") == ("/orders/by-mass", {})
    assert found("/orders/by-mass/") == ("/orders/by-mass", {})
    assert found("/orders/by-mass2") == ("/orders/{order_id}", {"order_id": "by-mass2"})


def test_a_parameter_is_one_segment_whatever_is_encoded_in_it() -> None:
    assert found("/orders/a%2Fb") == ("/orders/{order_id}", {"order_id": "a%2Fb"})
    assert found("/orders/1/lines/%2F/") == (
        "/orders/{order_id}/lines/{line_id}",
        {"order_id": "1", "line_id": "%2F"},
    )


@pytest.mark.parametrize("rest", ["a", "a/b", "a%2Fb", "a//b/", "/a", "//a", "a/../b", "%2F", "by-mass"])
def test_the_rest_of_a_path_keeps_its_slashes(rest: str) -> None:
    assert found(f"/orders/by-key/{rest}") == ("/orders/by-key/{key:path}", {"key": rest})


@pytest.mark.parametrize("path", ["/orders/by-key", "/orders/by-key/", "/orders/by-key//"])
def test_the_rest_of_a_path_is_not_empty(path: str) -> None:
    assert found(path) is None


def test_get_answers_head_and_allow_lists_every_method() -> None:
    router = Router([route("/links"), route("/links", "POST"), route("/links/{id}", "DELETE")])
    links, _ = router.find("/links")
    assert links.by_method["HEAD"] is links.by_method["GET"]
    assert links.allow == "GET, HEAD, OPTIONS, POST"
    link, _ = router.find("/links/1")
    assert link.allow == "DELETE, OPTIONS"


def test_a_duplicate_route_is_refused() -> None:
    with pytest.raises(ValueError, match="GET /a is in the table of routes twice"):
        Router([route("/a"), route("/a")])
    with pytest.raises(ValueError, match="names its parameters differently"):
        Router([route("/a/{x}"), route("/a/{y}", "POST")])
