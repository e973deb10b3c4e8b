"""The router finds the route of a path."""

import pytest

from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.route import Access, Request, Response, Route
from tonne.platform.http.router import Router


async def endpoint(_: Request) -> Response:
    return Response(b"")


def route(path: str, method: str = "GET") -> Route:
    return Route(method=method, path=path, endpoint=endpoint, access=Access.PUBLIC, tag="", answers={200: None})


PATHS = (
    "/v1/orders",
    "/v1/orders/by-mass",
    "/v1/orders/by-key/{key:path}",
    "/v1/orders/{order_id}",
    "/v1/orders/{order_id}/lines/{line_id}",
    "/files/{number}",
    "/files/{number}.json",
)
ROUTER = Router([route(path) for path in PATHS])


def found(path: str) -> tuple[str, dict[str, str]] | None:
    try:
        resource, parameters = ROUTER.find(path)
    except RouteNotFound:
        return None
    return resource.by_method["GET"].path, parameters


def test_one_trailing_slash_is_ignored_under_v1_and_no_other() -> None:
    assert found("/v1/orders") == found("/v1/orders/") == ("/v1/orders", {})
    assert found("//v1/orders") is found("/v1//orders") is found("/v1/orders//") is None
    router = Router([route("/metrics")])
    for path in ("/metrics/", "//metrics"):
        with pytest.raises(RouteNotFound):
            router.find(path)


@pytest.mark.parametrize(
    "path",
    ["", "/", "*", "/v1/order", "/v1/Orders", "/v1/orders%2F", "/v1/orders/a/b", "/v1/a/orders"],
)
def test_other_paths_are_not_found(path: str) -> None:
    assert found(path) is None


def test_a_fixed_segment_is_preferred_to_a_parameter() -> None:
    assert found("/v1/orders/by-mass") == ("/v1/orders/by-mass", {})
    assert found("/v1/orders/by-mass/") == ("/v1/orders/by-mass", {})
    assert found("/v1/orders/by-mass2") == ("/v1/orders/{order_id}", {"order_id": "by-mass2"})


def test_a_parameter_with_an_ending_is_preferred_to_one_without() -> None:
    assert found("/files/7.json") == ("/files/{number}.json", {"number": "7"})
    assert found("/files/7.json.json") == ("/files/{number}.json", {"number": "7.json"})
    assert found("/files/7") == ("/files/{number}", {"number": "7"})
    # There is nothing before the ending.
    assert found("/files/.json") == ("/files/{number}", {"number": ".json"})


def test_a_parameter_is_one_segment_whatever_is_encoded_in_it() -> None:
    assert found("/v1/orders/a%2Fb") == ("/v1/orders/{order_id}", {"order_id": "a%2Fb"})
    assert found("/v1/orders/1/lines/%2F/") == (
        "/v1/orders/{order_id}/lines/{line_id}",
        {"order_id": "1", "line_id": "%2F"},
    )


@pytest.mark.parametrize("rest", ["a", "a/b", "a%2Fb", "a//b/", "/a", "//a", "a/../b", "%2F", "by-mass"])
def test_the_rest_of_a_path_keeps_its_slashes(rest: str) -> None:
    assert found(f"/v1/orders/by-key/{rest}") == ("/v1/orders/by-key/{key:path}", {"key": rest})


@pytest.mark.parametrize("path", ["/v1/orders/by-key", "/v1/orders/by-key/", "/v1/orders/by-key//"])
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
