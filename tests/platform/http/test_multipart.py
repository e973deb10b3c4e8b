"""Forms with files."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonne.platform.http.errors import FormInvalid
from tonne.platform.http.multipart import parse_multipart

TYPE = b"multipart/form-data; boundary=xyz"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)


@settings(max_examples=25)
@given(TEXTS, st.binary(max_size=200))
def test_what_a_client_sends_is_read_unchanged(value: str, content: bytes) -> None:
    request = httpx.Request(
        "POST", "http://tonne.test", data={"note": value}, files={"file": ("bank\\march.csv", content)}
    )
    form = parse_multipart(request.headers["content-type"].encode(), request.read())
    assert form.fields == {"note": [value]}
    assert (form.files["file"].name, form.files["file"].content) == ("march.csv", content)


def test_a_file_field_without_a_file_is_left_out() -> None:
    body = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--xyz--\r\n'
    assert parse_multipart(TYPE, body).files == {}


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        (b"multipart/form-data", b"--xyz--\r\n"),
        (TYPE, b""),
        (TYPE, b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n1'),
        (TYPE, b"--xyz\r\nContent-Disposition: form-data\r\n\r\n1\r\n--xyz--\r\n"),
        (TYPE, b"--xyz\r\n\r\n1\r\n--xyz--\r\n"),
        (TYPE, b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--xyz--\r\n'),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(type_: bytes, body: bytes) -> None:
    with pytest.raises(FormInvalid):
        parse_multipart(type_, body)
