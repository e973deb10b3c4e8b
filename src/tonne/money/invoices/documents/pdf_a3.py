"""Marks a PDF/A-3 file with an embedded XML invoice as Factur-X."""

import re

from lxml import etree

FILE_NAME = "factur-x.xml"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_EXTENSION = "http://www.aiim.org/pdfa/ns/extension/"
_SCHEMA = "http://www.aiim.org/pdfa/ns/schema#"
_PROPERTY = "http://www.aiim.org/pdfa/ns/property#"
_FX = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
_VALUES = {
    "DocumentFileName": (FILE_NAME, "The name of the embedded XML document"),
    "DocumentType": ("INVOICE", "The type of the hybrid document in capital letters, e.g. INVOICE or ORDER"),
    "Version": ("1.0", "The actual version of the standard applying to the embedded XML document"),
    "ConformanceLevel": ("EN 16931", "The conformance level of the embedded XML document"),
}


def mark_as_factur_x(pdf: bytes) -> bytes:
    """Add the properties of Factur-X to the metadata (XMP) of a file that typst has made.

    The stream is replaced in place: reading and writing the whole file with a library takes as long as rendering it.
    """
    found = _METADATA.search(pdf)
    if found is None:
        raise ValueError("the file has no metadata")
    start, length = found.end(), int(found[2])
    xmp = _extend(pdf[start : start + length])
    head = b"%b 0 obj\n<</Length %d/Type/Metadata/Subtype/XML>>\nstream\n" % (found[1], len(xmp))
    body = pdf[: found.start()] + head + xmp + pdf[start + length :]
    return _with_moved_objects(body, found.start(), len(body) - len(pdf))


_METADATA = re.compile(rb"(?<=\n)(\d+) 0 obj\n<</Length (\d+)/Type/Metadata/Subtype/XML>>\nstream\n")
_TRAILER = re.compile(rb"xref\n0 \d+\n((?:\d{10} \d{5} [nf]\r\n)+)(trailer\n.*\nstartxref\n)(\d+)\n%%EOF\Z", re.DOTALL)
_ENTRY = re.compile(rb"(\d{10}) (\d{5}) n\r\n")


def _with_moved_objects(pdf: bytes, after: int, by: int) -> bytes:
    """With the places of the objects after `after`, which have moved, in the table at the end."""
    found = _TRAILER.search(pdf, pdf.rindex(b"\nxref\n"))
    if found is None:
        raise ValueError("the file has no table of its objects")

    def moved(entry: re.Match[bytes]) -> bytes:
        place = int(entry[1])
        return b"%010d %b n\r\n" % (place + by if place > after else place, entry[2])

    entries = _ENTRY.sub(moved, found[1])
    return b"%b%b%b%d\n%%%%EOF" % (pdf[: found.start(1)], entries, found[2], int(found[3]) + by)


def _extend(xmp: bytes) -> bytes:
    """The file is ours, but nothing in it may load anything: titles contain names that others chose."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    tree = etree.fromstring(xmp, parser).getroottree()
    rdf = tree.find(f".//{{{_RDF}}}RDF")
    if rdf is None:
        raise ValueError("the metadata have no RDF")
    bag = rdf.find(f".//{{{_EXTENSION}}}schemas/{{{_RDF}}}Bag")
    if bag is None:
        description = _add(rdf, _RDF, "Description", nsmap={"pdfaExtension": _EXTENSION})
        description.set(f"{{{_RDF}}}about", "")
        bag = _add(_add(description, _EXTENSION, "schemas"), _RDF, "Bag")
    schema = _resource(bag)
    _add(schema, _SCHEMA, "schema", "Factur-X PDFA Extension Schema")
    _add(schema, _SCHEMA, "namespaceURI", _FX)
    _add(schema, _SCHEMA, "prefix", "fx")
    properties = _add(_add(schema, _SCHEMA, "property"), _RDF, "Seq")
    values = _add(rdf, _RDF, "Description", nsmap={"fx": _FX})
    values.set(f"{{{_RDF}}}about", "")
    for name, (value, meaning) in _VALUES.items():
        entry = _resource(properties)
        _add(entry, _PROPERTY, "name", name)
        _add(entry, _PROPERTY, "valueType", "Text")
        _add(entry, _PROPERTY, "category", "external")
        _add(entry, _PROPERTY, "description", meaning)
        _add(values, _FX, name, value)
    return etree.tostring(tree, encoding="UTF-8", xml_declaration=False)


def _resource(parent: etree._Element) -> etree._Element:
    entry = _add(parent, _RDF, "li", nsmap={"pdfaSchema": _SCHEMA, "pdfaProperty": _PROPERTY})
    entry.set(f"{{{_RDF}}}parseType", "Resource")
    return entry


def _add(
    parent: etree._Element, namespace: str, name: str, text: str | None = None, *, nsmap: dict[str, str] | None = None
) -> etree._Element:
    element = etree.SubElement(parent, f"{{{namespace}}}{name}", nsmap=nsmap)
    element.text = text
    return element
