"""Sections 2.5, 4.2 and 8: lists of orders."""

from tests.mutants.mutant import Mutant

ENVELOPE = "platform/http/lists.py"
PAGING = "platform/values/paging.py"
STORE = "selling/orders/read_store.py"
ENDPOINTS = "selling/orders/endpoints.py"
HEAD = """b'{"has_more":%b,"next_cursor":%b,"data":['"""
MORE = 'more = b"false" if next_cursor is None else b"true"'
PAGE = "ORDER BY created_at DESC, id DESC LIMIT $4) AS page"
ONE_PAGE = "WHERE account_id = $1 AND (created_at, id) < ($2, $3)\n"

MUTANTS = [
    *(
        Mutant(
            f"a list without {name}",
            ENVELOPE,
            HEAD,
            HEAD.replace(name, f"{name}_"),
            f"lists.each_member_of_the_envelope_is_there.{name}",
        )
        for name in ("has_more", "next_cursor", "data")
    ),
    Mutant("there is always more", ENVELOPE, MORE, 'more = b"true"', "lists.has_more_is_false_at_the_end"),
    Mutant("there is never more", ENVELOPE, MORE, 'more = b"false"', "lists.has_more_is_true_before_the_end"),
    Mutant(
        "has_more is a text",
        ENVELOPE,
        MORE,
        """more = b'"false"' if next_cursor is None else b'"true"'""",
        "lists.has_more_is_false_at_the_end",
    ),
    Mutant(
        "an empty cursor at the end",
        ENVELOPE,
        'cursor = b"null" if',
        """cursor = b'""' if""",
        "lists.the_cursor_is_null_at_the_end",
    ),
    Mutant(
        "no cursor before the end",
        ENVELOPE,
        """b'"%b"' % next_cursor.encode()""",
        'b"null"',
        "lists.the_cursor_is_a_string_before_the_end",
    ),
    Mutant("the oldest first", STORE, PAGE, PAGE.replace("DESC", "ASC"), "lists.the_newest_comes_first"),
    Mutant(
        "the oldest first, from page to page",
        STORE,
        PAGE,
        PAGE.replace("DESC", "ASC"),
        "lists.the_most_recent_order_is_the_first_of_all_pages",
    ),
    Mutant(
        "orders of all accounts",
        STORE,
        ONE_PAGE,
        "WHERE $1 <> '' AND (created_at, id) < ($2, $3)\n",
        "lists.orders_of_another_account_are_not_in_the_list",
    ),
    Mutant("a cursor that repeats", STORE, ONE_PAGE, ONE_PAGE.replace("<", "<="), "lists.pages_do_not_overlap"),
    Mutant(
        "a cursor that leaves one out",
        STORE,
        PAGE,
        PAGE.replace("LIMIT $4", "LIMIT $4 OFFSET CASE WHEN $2 < now() + interval '1 year' THEN 1 ELSE 0 END"),
        "lists.pages_leave_nothing_out",
    ),
    Mutant(
        "any cursor is accepted",
        PAGING,
        'raise CursorInvalid(field="after") from error',
        "return START",
        "lists.a_cursor_that_was_never_given_is_refused",
    ),
    Mutant(
        "a list starts at the end",
        PAGING,
        "    if text is None:\n        return START",
        '    if text is None:\n        return Position(_EPOCH, "")',
        "lists.without_a_cursor_the_first_page_is_returned",
    ),
    Mutant("a limit of 101", PAGING, "MAX_LIMIT = 100\n", "MAX_LIMIT = 101\n", "limits.a_limit_of_101_is_refused"),
    Mutant("a limit of 1000", PAGING, "MAX_LIMIT = 100\n", "MAX_LIMIT = 1000\n", "lists.another_limit_is_refused.1000"),
    Mutant("a limit of 99", PAGING, "MAX_LIMIT = 100\n", "MAX_LIMIT = 99\n", "limits.a_limit_of_100_is_accepted"),
    Mutant("a limit of 0", PAGING, "not 1 <= int(text)", "not 0 <= int(text)", "lists.another_limit_is_refused.0"),
    Mutant(
        "one order too many",
        PAGING,
        "    return int(text)",
        "    return int(text) + 1",
        "limits.a_limit_of_1_is_accepted",
    ),
    Mutant(
        "at most two orders",
        PAGING,
        "    return int(text)",
        "    return min(int(text), 2)",
        "lists.as_many_items_as_exist_are_returned.3",
    ),
    Mutant(
        "the link does not matter",
        ENDPOINTS,
        "if requested != OrderFilter():",
        "if False:",
        "lists.another_link_has_no_orders",
    ),
    Mutant(
        "orders without a currency in the list of a link",
        ENDPOINTS,
        'b",".join(found.documents)',
        """b",".join(each.replace(b'"currency"', b'"money"') for each in found.documents)""",
        "lists.an_item_is_the_whole_order",
    ),
]
