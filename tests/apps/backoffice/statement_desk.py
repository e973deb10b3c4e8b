"""An operator uploads bank statements, and the worker reads and imports them."""

import httpx

from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import Billing
from tests.support.people import TOKEN, Person

LIVE = "/operator/live/money"


async def upload(person: Person, books: Billing, content: bytes, **fields: str) -> httpx.Response:
    found = TOKEN.search((await person.get(f"{LIVE}/inbox")).text)
    assert found is not None
    files = {"statement": ("november.xml", content, "application/xml")}
    answer = await person.http.post(f"{LIVE}/inbox", data={"form_token": found[1], **fields}, files=files)
    await books.run_jobs(books.services.import_uploads)
    return answer


async def import_lines(person: Person, books: Billing, *lines: Line) -> None:
    preview = (await upload(person, books, camt_file(lines))).headers["location"]
    await import_upload(person, books, preview)


async def import_upload(person: Person, books: Billing, preview: str) -> None:
    asked = (await person.submit(f"{preview}/import")).headers["location"]
    waiting = await person.get(asked)
    assert "The file is being imported" in waiting.text
    assert waiting.headers["refresh"] == "2"
    await books.run_jobs(books.services.import_uploads)
    assert (await person.get(asked)).headers["location"] == f"{LIVE}/inbox?done=statement_imported"
