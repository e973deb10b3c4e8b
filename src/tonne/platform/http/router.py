"""Finds the routes of a path: a dictionary for fixed paths, a tree of segments for paths with parameters.

A route's path is made of fixed segments and of parameters: `{name}` matches one segment, `{name}.json` one with this
ending, `{name:path}` at the end matches all that is left, slashes included. A fixed segment is preferred to a
parameter, and a parameter with an ending to one without. There is no backtracking.
"""

from collections.abc import Iterable

from tonne.platform.http.errors import RouteNotFound
from tonne.platform.http.route import Route


class Resource:
    """The routes of one path, by method. HEAD is answered by the route for GET."""

    __slots__ = ("below", "by_method")

    def __init__(self) -> None:
        self.by_method: dict[str, Route] = {}
        # The paths one segment below this one, by method: suggestions if this one does not support the method.
        self.below: dict[str, list[str]] = {}

    def add(self, route: Route) -> None:
        if route.method in self.by_method:
            raise ValueError(f"{route.method} {route.path} is in the table of routes twice")
        self.by_method[route.method] = route
        if route.method == "GET":
            self.by_method["HEAD"] = route

    @property
    def allow(self) -> str:
        """The value of the Allow header."""
        return ", ".join(sorted([*self.by_method, "OPTIONS"]))


class _Node:
    """One segment of the tree."""

    __slots__ = ("children", "endings", "parameter", "resource", "takes_rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        # Parameters with an ending, such as `.json`.
        self.endings: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.takes_rest = False
        self.resource: tuple[Resource, list[str]] | None = None


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed: dict[str, Resource] = {}
        self._root = _Node()
        for route in routes:
            self._add(route)
        for path, resource in self._fixed.items():
            if (parent := self._fixed.get(path.rpartition("/")[0])) is not None:
                for method in resource.by_method:
                    parent.below.setdefault(method, []).append(path)

    def find(self, path: str) -> tuple[Resource, dict[str, str]]:
        """The resource at a path that is still percent-encoded, and its parameters, encoded as well.

        An empty segment matches nothing: a proxy that protects `/metrics` would not recognise `//metrics`. Under `/v1/`
        one slash at the end is ignored.
        """
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed, {}
        node, values, matched = self._root, list[str](), 0
        segments = path.split("/")
        for position, segment in enumerate(segments):
            if position == 0:
                continue
            child = node.children.get(segment)
            if not segment and not (node.parameter and node.parameter.takes_rest):
                if position == len(segments) - 1 and path.startswith("/v1/"):
                    break
                raise RouteNotFound
            if child is None:
                child, value = _parameter(node, segment)
                if child is None:
                    raise RouteNotFound
                if child.takes_rest:
                    rest = "/".join(segments[matched + 1 :])
                    if not rest.strip("/"):
                        raise RouteNotFound
                    values.append(rest)
                    node = child
                    break
                values.append(value)
            node, matched = child, position
        if node.resource is None:
            raise RouteNotFound
        resource, names = node.resource
        return resource, dict(zip(names, values, strict=True))

    def _add(self, route: Route) -> None:
        node, names = self._root, list[str]()
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                name, _, ending = segment[1:].partition("}")
                name, _, kind = name.partition(":")
                names.append(name)
                if ending:
                    node = node.endings.setdefault(ending, _Node())
                else:
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
                    node.takes_rest = kind == "path"
            else:
                child = node.children.get(segment)
                if child is None:
                    child = node.children[segment] = _Node()
                node = child
        if node.resource is None:
            node.resource = Resource(), names
        if node.resource[1] != names:
            raise ValueError(f"{route.path} names its parameters differently from another route of the same path")
        node.resource[0].add(route)
        if not names:
            self._fixed[route.path] = node.resource[0]


def _parameter(node: _Node, segment: str) -> tuple[_Node | None, str]:
    """The parameter that matches a segment, and its value."""
    for ending, child in node.endings.items():
        if segment.endswith(ending) and segment != ending:
            return child, segment.removesuffix(ending)
    return node.parameter, segment
