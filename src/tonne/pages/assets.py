"""The files that pages are made of."""

from tonne.base.errors import TonneError
from tonne.http.docs import AssetNotFound
from tonne.http.route import Access, Answer, Call, Route
from tonne.pages.render import asset


async def read_asset(call: Call) -> Answer:
    answer = asset(call.path("name"))
    if answer is None:
        raise AssetNotFound
    return answer


def asset_routes() -> list[Route]:
    errors: tuple[type[TonneError], ...] = (AssetNotFound,)
    return [
        Route(
            method="GET",
            path="/assets/{name:str}",
            endpoint=read_asset,
            access=Access.PUBLIC,
            summary="A file of the pages",
            tag="Pages",
            answers={200: None},
            errors=errors,
        )
    ]
