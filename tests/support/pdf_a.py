"""What of PDF/A-3b (ISO 19005-3) can be checked without a validator of all of it: every object of a file is read."""

import io
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pypdf
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, StreamObject

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_ID = "{http://www.aiim.org/pdfa/ns/id/}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_FORBIDDEN_ACTIONS = {"/Launch", "/Sound", "/Movie", "/ResetForm", "/ImportData", "/JavaScript", "/Hide", "/SetState"}
_INVISIBLE, _HIDDEN, _PRINT, _NO_VIEW = 1, 2, 4, 32


def breaches(pdf: bytes) -> list[str]:
    """What PDF/A-3b does not allow in this file, of what is checked here."""
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    root: Any = reader.trailer["/Root"]
    return [*_of_file(pdf, reader), *_of_metadata(reader, root), *_of_colours(root), *_of_objects(reader, root)]


def _of_file(pdf: bytes, reader: pypdf.PdfReader) -> Iterator[str]:
    comment = pdf.split(b"\n", 2)[1]
    if not pdf.startswith(b"%PDF-1.") or comment[:1] != b"%" or min(comment[1:5]) < 128:
        yield "the header does not say that the file is binary"
    if "/ID" not in reader.trailer:
        yield "the file has no id"
    if "/Encrypt" in reader.trailer:
        yield "the file is encrypted"


def _of_metadata(reader: pypdf.PdfReader, root: Any) -> Iterator[str]:
    if "/Metadata" not in root:
        yield "the file has no metadata"
        return
    stream = root["/Metadata"].get_object()
    if "/Filter" in stream:
        yield "the metadata are compressed"
    described = ET.fromstring(stream.get_data().strip(b"\0"))  # noqa: S314 - our own file
    claimed = [described.findtext(f".//{_ID}{name}") for name in ("part", "conformance")]
    if claimed != ["3", "B"]:
        yield f"the metadata claim {claimed}"
    information: Any = reader.trailer.get("/Info", {})
    title = described.findtext(f".//{_DC}title/{_RDF}Alt/{_RDF}li")
    author = described.findtext(f".//{_DC}creator/{_RDF}Seq/{_RDF}li")
    if (information.get("/Title"), information.get("/Author")) != (title, author):
        yield "the metadata and the document information differ"


def _of_colours(root: Any) -> Iterator[str]:
    for intent in root.get("/OutputIntents", []):
        profile = intent.get_object()["/DestOutputProfile"].get_object()
        data = profile.get_data()
        if intent.get_object()["/S"] == "/GTS_PDFA1" and data[36:40] == b"acsp" and data[16:20] == b"RGB ":
            if int.from_bytes(data[:4]) == len(data) and profile["/N"] == 3:
                return
            yield "the colour profile is incomplete"
    yield "the file names no colour profile"


def _of_objects(reader: pypdf.PdfReader, root: Any) -> Iterator[str]:
    associated = {_place(each) for each in root.get("/AF", [])}
    numbers = {number for table in (reader.xref, {0: reader.xref_objStm}) for part in table.values() for number in part}
    for number in sorted(numbers - {0}):
        value = reader.get_object(IndirectObject(number, 0, reader))
        for each in _dictionaries(value):
            yield from (f"object {number}: {said}" for said in _of_dictionary(each))
            if each.get("/Type") == "/Filespec" and (number, 0) not in associated:
                yield f"object {number}: the embedded file is not associated with the document"
    form: Any = root.get("/AcroForm", {})
    if form and ("/XFA" in form.get_object() or form.get_object().get("/NeedAppearances")):
        yield "the form has to be drawn by the reader"
    if {"/OpenAction", "/AA", "/Requirements"} & set(root):
        yield "the document acts by itself"


def _of_dictionary(each: Any) -> Iterator[str]:
    kind = each.get("/Type")
    if isinstance(each, StreamObject) and {"/F", "/FFilter", "/FDecodeParms"} & set(each):
        yield "the stream is in another file"
    if "LZW" in str(each.get("/Filter", "")) or "/Crypt" in str(each.get("/Filter", "")):
        yield "the stream is compressed in a forbidden way"
    if kind == "/FontDescriptor" and not any(f"/FontFile{name}" in each for name in ("", "2", "3")):
        yield f"the font {each.get('/FontName')} is not embedded"
    if kind == "/Font" and each["/Subtype"] not in {"/Type0", "/Type3"} and "/FontDescriptor" not in each:
        yield f"the font {each.get('/BaseFont')} is not embedded"
    if each.get("/S") in _FORBIDDEN_ACTIONS or "/AA" in each:
        yield "a forbidden action"
    if kind == "/Annot" or "/Rect" in each:
        yield from _of_annotation(each)
    if kind == "/Filespec":
        file = each["/EF"]["/F"].get_object()
        if not {"/F", "/UF", "/AFRelationship"} <= set(each) or "/" not in str(file.get("/Subtype", ""))[1:]:
            yield "the embedded file does not say what it is"
        if "/ModDate" not in file.get("/Params", {}):
            yield "the embedded file has no date"


def _of_annotation(each: Any) -> Iterator[str]:
    flags = int(each.get("/F", 0))
    if not flags & _PRINT or flags & (_INVISIBLE | _HIDDEN | _NO_VIEW):
        yield f"the annotation has the flags {flags}"
    left, bottom, right, top = (float(value) for value in each["/Rect"])
    if each["/Subtype"] != "/Link" and "/AP" not in each and (left, bottom) != (right, top):
        yield "the annotation has no appearance"


def _dictionaries(value: Any) -> Iterator[Any]:
    """The dictionaries of an object, without those of other objects."""
    if isinstance(value, DictionaryObject):
        yield value
        parts = [value.raw_get(key) for key in value]
    else:
        parts = list(value) if isinstance(value, ArrayObject) else []
    for part in parts:
        if not isinstance(part, IndirectObject):
            yield from _dictionaries(part)


def _place(reference: Any) -> tuple[int, int]:
    return (reference.idnum, reference.generation) if isinstance(reference, IndirectObject) else (0, 0)
