"""`tonne urls rewrite`: stored orders follow the service to another address."""

import json

from tonne.selling.orders.rewrite_urls import rewrite_document

OLD, NEW = "https://old.example.com", "https://new.example.com"


def test_only_the_urls_of_the_service_are_changed() -> None:
    document = (
        b'{"id":"ord_1","certificate":"https://old.example.com/v1/c","public_certificate_url":null,'
        b'"metadata":{"url":"https://old.example.com/v1/c", "n":1.10},'
        b'"projects":[{"project_logo":"https://old.example.com/logo/x.png"},'
        b'{"project_logo":"https://old.example.community/y"}],'
        b'"bundles":[]}'
    )
    rewritten = rewrite_document(document, OLD, NEW)
    assert b'"metadata":{"url":"https://old.example.com/v1/c", "n":1.10}' in rewritten, "byte for byte"
    shown = json.loads(rewritten)
    assert shown["certificate"] == f"{NEW}/v1/c"
    logos = [project["project_logo"] for project in shown["projects"]]
    assert logos == [f"{NEW}/logo/x.png", "https://old.example.community/y"]
    assert list(shown) == list(json.loads(document))
    assert rewrite_document(rewritten, OLD, NEW) == rewritten
