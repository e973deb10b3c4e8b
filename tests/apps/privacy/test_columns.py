"""Every column that can hold a text is erased, or holds no data of a customer, or is kept for a reason.

A new column fails this test: erase it in `apps.privacy`, or say here why it needs no erasure.
"""

from tests.apps.privacy.everywhere import list_columns
from tonne.platform.db.database import Database

TEXTS = {"text", "text[]", "bytea", "jsonb", "json"}

# Overwritten by an erasure, if they contain the address or the private name.
ERASED = {
    "orders": "email beneficiary metadata idempotency_key external_id reference cancel_reason request_digest "
    "wire_document",
    "order_buyers": "name company street postcode city vat_id reference",
    "events": "document",
    "checkouts": "email beneficiary_name external_id reference metadata idempotency_key redirect_url request_digest "
    "buyer",
    "certificates": "record state_reason",
    "estimates": "description metadata idempotency_key request_digest",
    "estimate_versions": "request result",
    "mails": "recipients message last_error",
    "metadata_totals": "value",
    "refunds": "reason idempotency_key request_digest",
    "webhook_attempts": "answer",
    "api_requests": "body error_message",
    "log_statements": "names names_salt",
}
ACCOUNTING = "an accounting record: kept as long as the law demands"
OPERATOR = "written by operators, who are asked not to name customers"
OWN = "of an organisation or its account, not of a customer"
ADDRESS_IN_USE = "an erasure is refused while the organisation uses the address"
REGISTRY = "the name at a registry is never that of a person"
SELLER = "about what is sold, not about who buys it"
GATEWAY = "ids and codes of the card gateway"
SERVICE = "about the service itself"
WORDS = "one of our own words"
KEPT = {
    "accounts": {
        "beneficiary name default_bundle_selection language": OWN,
        "handle external_pages_visibility idempotency_key reference logo logo_media_type logo_version sibling_id": OWN,
        "receipt_email card_email": ADDRESS_IN_USE,
        "closed_reason": OPERATOR,
        "fulfil_delay small_card_orders": WORDS,
    },
    "act_as_periods": {"reason": OPERATOR, "session_id": "of an operator"},
    "account_cards": {"brand customer expires fingerprint last_four method": "the card of an account, not its number"},
    "api_keys": {"name last_four rights permissions account_ids limit_key_id replaced_by": OWN},
    "api_requests": {
        "error_code route key_id": WORDS,
        "request_id": "random, or chosen by the software of a client, without characters of addresses",
    },
    "audit_log": {
        "action subject_id": SERVICE,
        "address": "of API clients, not of payers",
        "before after details": "never changes, so entries contain no address or private name of a customer",
    },
    "audit_packs": {"requested_by": "the actor, as in the audit log", "status": WORDS},
    "audit_pack_parts": {"content pack_id": "certificates: all packs of the organisation are deleted"},
    "bank_transfers": {
        "bank_references end_to_end_id own_account payer payer_bic payer_iban reference resolution": ACCOUNTING,
        "invoice_reference": "of the invoice",
    },
    "billing_groups": {"hold_reason": WORDS},
    "bundles": {"description details name picture primary_image slug": SELLER},
    "card_links": {"session_id": GATEWAY},
    "catalogues": {"default_bundle_selection": SELLER},
    "certificate_logos": {"content media_type sha256": OWN},
    "certificate_documents": {
        "number sha256": "proofs: a PDF cannot be computed from its hash",
        "pdf": "removed with the name: see tests/supply/certificates/credentials/test_long_term.py",
    },
    "certificates": {"number replaced_by replaces": "random numbers"},
    "charge_invoices": {"reference": "of the invoice"},
    "charges": {"card_country code customer message method outcome reference session_id captured_currency": GATEWAY},
    "checkouts": {
        "beneficiary_kind bundle_selection redirect_label": SELLER,
        "offer_digest": "of prices",
        "buyer_kind consent_version consent_language": "evidence of the contract, which names nobody",
    },
    "consent_texts": {"version language text": SERVICE},
    "credit_notes": {"reason reference taken_back_by": ACCOUNTING},
    "disputes": {"reason reference": GATEWAY, "tax_decision tax_decided_by": ACCOUNTING},
    "document_series": {"series": SERVICE},
    "doubtful_lines": {"fingerprint line": ACCOUNTING},
    "doctor_runs": {"findings": "names of checks and numbers, without the objects"},
    "erasures": {"counts found_by person_hash salt": "a salted hash, to repeat the erasure after a restore"},
    "emission_factors": {"activity category licence region source source_code unit": OPERATOR},
    "estimates": {"mass_amount mass_unit quantity_trunc": SELLER},
    "event_streams": {"recorded_types": SERVICE},
    "event_traces": {"trace": "random ids, kept for a few days"},
    "events": {"event_type": SERVICE},
    "pending_events": {"document event_type trace": "only within a transaction; the rows are moved to events"},
    "exchange_rates": {"source": SELLER},
    "gateway_payouts": {"payout_id": GATEWAY},
    "history_orders": {"external_id import_id link provider": OWN},
    "hold_quotas": {"subject_id": OWN},
    "invoice_orders": {"reference": ACCOUNTING},
    "invoices": {"reference replaced_by": ACCOUNTING},
    "log_checkpoints": {"note root": SERVICE},
    "log_entries": {"entries": "salted hashes"},
    "log_witnesses": {
        "vkey": "public keys",
        "problem detail": "why a witness did not cosign",
    },
    "log_statements": {"kind subject": "ids and random numbers", "salt statement": "facts without names"},
    "log_tiles": {"hashes": "of salted hashes"},
    "logs": {"closed_reason": OPERATOR, "origin previous_head refusal": SERVICE},
    "lot_cases": {"certificate_number": "a random number"},
    "credit_facts": {"digest document": SELLER},
    "lots": {
        "cost_currency country facts facts_digest methodology retirement_url serial": SELLER,
        "registry_account holding_id pause_reason": SELLER,
        "invalid_reason": OPERATOR,
    },
    "mails": {"held_reason": "one of our own sentences"},
    "closed_months": {
        "balances number_ranges oss_rates digests": "sums and numbers",
        "reopen_reason": OPERATOR,
        "closed_by reopen_requested_by": "the actor, as in the audit log",
    },
    "guarded_settings": {"name requested value": SERVICE},
    "ledger_charts": {"imported_by": "the actor, as in the audit log", "lines": OPERATOR},
    "ledger_due": {"table_name source_id": "ids"},
    "ledger_entries": {"kind source_id subject": "ids and numbers of documents"},
    "ledger_postings": {"account tax_code currency home_currency": SERVICE},
    "ledger_totals": {"account tax_code currency home_currency": SERVICE},
    "monthly_spending": {"subject_id": OWN},
    "offset_links": {"beneficiary bundle_selection language message redirect_label redirect_url title": OWN},
    "account_totals": {"currency status": WORDS},
    "bundle_totals": {"currency": SELLER},
    "metadata_keys": {"key": "names of fields, not values", "scanned_id": "of an order"},
    "metadata_totals": {"currency key status": WORDS},
    "order_deltas": {"currency": SELLER},
    "order_buyers": {"country taxed_in": "names nobody"},
    "order_lines": {"bundle_name primary_image": SELLER},
    "order_totals": {"currency": SELLER},
    "order_projects": {"project_logo project_name project_slug project_type": SELLER},
    "orders": {
        "beneficiary_kind bundle_selection cancellation_reason exchange_rate_source failure_reason hold_reason": SELLER,
        "language tax_treatment type payment_state placed_by_key quantity_trunc quote_id": SELLER,
    },
    "order_reductions": {"actor refund_id": "the actor, as in the audit log"},
    "organisation_admins": {"email": ADDRESS_IN_USE},
    "organisation_modes": {"default_bundle_selection": OWN},
    "organisations": {"address name": OWN, "closed_reason": OPERATOR},
    "parcels": {
        "beneficiary": REGISTRY,
        "retirement_url split_from instruction_id desk_note": SELLER,
        "exported_by": "the actor, as in the audit log",
    },
    "projects": {
        "country description details image mechanism methodology name registry registry_project_id": SELLER,
        "picture registry_url slug type": SELLER,
    },
    "registry_accounts": {"id adapter problem": SELLER},
    "registry_drifts": {
        "id registry_account cause lot_id holding_id resolution": SELLER,
        "closed_by closed_reason": OPERATOR,
    },
    "registry_instructions": {
        "beneficiary": REGISTRY,
        "id registry_account lot_id holding_id units reference state registry_reference problem settlement": SELLER,
        "settlement_by": "the actor, as in the audit log",
    },
    "simulated_holdings": {"registry_account id lot_id parent_id": SELLER},
    "simulated_retirements": {
        "beneficiary": REGISTRY,
        "registry_account key reference holding_id state later code message": SELLER,
    },
    "quotes": {
        "document locked request_digest": "of prices",
        "idempotency_key": "deleted with the quote, 30 days after it expired",
    },
    "idempotent_responses": {
        "key_digest request_digest": "hashes",
        "owner_id route key_id created_id": SERVICE,
        "response_box": "sealed, removed after 24 hours",
    },
    "rate_limits": {"name": "ids of keys and network addresses, deleted after a few minutes"},
    "redirect_hosts": {"host": OWN},
    "refunds": {"message reference": GATEWAY, "purpose repeats return_ids": SERVICE},
    "removed_partitions": {"file_name name removed_by sha256 table_name": SERVICE},
    "replaced_shares": {"beneficiary": REGISTRY},
    "retired_totals": {"bundle_name project_name project_type": SELLER},
    "retired_vintages": {"registry registry_project_id": SELLER},
    "return_batches": {"content own_iban": ACCOUNTING},
    "schema_migrations": {"checksum name": SERVICE},
    "serial_blocks": {"namespace": SELLER},
    "pictures": {"content digest size": SELLER},
    "operation_runs": {"operation": SERVICE},
    "service_holds": {"reason": OPERATOR},
    "staged_files": {"content import_id name": "files of the operator about credits and prices, deleted within a day"},
    "staged_imports": {"currency reference result staged_by": "of the operator, deleted within a day"},
    "shares": {"beneficiary": REGISTRY, "facts_digest": SELLER},
    "signing_keys": {"public private_box": SERVICE},
    "simulated_charges": {"code currency customer method reference refund_ids": GATEWAY},
    "simulated_disputes": {"reason reference": GATEWAY},
    "simulated_refunds": {"later reference": GATEWAY},
    "supply_holds": {
        "trust kind": SERVICE,
        "client_hash email_hash": "hashes of a network and of an e-mail address, deleted within the hour",
    },
    "statement_uploads": {
        "content file_name preview step": "a bank statement: deleted when it is imported or discarded, or after a week",
        "imported_by imported_from": "the operator who imports it, until that is done",
        "status": WORDS,
        "date_order decimal_mark": WORDS,
        "own_iban": SERVICE,
    },
    "sustainability_pages": {
        "description sections slug title": OWN,
        "description_format title_format": WORDS,
    },
    "sustainability_slugs": {"slug": OWN},
    "tax_documents": {"buyer corrects series reference record tax_lines tax_point": ACCOUNTING},
    "tax_document_files": {"body document_id format sha256": ACCOUNTING},
    "einvoice_deliveries": {"answered_by document_id format number reason receiver": ACCOUNTING},
    "tax_profiles": {"buyer_reference city country einvoice endpoint legal_note postcode street tax_id treatment": OWN},
    "tax_rates": {"country source": OPERATOR},
    "test_mail_addresses": {"email": ADDRESS_IN_USE},
    "transfer_assignments": {"note undoes": ACCOUNTING, "currency mode invoice_reference": "of the invoice"},
    "transfer_resolutions": {"note undoes": ACCOUNTING},
    "transfer_returns": {"note paid_with reason to_bic to_iban to_name": ACCOUNTING},
    "unrendered_documents": {"document_id": SERVICE},
    "unbilled_orders": {"reference": ACCOUNTING},
    "vat_checks": {"address checked_by consultation_number name outcome requester source vat_id": ACCOUNTING},
    "user_identities": {"issuer subject": "of a user, deleted with the user"},
    "order_requests": {"email language": "a job answers the request; removed an hour later, with the next request"},
    "password_requests": {"email": "a job answers the request and deletes the row within seconds"},
    "user_links": {"email": ADDRESS_IN_USE, "role": WORDS},
    "approvals": {"digest": "hashes of what was approved", "factor": WORDS, "session_id": "ids"},
    "personal_tokens": {"name": "of tokens, deleted with the user"},
    "user_sessions": {"address agent": "of users, deleted with the user"},
    "users": {
        "email": ADDRESS_IN_USE,
        "name": "of a user, deleted with the user",
        "password_hash totp_box": "of a user, deleted with the user",
    },
    "memberships": {"role": WORDS},
    "passkey_challenges": {"binding challenge": "random, for five minutes"},
    "passkeys": {"credential_id domain name public_key": "of a user, deleted with the user"},
    "recovery_codes": {"code_hash": "hashes of random secrets"},
    "webhook_attempts": {"error": "one of our own sentences, or the network's"},
    "webhook_scopes": {"account_ids event_types": OWN},
    "webhooks": {"account_ids disabled_reason event_types secret_last_four url": OWN},
    "withdrawn_lots": {"cost_currency country methodology retirement_url serial facts": SELLER, "reason": OPERATOR},
    "worker_reports": {"jobs worker": SERVICE},
    "write_offs": {"reason undo_reason": OPERATOR},
}
ACTORS = "operators, keys and jobs"
# Columns with these names are the same in all tables.
ANYWHERE = {
    "id account_id organisation_id order_id invoice_id charge_id checkout_id credit_note_id batch_id bundle_id": "ids",
    "default_account_id estimate_id group_id incoming_id lot_id offset_link_id outgoing_id parcel_id project_id": "ids",
    "refund_id subject_id transfer_id user_id webhook_id": "ids",
    "status state kind billing fulfil payment_method format gateway source method purpose cause mode": WORDS,
    "actor approved_by cancelled_by computed_by created_by decided_by held_by imported_by invalidated_by": ACTORS,
    "issued_by requested_by settled_by skipped_by started_by undone_by uploaded_by withdrawn_by": ACTORS,
    "token_hash temporary_id_hash secret_hash": "hashes of random secrets",
    "token_box secret_box old_secret_box older_secret_box": "sealed random secrets",
}


def _words(table: str) -> set[str]:
    listed = ERASED.get(table, "").split()
    listed += [name for names in KEPT.get(table, {}) for name in names.split()]
    return {*listed, *(name for names in ANYWHERE for name in names.split())}


async def test_every_text_is_erased_or_has_a_reason_to_stay(db: Database) -> None:
    columns = await list_columns(db)
    forgotten = {
        f"{table}.{name}"
        for table, types in columns.items()
        for name, kind in types.items()
        if kind in TEXTS and name not in _words(table)
    }
    assert forgotten == set(), "erase them in tonne.apps.privacy, or add them to KEPT with the reason"


async def test_the_lists_name_existing_columns_once(db: Database) -> None:
    columns = await list_columns(db)
    for table in {*ERASED, *KEPT}:
        listed = ERASED.get(table, "").split() + [name for names in KEPT.get(table, {}) for name in names.split()]
        assert set(listed) <= columns[table].keys(), table
        assert len(listed) == len(set(listed)), table
