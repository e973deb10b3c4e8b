"""The files that pages are made of."""

from tonne.http.docs import AssetNotFound
from tonne.http.route import Access, Answer, Call, Route
from tonne.pages.render import asset


async def read_icon(_: Call) -> Answer:
    """What browsers ask for of their own accord, when they show a PDF."""
    return _found("mark.svg")


async def read_asset(call: Call) -> Answer:
    return _found(call.path("name"))


def _found(name: str) -> Answer:
    answer = asset(name)
    if answer is None:
        raise AssetNotFound
    return answer


def asset_routes() -> list[Route]:
    return [
        Route(
            method="GET",
            path=path,
            endpoint=endpoint,
            access=Access.PUBLIC,
            summary=summary,
            tag="Pages",
            answers={200: None},
            errors=(AssetNotFound,),
        )
        for path, endpoint, summary in (
            ("/assets/{name:str}", read_asset, "A file of the pages"),
            ("/favicon.ico", read_icon, "The mark in the browser's tab"),
        )
    ]
