"""Forms with files, the text of pages, and what the audit log has of an operator."""

import html
import re

import httpx

from tests.supply.retirements.shop import Shop
from tests.support.people import TOKEN, Person


async def upload(
    person: Person, page: str, path: str, /, *files: tuple[str, str, str], **fields: str
) -> httpx.Response:
    """Submit a form with files: each is the field, the file name and the content."""
    found = TOKEN.search((await person.get(page)).text)
    assert found is not None
    sent = [(field, (name, content.encode(), "text/csv")) for field, name, content in files]
    return await person.http.post(path, data={"form_token": found[1], **fields}, files=sent)


def words(answer: httpx.Response) -> str:
    """The text of a page, without tags."""
    main = answer.text.partition("<main")[2]
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", main)).replace("\u00a0", " "))
    return re.sub(r" ([.,:;])", r"\1", text)


def hidden(answer: httpx.Response, prefix: str) -> dict[str, str]:
    """The hidden fields of a form whose names begin so."""
    found = re.findall(rf'name="({prefix}[^"]+)" value="([^"]*)"', answer.text)
    return {name: html.unescape(value) for name, value in found}


async def actions_of_users(shop: Shop) -> list[str]:
    """What users have done, oldest first, without signing in."""
    rows = await shop.fetch("SELECT action FROM audit_log WHERE actor LIKE 'user:%' ORDER BY at, id")
    return [row["action"] for row in rows if not row["action"].startswith("user.")]
