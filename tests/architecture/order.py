"""The order of areas and packages. This literal is the only place that states it."""

# A package may import, and read tables, only of itself and of packages before it.
ORDER: dict[str, dict[str, str]] = {
    "platform": {
        "values": "ids, amounts, scope, actor, clock, errors: values without I/O",
        "settings": "settings from the environment or a file",
        "process": "caches, timers, files of one process; logs, metrics and traces in `telemetry`",
        "db": "connection pool, transactions, batches of rows; the embedded server, migrations",
        "http": "routing, authentication, strict JSON, errors; OpenAPI, rate limits, the request log",
        "web": "what HTML pages share: templates, forms, languages, static files",
        "events": "the event log: gapless, in commit order; the audit log",
        "documents": "PDF, mail and its outbox, CSV files",
        "keys": "sealing secrets; keys with which the operator signs documents, credentials and the log",
        "jobs": "the loop that runs the jobs of the worker",
    },
    "selling": {
        "accounts": "organisations, accounts, API keys, tax profiles",
        "users": "people who sign in: passwords, second factor, sessions, roles, invitations; approvals by two people",
        "catalogue": "projects, bundles, exchange rates, their import, pictures, pricing",
        "estimates": "emission calculations: factors, geography, freight, purchases, all other kinds",
        "orders": "placing, reading, listing; the transition table; quotes, totals, analytics",
    },
    "supply": {
        "transparency": "the public log of retirements and certificates: statements, Merkle tree, checkpoints",
        "stock": "lots and their import, parcels and shares, pooled units, supply that is held",
        "certificates": "certificates, their PDF, verifiable credentials, audit packs, proofs",
        "retirements": "allocation, completing orders, confirmations of registries, invalid lots",
        "registries": "asking registries to retire credits, and comparing their books with ours; simulated registries",
    },
    "money": {
        "cards": "charges, stored cards, card gateways (simulated, Stripe)",
        "bank": "bank transfers and what goes back, formats of statements and payments",
        "invoices": "invoices, reminders, credit notes, their originals, Factur-X, invoices that a card pays",
        "refunds": "refunds, cancelling an order, disputes, what the gateway has on record of a charge",
        "receipts": "receipts and the mails about payments and refunds",
        "accounting": "the double-entry journal, matching of bank lines, payouts, reports",
    },
    "channels": {
        "webhooks": "registrations, signing, address checks, delivery",
        "public_pages": "the Sustainability page, certificate pages, verification, the start page",
        "checkout": "offset links, the checkout pages, the page of an order, certificate mails",
    },
    "apps": {
        "privacy": "exporting and erasing the data of a person; removing and archiving old rows",
        "lookup": "finding orders, what they wait for, `tonne doctor`",
        "dashboard": "signing in, and what all pages for signed-in people share",
        "workspace": "the pages of one organisation",
        "backoffice": "the pages of the operator",
        "wiring": "constructs all parts and connects them; the lists of routes and jobs",
        "cli": "the `tonne` command",
    },
}
PACKAGES = tuple(f"{area}/{name}" for area, names in ORDER.items() for name in names)


def position(package: str) -> int:
    return PACKAGES.index(package)


def packages_table() -> str:
    """For docs/architecture.md."""
    rows = [
        f"| `{area}` | `{name}` | {responsible_for} |"
        for area, names in ORDER.items()
        for name, responsible_for in names.items()
    ]
    return "\n".join(["| Area | Package | Responsible for |", "|---|---|---|", *rows, ""])
