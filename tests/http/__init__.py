# ruff: noqa: A005 - named after the room that it tests; it is only ever imported as tests.http
