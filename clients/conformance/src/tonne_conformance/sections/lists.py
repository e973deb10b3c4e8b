"""Sections 2.5 and 4.2: lists of orders."""

from typing import Any

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect, has, text
from tonne_conformance.installation import Document, Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import client_account, completed, linked, orders_of_link
from tonne_conformance.sections.orders import FIELDS

ENVELOPE = {
    "has_more": "has_more (boolean, required): Whether more elements exist after this set.",
    "next_cursor": "next_cursor (string, required): Value to pass as `after` for the next page.",
    "data": "data (array, required): Items ordered by creation date, newest first.",
}
LAST_PAGE = "When false, this set ends the list."
NULL_CURSOR = "next_cursor: … Null when has_more is false."
AFTER = "after: Cursor pointing to the start of the next page. When omitted, the first page is returned."
LIMIT = "limit (string, pattern `^\\d+$`): Maximum number of items, 1 to 100."
OF_LINK = "offset_link_id: When set, only orders belonging to that offset link are returned."
# Enough for three pages of two.
ORDERS = 6


def _list(service: Service, **params: str) -> Document:
    """A page of the client account, whose orders only the suite places."""
    account = _ordered(service)
    return service.get("/orders", params, headers=service.acting_as(account)).object()


def _ordered(service: Service) -> str:
    """The client account, with enough orders."""

    def make() -> str:
        account = client_account(service)
        for number in range(ORDERS):
            service.place(f"listed-{number}", account=account)
        return account

    return service.shared("ordered", make)


def _walk(service: Service, limit: str) -> list[Document]:
    """All pages from the first to the last."""

    def make() -> list[Document]:
        pages = [_list(service, limit=limit)]
        while pages[-1].get("has_more") and len(pages) < 100:
            pages.append(_list(service, limit=limit, after=str(pages[-1].get("next_cursor"))))
        return pages

    return service.shared(f"walk-{limit}", make)


def _three_pages(service: Service) -> list[Document]:
    def make() -> list[Document]:
        pages = [_list(service, limit="2")]
        for _ in range(2):
            pages.append(_list(service, limit="2", after=str(pages[-1].get("next_cursor"))))
        return pages

    return service.shared("three_pages", make)


def _ids(*pages: Document) -> list[Any]:
    return [order.get("id") for page in pages for order in page["data"]]


@check_each("2.5", ENVELOPE)
def each_member_of_the_envelope_is_there(name: str, service: Service) -> None:
    page = _list(service)
    has(page, name, page)


@check_each("2.5", ENVELOPE)
def each_member_of_the_last_page_is_there(name: str, service: Service) -> None:
    page = _walk(service, "100")[-1]
    has(page, name, page)


@check("2.5", ENVELOPE["has_more"])
def has_more_is_true_before_the_end(service: Service) -> None:
    page = _list(service, limit="1")
    equal(page.get("has_more"), True, page)


@check("2.5", LAST_PAGE)
def has_more_is_false_at_the_end(service: Service) -> None:
    page = _walk(service, "100")[-1]
    equal(page.get("has_more"), False, page)


@check("2.5", LAST_PAGE)
def a_list_that_fits_exactly_has_no_more(service: Service, receiver: Receiver) -> None:
    link_id = str(linked(service, receiver).last.get("offset_link_id"))
    count = str(len(orders_of_link(service, link_id, 1)))
    page = service.get("/orders", {"offset_link_id": link_id, "limit": count}).object()
    equal(page.get("has_more"), False, page)


@check("2.5", ENVELOPE["next_cursor"])
def the_cursor_is_a_string_before_the_end(service: Service) -> None:
    page = _list(service, limit="1")
    text(page.get("next_cursor"), page)


@check("2.5", NULL_CURSOR)
def the_cursor_is_null_at_the_end(service: Service) -> None:
    page = _walk(service, "100")[-1]
    equal(page.get("next_cursor"), None, page)


@check("2.5", ENVELOPE["data"])
def the_data_is_an_array(service: Service) -> None:
    page = _list(service)
    expect(isinstance(page.get("data"), list), "an array", page.get("data"), page)


@check("2.5", "data: Items ordered by creation date, newest first.")
def the_newest_comes_first(service: Service) -> None:
    page = _list(service, limit="100")
    times = [str(order.get("created_at")) for order in page["data"]]
    equal(times, sorted(times, reverse=True), page)


@check("4.2", "Returns the account's orders, most recent first.")
def the_most_recent_order_is_the_first_of_all_pages(service: Service) -> None:
    pages = _three_pages(service)
    times = [str(order.get("created_at")) for page in pages for order in page["data"]]
    equal(times, sorted(times, reverse=True), pages[-1])


@check("4.2", "Returns the account's orders, most recent first.")
def a_new_order_is_in_the_list(service: Service) -> None:
    account = _ordered(service)
    order = service.place("newest", account=account)
    page = _list(service, limit="100")
    expect(order["id"] in _ids(page), f"the order {order['id']}", _ids(page), page)


@check("4.2", "Returns the account's orders, most recent first.")
def orders_of_another_account_are_not_in_the_list(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    for page in _walk(service, "100"):
        expect(order["id"] not in _ids(page), f"no order {order['id']} of another account", _ids(page), page)


@check("4.2", AFTER)
def pages_do_not_overlap(service: Service) -> None:
    pages = _three_pages(service)
    ids = _ids(*pages)
    expect(len(ids) == len(set(ids)) == 6, "six different orders on three pages of two", ids, pages[-1])


@check("4.2", AFTER)
def pages_leave_nothing_out(service: Service) -> None:
    ids = _ids(*_three_pages(service))
    whole = _list(service, limit="100")
    all_ids = _ids(whole)
    start = all_ids.index(ids[0]) if ids[0] in all_ids else 0
    equal(all_ids[start : start + len(ids)], ids, whole)


@check("4.2", AFTER)
def a_walk_ends_and_finds_every_order_once(service: Service) -> None:
    pages = _walk(service, "7")
    ids = _ids(*pages)
    expect(len(ids) == len(set(ids)), "every order once", ids, pages[-1])
    placed = [service.find(service.key(f"listed-{n}"), _ordered(service)).object()["id"] for n in range(ORDERS)]
    expect(set(placed) <= set(ids), f"the orders {placed}", ids, pages[-1])


@check("4.2", AFTER)
def without_a_cursor_the_first_page_is_returned(service: Service) -> None:
    newest = service.place("first-page", account=_ordered(service))
    page = _list(service)
    known = {str(order.get("created_at")) for order in page["data"]}
    expect(max(known) >= str(newest["created_at"]), "the newest order on the first page", sorted(known), page)


@check("4.2", AFTER)
def a_cursor_that_was_never_given_is_refused(service: Service) -> None:
    service.get("/orders", {"after": "not-a-cursor"}).refused()


LIMITS = ("1", "2", "3", "100")


@check_each("4.2", dict.fromkeys(LIMITS, LIMIT))
def at_most_that_many_items_are_returned(name: str, service: Service) -> None:
    page = _list(service, limit=name)
    expect(0 < len(page["data"]) <= int(name), f"1 to {name} orders", len(page["data"]), page)


@check_each("4.2", dict.fromkeys(("1", "2", "3"), LIMIT))
def as_many_items_as_exist_are_returned(name: str, service: Service) -> None:
    page = _list(service, limit=name)
    equal(len(page["data"]), int(name), page)


@check_each("4.2", dict.fromkeys(("0", "101", "1000", "-1", "1.5", "ten", "0x10", " 1"), LIMIT))
def another_limit_is_refused(name: str, service: Service) -> None:
    service.get("/orders", {"limit": name}).refused()


@check("4.2", OF_LINK)
def the_orders_of_a_link_are_returned(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    page = service.get("/orders", {"offset_link_id": str(order["offset_link_id"])}).object()
    equal(_ids(page), [order["id"]], page)


@check("4.2", OF_LINK)
def another_link_has_no_orders(service: Service, receiver: Receiver) -> None:
    linked(service, receiver)
    link = service.post("/offset-links", {"title": "Conformance, without orders"}).object()
    page = service.get("/orders", {"offset_link_id": str(link["id"])}).object()
    equal(page["data"], [], page)


@check("4.2", "Response: paginated envelope (2.5) whose `data` holds Order objects.")
def an_item_is_the_whole_order(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    page = service.get("/orders", {"offset_link_id": str(order["offset_link_id"])}).object()
    for name in FIELDS:
        equal(page["data"][0].get(name), order.get(name), page)
