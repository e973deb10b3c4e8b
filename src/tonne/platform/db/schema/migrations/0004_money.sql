-- compatible_from: 6

-- cards --------------------------------------------------------------------------------------------------------

-- What the simulated card gateway has charged. It simulates another company's database, so no other table refers to
-- it.
CREATE TABLE simulated_charges (
    id              text PRIMARY KEY,
    customer        text NOT NULL,
    method          text NOT NULL,
    amount_minor    bigint NOT NULL,
    currency        text NOT NULL,
    status          text NOT NULL,
    code            text,
    reference       text UNIQUE,
    refunded_minor  bigint NOT NULL DEFAULT 0,
    refund_ids      text[] NOT NULL DEFAULT '{}',
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX simulated_charges_declined ON simulated_charges (customer, amount_minor) WHERE status = 'declined';

-- The gateway's ids of a stored card, and what may be displayed of it. The gateway keeps the card itself.
CREATE TABLE account_cards (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    gateway          text NOT NULL CHECK (gateway IN ('simulated', 'stripe')),
    customer         text NOT NULL,
    method           text NOT NULL,
    brand            text NOT NULL,
    last_four        text NOT NULL,
    expires          text NOT NULL,
    -- The same for one card, however often it was stored: what is owed by it counts for all accounts together.
    fingerprint      text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- When a worker removes the card of a closed account at the gateway; null: the account is not closed.
    removal_at       timestamptz,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    -- A test account must not move real money.
    CHECK (mode = 'live' OR gateway = 'simulated')
);
CREATE INDEX account_cards_by_fingerprint ON account_cards (fingerprint);
CREATE INDEX account_cards_of_organisation ON account_cards (organisation_id, mode);
CREATE INDEX account_cards_to_remove ON account_cards (removal_at) WHERE removal_at IS NOT NULL;

-- One row per attempt to charge an order, written before the gateway is called: after a crash the worker knows what to
-- ask about. The id is also the idempotency key at the gateway.
CREATE TABLE charges (
    account_id         text NOT NULL,
    id                 text NOT NULL UNIQUE,
    -- A charge pays for one order, or for all orders of invoices: see charge_invoices.
    order_id           text,
    organisation_id    text NOT NULL,
    mode               mode NOT NULL,
    attempt            smallint NOT NULL CHECK (attempt > 0),
    gateway            text NOT NULL CHECK (gateway IN ('simulated', 'stripe')),
    -- What the charge is paid with: a card stored at the gateway (customer, method), the gateway's own page (session_id,
    -- null until the page is opened), or nothing because the account has no card.
    source             text NOT NULL CHECK (source IN ('stored_card', 'hosted_page', 'none')),
    customer           text,
    method             text,
    session_id         text,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    currency           currency NOT NULL,
    -- pending: the outcome is not known yet. captured: the order is paid. failed: see outcome. refund_due: captured
    -- after the order was cancelled. mismatched: the gateway reports a different amount.
    status             text NOT NULL
                           CHECK (status IN ('pending', 'captured', 'failed', 'refund_due', 'refunded', 'mismatched')),
    outcome            text,
    reference          text,
    code               text,
    message            text,
    created_at         timestamptz NOT NULL,
    settled_at         timestamptz,
    refunded_at        timestamptz,
    -- Set while the charge is pending or refund_due.
    next_attempt_at    timestamptz,
    -- When the gateway first reported that it does not know the charge, although it was sent.
    missing_since      timestamptz,
    -- What the gateway captured: the requested amount, unless the charge is or was mismatched.
    captured_minor     bigint CHECK (captured_minor > 0),
    captured_currency  text,
    -- Of the bank that issued the card, as the gateway says: evidence of where a consumer lives.
    card_country       text,
    -- It never paid for its order, because it was captured too late, a second time or with another amount. Its status is
    -- then refund_due until all of it is refunded. Status refunded says that nothing is left of a charge.
    is_surplus         boolean NOT NULL DEFAULT false,
    -- When a worker compares the charge with the gateway's record of refunds and disputes; null if there is no reason to.
    check_at           timestamptz,
    -- Until when the payer may confirm a pending charge. Null: no confirmation was asked for.
    confirm_until      timestamptz,
    -- When an operator accepted a payment that arrived with another amount.
    accepted_at        timestamptz,
    -- The first of its invoices.
    invoice_id         text,
    PRIMARY KEY (account_id, id),
    UNIQUE (order_id, attempt),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((source = 'stored_card') = (customer IS NOT NULL) AND (source = 'stored_card') = (method IS NOT NULL)),
    CHECK (source = 'hosted_page' OR session_id IS NULL),
    CHECK ((status IN ('captured', 'refund_due', 'refunded', 'mismatched')) = (reference IS NOT NULL)),
    CHECK (captured_minor IS NOT NULL OR status NOT IN ('captured', 'refund_due', 'refunded')),
    CHECK (num_nonnulls(order_id, invoice_id) = 1),
    CHECK (invoice_id IS NULL OR source <> 'hosted_page')
);
-- The orders that a charge is for, and how much of it each of them takes. They sum to the charge.
CREATE TABLE charge_orders (
    account_id         text NOT NULL,
    charge_id          text NOT NULL,
    order_id           text NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor >= 0),
    PRIMARY KEY (charge_id, order_id),
    FOREIGN KEY (account_id, charge_id) REFERENCES charges
);
CREATE INDEX charge_orders_of_order ON charge_orders (order_id);

-- The invoices that a charge is for, as they were when it was opened. Usually one: those of small orders are charged
-- together once they reach what a card can be charged.
CREATE TABLE charge_invoices (
    account_id         text NOT NULL,
    charge_id          text NOT NULL,
    invoice_id         text NOT NULL,
    reference          text NOT NULL,
    currency           currency NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    -- How many orders it billed, also those that were cancelled since.
    order_count        integer NOT NULL,
    PRIMARY KEY (account_id, charge_id, invoice_id),
    FOREIGN KEY (account_id, charge_id) REFERENCES charges
);
CREATE INDEX charge_invoices_of_invoice ON charge_invoices (invoice_id);

-- Prevents double charges: at most one charge of an order is pending or captured.
CREATE UNIQUE INDEX charges_one_per_order ON charges (order_id)
    WHERE order_id IS NOT NULL AND status IN ('pending', 'captured');
CREATE INDEX charges_due ON charges (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX charges_by_reference ON charges (reference) WHERE reference IS NOT NULL;
CREATE INDEX charges_to_check ON charges (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX charges_to_confirm ON charges (account_id) WHERE status = 'pending' AND confirm_until IS NOT NULL;
-- Prevents double charges, as `charges_one_per_order` does.
CREATE UNIQUE INDEX charges_one_per_invoice ON charges (invoice_id)
    WHERE invoice_id IS NOT NULL AND status IN ('pending', 'captured');
-- For the receipts of an organisation, newest first, and the card payments of an invoice.
CREATE INDEX charges_receipts ON charges (organisation_id, mode, settled_at, id)
    WHERE status IN ('captured', 'refunded');
CREATE UNIQUE INDEX charges_of_invoice ON charges (invoice_id, attempt) WHERE invoice_id IS NOT NULL;
-- The charges that somebody has to look at, without reading all.
CREATE INDEX charges_unsettled ON charges (mode, created_at)
    WHERE status IN ('pending', 'mismatched');
CREATE INDEX charges_of_invoices ON charges (organisation_id, mode, settled_at)
    WHERE invoice_id IS NOT NULL AND status IN ('captured', 'refunded');
-- The payments of a month, to find those without a document.
CREATE INDEX charges_paid ON charges (mode, settled_at)
    WHERE order_id IS NOT NULL AND status IN ('captured', 'refunded') AND NOT is_surplus;
CREATE TRIGGER charges_not_while_held BEFORE INSERT ON charges
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- Refunds of the simulated gateway. `later` is the state that a pending one has at the next look.
CREATE TABLE simulated_refunds (
    id            text PRIMARY KEY,
    reference     text NOT NULL,
    amount_minor  bigint NOT NULL CHECK (amount_minor > 0),
    status        text NOT NULL CHECK (status IN ('refunded', 'pending', 'failed')),
    later         text NOT NULL CHECK (later IN ('refunded', 'pending', 'failed')),
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX simulated_refunds_of_charge ON simulated_refunds (reference);
CREATE INDEX simulated_refunds_newest ON simulated_refunds (created_at);

-- Disputes of the simulated gateway, opened and closed by a test helper.
CREATE TABLE simulated_disputes (
    id            text PRIMARY KEY,
    reference     text NOT NULL,
    amount_minor  bigint NOT NULL CHECK (amount_minor > 0),
    status        text NOT NULL CHECK (status IN ('opened', 'won', 'lost')),
    reason        text NOT NULL,
    evidence_due  timestamptz NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE INDEX simulated_disputes_of_charge ON simulated_disputes (reference);
CREATE INDEX simulated_disputes_newest ON simulated_disputes (created_at);

-- The page on which the payer of an account confirms payments and updates the card, and when the payer is mailed.
CREATE TABLE card_links (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- Null until the first mail. The link stops working some time after the token was made.
    token_hash       bytea UNIQUE CHECK (length(token_hash) = 32),
    token_box        bytea,
    token_made_at    timestamptz,
    created_at       timestamptz NOT NULL,
    -- When mail_card_problems looks at it next. Null: there is nothing to tell.
    next_mail_at     timestamptz,
    mailed_at        timestamptz,
    -- The gateway's page on which the payer is entering a card, and when it is looked up next.
    session_id       text,
    next_check_at    timestamptz,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK ((token_hash IS NULL) = (token_box IS NULL)),
    CHECK ((token_hash IS NULL) = (token_made_at IS NULL)),
    CHECK (next_check_at IS NULL OR session_id IS NOT NULL)
);
CREATE INDEX card_links_to_mail ON card_links (next_mail_at) WHERE next_mail_at IS NOT NULL;
CREATE INDEX card_links_to_check ON card_links (next_check_at) WHERE next_check_at IS NOT NULL;

-- Invoices that the stored card of their account pays. All their orders are of that account.
CREATE TABLE card_invoices (
    invoice_id       text PRIMARY KEY,
    account_id       text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- When the card is charged next; null while a charge is pending, and once the invoice is closed.
    next_attempt_at  timestamptz,
    -- When a declined charge is repeated. A worker that charges the card moves next_attempt_at only.
    retry_at         timestamptz,
    -- The card was declined for the last time, and what was delivered is owed: a transfer may pay it, or another card.
    is_given_up      boolean NOT NULL DEFAULT false,
    CHECK (next_attempt_at IS NULL OR NOT is_given_up)
);
CREATE INDEX card_invoices_due ON card_invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX card_invoices_of_account ON card_invoices (account_id);

-- bank ---------------------------------------------------------------------------------------------------------

-- Every booked line of a bank statement, whatever the format. It stays visible until it is dealt with.
CREATE TABLE bank_transfers (
    id               text PRIMARY KEY,
    mode             mode NOT NULL,
    booked_on        date NOT NULL,
    amount_minor     bigint NOT NULL,
    currency         currency NOT NULL,
    payer            text NOT NULL,
    reference        text NOT NULL,
    imported_at      timestamptz NOT NULL,
    imported_by      text NOT NULL,
    -- What was done about a transfer that did not settle an invoice, or not exactly.
    resolved_at      timestamptz,
    resolution       text CHECK (length(resolution) BETWEEN 1 AND 500),
    -- The invoice that the payer named, and what of it never changes.
    invoice_id       text,
    invoice_reference text,
    organisation_id  text,
    -- The seller's account, empty if the file did not say.
    own_account      text NOT NULL DEFAULT '',
    format           text NOT NULL DEFAULT 'csv' CHECK (format IN ('csv', 'camt.053', 'mt940')),
    payer_iban       text NOT NULL DEFAULT '',
    payer_bic        text NOT NULL DEFAULT '',
    end_to_end_id    text NOT NULL DEFAULT '',
    -- The bank's own references of this line, as FORMAT:REFERENCE.
    bank_references  text[] NOT NULL DEFAULT '{}',
    is_reversal      boolean NOT NULL DEFAULT false,
    -- What was dealt with in another way, which `resolution` describes.
    resolved_minor   bigint NOT NULL DEFAULT 0 CHECK (resolved_minor >= 0),
    state            text NOT NULL CHECK (state IN
                         ('matched', 'part_payment', 'overpaid', 'unmatched', 'assigned', 'to_return', 'returned',
                          'outgoing'))
);
CREATE INDEX bank_transfers_of_invoice ON bank_transfers (invoice_id) WHERE invoice_id IS NOT NULL;
CREATE INDEX bank_transfers_open ON bank_transfers (imported_at)
    WHERE state IN ('unmatched', 'overpaid', 'to_return');
CREATE INDEX bank_transfers_by_day ON bank_transfers (booked_on, amount_minor);
CREATE INDEX bank_transfers_by_reference ON bank_transfers USING gin (bank_references);
-- Who paid from an account before.
CREATE INDEX bank_transfers_of_payer ON bank_transfers (payer_iban) WHERE payer_iban <> '';

-- What a transfer paid of an invoice. It is undone by a row with the opposite amount.
CREATE TABLE transfer_assignments (
    id               text PRIMARY KEY,
    transfer_id      text NOT NULL REFERENCES bank_transfers,
    invoice_id       text NOT NULL,
    amount_minor     bigint NOT NULL CHECK (amount_minor <> 0),
    by_operator      boolean NOT NULL,
    undoes           text UNIQUE REFERENCES transfer_assignments,
    note             text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL,
    created_by       text NOT NULL,
    -- Whether the invoice was written off at that moment: then the journal books it as the recovery of a bad debt.
    recovers         boolean NOT NULL DEFAULT false,
    -- Whose payment it is, in which currency, and on which day it counts: copied from the invoice and the transfer,
    -- which never change them, so that an organisation's payments are summed from one index.
    invoice_reference text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    currency         currency NOT NULL,
    day              date NOT NULL,
    -- Set when the invoice is settled.
    invoice_paid     boolean NOT NULL,
    CHECK ((amount_minor < 0) = (undoes IS NOT NULL))
);
CREATE INDEX transfer_assignments_of_transfer ON transfer_assignments (transfer_id);
CREATE INDEX transfer_assignments_of_invoice ON transfer_assignments (invoice_id);
-- Contains all that a balance needs, as the index with the same ending of invoices and credit notes does.
CREATE INDEX transfer_assignments_owed
    ON transfer_assignments (organisation_id, mode, currency, day) INCLUDE (amount_minor);

-- Files of payments for the bank, with the returns that are to be made.
CREATE TABLE return_batches (
    id          text PRIMARY KEY,
    mode        mode NOT NULL,
    currency    currency NOT NULL,
    own_iban    text NOT NULL,
    format      text NOT NULL CHECK (format IN ('sepa', 'csv')),
    content     bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL
);

-- Money that is to go back. With `invoice_id`, it is a refund of what the invoice received; otherwise it is money that
-- is assigned to no invoice.
CREATE TABLE transfer_returns (
    id                text PRIMARY KEY,
    transfer_id       text NOT NULL REFERENCES bank_transfers,
    invoice_id        text,
    amount_minor      bigint NOT NULL CHECK (amount_minor > 0),
    to_iban           text NOT NULL,
    to_bic            text NOT NULL,
    to_name           text NOT NULL,
    reason            text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    status            text NOT NULL CHECK (status IN ('planned', 'exported', 'returned', 'failed', 'cancelled')),
    -- Not to the account that the money came from.
    to_other_account  boolean NOT NULL,
    batch_id          text REFERENCES return_batches,
    -- The return whose payment includes this one. Null if it has a payment of its own.
    paid_with         text REFERENCES transfer_returns,
    -- The line of a statement that shows the payment.
    outgoing_id       text REFERENCES bank_transfers,
    note              text NOT NULL DEFAULT '',
    created_at        timestamptz NOT NULL,
    created_by        text NOT NULL,
    closed_at         timestamptz,
    -- When the money left the bank. It stays when the return fails later.
    returned_at       timestamptz,
    -- The line of a statement that shows the money coming back.
    incoming_id       text REFERENCES bank_transfers,
    CHECK ((status IN ('returned', 'failed', 'cancelled')) = (closed_at IS NOT NULL)),
    CHECK (status <> 'exported' OR batch_id IS NOT NULL)
);
CREATE INDEX transfer_returns_of_transfer ON transfer_returns (transfer_id);
CREATE INDEX transfer_returns_of_payment ON transfer_returns (paid_with) WHERE paid_with IS NOT NULL;
-- A line of a statement shows one payment.
CREATE UNIQUE INDEX transfer_returns_by_outgoing ON transfer_returns (outgoing_id) WHERE paid_with IS NULL;
CREATE UNIQUE INDEX transfer_returns_by_incoming ON transfer_returns (incoming_id) WHERE paid_with IS NULL;
CREATE INDEX transfer_returns_open ON transfer_returns (created_at) WHERE status IN ('planned', 'exported');

-- Lines that may be a transfer which was imported in another format. They are not counted until a person has decided.
CREATE TABLE doubtful_lines (
    id           text PRIMARY KEY,
    transfer_id  text NOT NULL REFERENCES bank_transfers,
    fingerprint  bytea NOT NULL UNIQUE,
    mode         mode NOT NULL,
    format       text NOT NULL,
    line         jsonb NOT NULL,
    is_same      boolean,
    imported_at  timestamptz NOT NULL,
    imported_by  text NOT NULL,
    decided_at   timestamptz,
    decided_by   text,
    CHECK ((is_same IS NULL) = (decided_at IS NULL))
);
CREATE INDEX doubtful_lines_open ON doubtful_lines (imported_at) WHERE is_same IS NULL;

-- What was dealt with in another way than to assign or return it. It is undone by a row with the opposite amount.
-- `bank_transfers.resolved_minor` is the sum. `is_payout`: the transfer is a payout of the card gateway.
CREATE TABLE transfer_resolutions (
    id            text PRIMARY KEY,
    transfer_id   text NOT NULL REFERENCES bank_transfers,
    amount_minor  bigint NOT NULL CHECK (amount_minor <> 0),
    is_payout     boolean NOT NULL,
    undoes        text UNIQUE REFERENCES transfer_resolutions,
    note          text NOT NULL,
    created_at    timestamptz NOT NULL,
    created_by    text NOT NULL,
    CHECK ((amount_minor < 0) = (undoes IS NOT NULL))
);
CREATE INDEX transfer_resolutions_of_transfer ON transfer_resolutions (transfer_id);

-- invoices -----------------------------------------------------------------------------------------------------

-- The last number of each series: TN invoices, TS simplified invoices, CN credit notes. It is incremented in the
-- transaction that inserts the document, so that numbers have no gaps.
CREATE TABLE document_series (
    mode         mode NOT NULL,
    series       text NOT NULL CHECK (series IN ('TN', 'TS', 'CN')),
    last_number  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (mode, series)
);
INSERT INTO document_series (mode, series)
VALUES ('live', 'TN'), ('live', 'TS'), ('live', 'CN'), ('test', 'TN'), ('test', 'TS'), ('test', 'CN');
CREATE TRIGGER document_numbers_not_while_held BEFORE UPDATE ON document_series
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- Every sale has exactly one document, and every document one row, which never changes. The list of sales and the tax in
-- the journal are read from here. `invoices` and `credit_notes` hold the state of a document under its id.
CREATE TABLE tax_documents (
    id               text PRIMARY KEY,
    kind             text NOT NULL CHECK (kind IN ('invoice', 'simplified_invoice', 'credit_note')),
    mode             mode NOT NULL,
    series           text NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    -- The number as it is printed.
    reference        text NOT NULL UNIQUE,
    organisation_id  text NOT NULL,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    -- Part of the total; null where no tax is computed.
    tax_minor        bigint CHECK (tax_minor BETWEEN 0 AND total_minor),
    issued_on        date NOT NULL,
    -- The invoice that a credit note corrects, or the credit note that an invoice takes back.
    corrects         text REFERENCES tax_documents,
    -- The document as it was issued (JSON, UTF-8).
    record           bytea NOT NULL,
    -- The part of the tax of each tax code, which the record has, too: {"DE-S-19": 265}. Empty if it is not known.
    tax_lines        jsonb NOT NULL,
    -- The name of the buyer, which the record has, too.
    buyer            text NOT NULL,
    -- Which event makes its tax due: until then the journal has it on Liabilities:Tax-Not-Due.
    tax_point        text NOT NULL DEFAULT 'invoice' CHECK (tax_point IN ('invoice', 'payment', 'supply')),
    created_at       timestamptz NOT NULL,
    UNIQUE (mode, series, number),
    CHECK (series = CASE kind WHEN 'invoice' THEN 'TN' WHEN 'simplified_invoice' THEN 'TS' ELSE 'CN' END)
);
CREATE TRIGGER tax_documents_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tax_documents
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE INDEX tax_documents_issued ON tax_documents (mode, issued_on);
CREATE INDEX tax_documents_of_organisation ON tax_documents (organisation_id, mode, issued_on);

-- The state of invoices, each for one order or for all orders of a period. What it has of `tax_documents` is copied:
-- balances and lists are read from its indexes.
CREATE TABLE invoices (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    -- What the payer writes on the transfer.
    reference        text NOT NULL UNIQUE,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    status           text NOT NULL CHECK (status IN ('open', 'paid', 'cancelled')),
    issued_on        date NOT NULL,
    due_on           date NOT NULL CHECK (due_on >= issued_on),
    mailed_at        timestamptz,
    reminded_at      timestamptz,
    settled_at       timestamptz,
    settled_by       text,
    created_at       timestamptz NOT NULL,
    -- When a worker next mails it, sends a reminder or cancels the order.
    next_attempt_at  timestamptz,
    id               text PRIMARY KEY REFERENCES tax_documents,
    billing          text NOT NULL DEFAULT 'per_order'
                         CHECK (billing IN ('per_order', 'monthly', 'threshold', 'collected')),
    payment_method   text NOT NULL DEFAULT 'invoice' CHECK (payment_method IN ('invoice', 'card')),
    order_count      integer NOT NULL DEFAULT 1 CHECK (order_count > 0),
    -- The sum of its credit notes. What is due is the total less this.
    credited_minor   bigint NOT NULL DEFAULT 0,
    -- What was due when it was settled.
    settled_minor    bigint,
    -- Settled by a person without a transfer, or in test mode. A transfer that arrives later is then matched to it.
    settled_by_hand  boolean NOT NULL DEFAULT false,
    -- The sum of its differences: what never arrives.
    difference_minor bigint NOT NULL DEFAULT 0,
    -- An open invoice that is no longer expected to be paid. It stays open, because it is still owed: what arrives later
    -- pays it. Null if it was reinstated.
    written_off_at   timestamptz,
    -- The document of a card payment that was captured before: nothing of it was ever due.
    is_prepaid       boolean NOT NULL DEFAULT false,
    -- The document in force instead of the first one, which stated a wrong reference or address.
    replaced_by      text REFERENCES tax_documents,
    CHECK (credited_minor BETWEEN 0 AND total_minor),
    CHECK (status <> 'cancelled' OR credited_minor = total_minor),
    CHECK ((status = 'paid') = (settled_minor IS NOT NULL)),
    CHECK (difference_minor = 0 OR (difference_minor > 0 AND settled_by_hand AND difference_minor <= settled_minor))
);
CREATE INDEX invoices_due ON invoices (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX invoices_of_organisation ON invoices (organisation_id, mode, issued_on);
CREATE INDEX invoices_open ON invoices (organisation_id, mode, due_on)
    WHERE status = 'open';
CREATE INDEX invoices_numbered ON invoices (mode, number) WHERE NOT is_prepaid;
CREATE INDEX invoices_of_customer ON invoices (organisation_id, mode, number) WHERE NOT is_prepaid;
CREATE INDEX invoices_owed ON invoices (organisation_id, mode, currency, issued_on)
    INCLUDE (total_minor) WHERE NOT is_prepaid;
CREATE INDEX invoices_settled_by_hand ON invoices (organisation_id, mode, settled_at)
    WHERE status = 'paid' AND settled_by_hand;

-- What never arrives of invoices that were settled by hand, and is borne by the seller. The tax stays owed.
CREATE TABLE invoice_differences (
    id            text PRIMARY KEY,
    invoice_id    text NOT NULL REFERENCES invoices,
    kind          text NOT NULL CHECK (kind IN ('bank_fees', 'small_difference')),
    amount_minor  bigint NOT NULL CHECK (amount_minor > 0),
    created_at    timestamptz NOT NULL,
    created_by    text NOT NULL
);
CREATE INDEX invoice_differences_of_invoice ON invoice_differences (invoice_id);

-- The orders of an invoice, as they were billed. `reference` is the client's own.
CREATE TABLE invoice_orders (
    invoice_id      text NOT NULL REFERENCES invoices,
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    reference       text NOT NULL,
    placed_at       timestamptz NOT NULL,
    quantity_grams  bigint NOT NULL,
    offset_minor    bigint NOT NULL,
    fee_minor       bigint NOT NULL,
    tax_minor       bigint,
    total_minor     bigint NOT NULL CHECK (total_minor = offset_minor + fee_minor + coalesce(tax_minor, 0)),
    -- Set when a credit note has taken the order off the invoice.
    cancelled       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (invoice_id, account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
-- An order is billed once.
CREATE UNIQUE INDEX invoice_orders_billed_once ON invoice_orders (account_id, order_id) WHERE NOT cancelled;
CREATE INDEX invoice_orders_of_order ON invoice_orders (account_id, order_id);

-- Orders that a card has paid, and whose document is still to be issued. A live one is held back until it can state what
-- the law demands.
CREATE TABLE due_documents (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    paid_at          timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL,
    held_by          text CHECK (held_by IN ('seller_details_missing', 'buyer_details_missing', 'vat_check_missing',
                                             'exchange_rate_missing')),
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX due_documents_by_time ON due_documents (next_attempt_at);
CREATE INDEX due_documents_held ON due_documents (organisation_id, mode) WHERE held_by IS NOT NULL;

-- Orders that wait for a consolidated invoice are collected in groups: all orders of an organisation, mode and currency
-- whose accounts have the same billing settings.
CREATE TABLE billing_groups (
    id               text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    currency         currency NOT NULL,
    billing          text NOT NULL CHECK (billing IN ('monthly', 'threshold', 'collected')),
    -- 0 without a threshold, so that it can be part of the key.
    threshold_minor  bigint NOT NULL CHECK (threshold_minor >= 0),
    order_count      bigint NOT NULL CHECK (order_count >= 0),
    -- What its orders cost before rounding, without tax: grams times the price per tonne, in millionths of a minor unit.
    exact_cost       numeric(38) NOT NULL CHECK (exact_cost >= 0),
    total_minor      bigint GENERATED ALWAYS AS (round(exact_cost / 1000000)) STORED,
    -- When its invoice is issued; null while no order waits.
    next_attempt_at  timestamptz,
    -- The account whose card pays for the orders of the group; empty for groups that are paid by bank transfer.
    account_id       text NOT NULL DEFAULT '',
    -- What its invoice waits for although it is due, except for settings of the seller.
    hold_reason      text CHECK (hold_reason IN ('buyer_details_missing', 'vat_check_missing',
                                                 'exchange_rate_missing')),
    UNIQUE (organisation_id, mode, currency, billing, threshold_minor, account_id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes,
    CHECK ((billing = 'monthly') = (threshold_minor = 0))
);
CREATE INDEX billing_groups_due ON billing_groups (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- The orders of the groups. A row moves to `invoice_orders` when it is billed.
CREATE TABLE unbilled_orders (
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    -- Null while the order was fulfilled first and can still be cancelled by its client.
    group_id        text REFERENCES billing_groups,
    reference       text NOT NULL,
    placed_at       timestamptz NOT NULL,
    -- It is billed with its group for the month of this moment: when it was placed, or when that wait ends.
    joins_at        timestamptz NOT NULL,
    quantity_grams  bigint NOT NULL,
    -- Of the order as it was placed.
    total_minor     bigint NOT NULL,
    -- The same before rounding, and the fee in it, in millionths of a minor unit.
    exact_cost      numeric(38) NOT NULL,
    exact_fee       numeric(38) NOT NULL,
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX unbilled_orders_of_group ON unbilled_orders (group_id, joins_at);
CREATE INDEX unbilled_orders_to_join ON unbilled_orders (joins_at) WHERE group_id IS NULL;

-- The state of credit notes, as `invoices`.
CREATE TABLE credit_notes (
    id               text PRIMARY KEY REFERENCES tax_documents,
    invoice_id       text NOT NULL REFERENCES invoices,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           bigint NOT NULL CHECK (number > 0),
    reference        text NOT NULL UNIQUE,
    currency         currency NOT NULL,
    total_minor      bigint NOT NULL CHECK (total_minor > 0),
    -- cancellation: the orders were cancelled. reduction: an order was reduced. refund: money is returned, the orders stay. correction: the operator
    -- reduces an invoice. dispute: the card issuer reversed the payment of orders that were delivered. replacement:
    -- another invoice states the right reference and address.
    cause            text NOT NULL CHECK (cause IN ('cancellation', 'reduction', 'refund', 'correction',
                                                     'dispute', 'replacement')),
    reason           text CHECK (length(reason) <= 500),
    refund_id        text,
    issued_on        date NOT NULL,
    issued_by        text NOT NULL,
    created_at       timestamptz NOT NULL,
    mailed_at        timestamptz,
    -- When a worker mails it; null if it is mailed, or if the invoice never was.
    next_attempt_at  timestamptz,
    -- Whether the invoice was written off when it was issued, as in `transfer_assignments`.
    recovers         boolean NOT NULL DEFAULT false,
    -- As on its invoice.
    is_prepaid       boolean NOT NULL DEFAULT false,
    -- The invoice that takes it back, because its refund failed after it had succeeded, or that replaces the one that
    -- it cancels: it does not count.
    taken_back_by    text REFERENCES tax_documents,
    UNIQUE (mode, number)
);
CREATE INDEX credit_notes_of_invoice ON credit_notes (invoice_id);
CREATE INDEX credit_notes_of_organisation ON credit_notes (organisation_id, mode, issued_on);
CREATE INDEX credit_notes_due ON credit_notes (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX credit_notes_owed ON credit_notes (organisation_id, mode, currency, issued_on)
    INCLUDE (total_minor) WHERE NOT is_prepaid;
-- For statements of account.
CREATE INDEX credit_notes_taken_back ON credit_notes (organisation_id, mode)
    WHERE taken_back_by IS NOT NULL AND NOT is_prepaid;

-- What a credit note takes off each order.
CREATE TABLE credit_note_orders (
    credit_note_id  text NOT NULL REFERENCES credit_notes,
    account_id      text NOT NULL,
    order_id        text NOT NULL,
    offset_minor    bigint NOT NULL,
    fee_minor       bigint NOT NULL,
    tax_minor       bigint,
    total_minor     bigint NOT NULL
                        CHECK (total_minor > 0 AND total_minor = offset_minor + fee_minor + coalesce(tax_minor, 0)),
    PRIMARY KEY (credit_note_id, account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX credit_note_orders_of_order ON credit_note_orders (account_id, order_id);

-- The originals of invoices and credit notes: the bytes that were sent, which never change. Partitioned by month like
-- `events`, so that they are removed with their archives. The key is the same for all files of a document, so that the
-- primary key of a partition makes them unique.
CREATE TABLE tax_document_files (
    document_id   text NOT NULL REFERENCES tax_documents,
    format        text NOT NULL CHECK (format IN ('pdf', 'cii', 'ubl')),
    issued_on     date NOT NULL,
    sha256        bytea NOT NULL CHECK (length(sha256) = 32),
    raw_size      integer NOT NULL CHECK (raw_size > 0),
    -- Compressed with zstd.
    body          bytea NOT NULL,
    rendered_at   timestamptz NOT NULL,
    -- It is not removed before the end of this day.
    retain_until  date NOT NULL
) PARTITION BY RANGE (issued_on);
ALTER TABLE tax_document_files ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE tax_document_files_default PARTITION OF tax_document_files (PRIMARY KEY (document_id, format)) DEFAULT;
CREATE INDEX ON tax_document_files_default (issued_on);
CREATE TRIGGER tax_document_files_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON tax_document_files
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Documents whose files a worker still has to render. Added with the document, deleted with its files.
CREATE TABLE unrendered_documents (
    document_id      text PRIMARY KEY REFERENCES tax_documents,
    mode             mode NOT NULL,
    created_at       timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL
);
CREATE INDEX unrendered_documents_due ON unrendered_documents (next_attempt_at);

-- Electronic invoices that leave by another way than mail. Added with their files. `sending`: the answer may be lost.
CREATE TABLE einvoice_deliveries (
    document_id      text PRIMARY KEY REFERENCES tax_documents,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    number           text NOT NULL UNIQUE,
    format           text NOT NULL CHECK (format IN ('peppol', 'xrechnung')),
    -- An electronic address.
    receiver         text NOT NULL,
    state            text NOT NULL CHECK (state IN ('due', 'sending', 'unknown', 'accepted', 'refused')),
    reason           text CHECK (length(reason) <= 500),
    created_at       timestamptz NOT NULL,
    next_attempt_at  timestamptz,
    answered_at      timestamptz,
    answered_by      text,
    CHECK ((state IN ('due', 'sending')) = (next_attempt_at IS NOT NULL)),
    CHECK ((state IN ('accepted', 'refused')) = (answered_at IS NOT NULL))
);
CREATE INDEX einvoice_deliveries_due ON einvoice_deliveries (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX einvoice_deliveries_listed ON einvoice_deliveries (created_at);

-- `amount_minor` is what was open when the write-off was booked, until then when it was requested. `undone_minor` is what
-- was still open of it when the invoice was reinstated. `releases_credit`: its orders no longer use the credit limit.
CREATE TABLE write_offs (
    id               text PRIMARY KEY,
    invoice_id       text NOT NULL REFERENCES invoices,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    releases_credit  boolean NOT NULL,
    state            text NOT NULL CHECK (state IN ('approval', 'booked', 'withdrawn', 'undone')),
    requested_at     timestamptz NOT NULL,
    requested_by     text NOT NULL,
    approved_by      text,
    booked_at        timestamptz,
    undone_at        timestamptz,
    undone_by        text,
    undone_minor     bigint CHECK (undone_minor >= 0),
    undo_reason      text CHECK (length(undo_reason) BETWEEN 1 AND 500),
    CHECK ((state IN ('booked', 'undone')) = (booked_at IS NOT NULL)),
    CHECK ((state = 'undone') = (undone_minor IS NOT NULL)),
    CHECK ((state IN ('withdrawn', 'undone')) = (undone_at IS NOT NULL))
);
CREATE UNIQUE INDEX write_offs_of_invoice ON write_offs (invoice_id) WHERE state IN ('approval', 'booked');
CREATE INDEX write_offs_by_time ON write_offs (requested_at);

-- refunds ------------------------------------------------------------------------------------------------------

-- One row per attempt to send money back. The id is also the idempotency key at the gateway.
CREATE TABLE refunds (
    account_id       text NOT NULL,
    id               text NOT NULL UNIQUE,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    order_id         text NOT NULL,
    -- card: through the gateway, from a charge. bank: as a return of the transfers that paid the order's invoice.
    method           text NOT NULL CHECK (method IN ('card', 'bank')),
    charge_id        text,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    currency         currency NOT NULL,
    -- cancellation: of a paid order that was cancelled. reduction: of what was taken off a paid order. goodwill: the
    -- order stays as it is. surplus: of a payment that never paid for the order. gateway: begun at the gateway.
    purpose          text NOT NULL CHECK (purpose IN ('cancellation', 'reduction', 'goodwill', 'surplus',
                                                       'gateway')),
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    -- approval: a second person must approve it. due: to be sent. pending: accepted by the gateway. failed: see
    -- `message`; another row with the next attempt replaces it. cancelled: nothing is left to refund.
    state            text NOT NULL CHECK (state IN ('approval', 'due', 'pending', 'succeeded', 'failed', 'cancelled')),
    attempt          smallint NOT NULL DEFAULT 1 CHECK (attempt > 0),
    -- The failed refund that this one repeats.
    repeats          text UNIQUE,
    -- The gateway's id.
    reference        text,
    message          text,
    requested_by     text NOT NULL,
    approved_by      text,
    idempotency_key  text,
    request_digest   bytea,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    -- Set while a worker has something to do.
    next_attempt_at  timestamptz,
    -- Of a refund by bank: the rows of transfer_returns that it consists of. None if the invoice was settled by hand.
    return_ids       text[] NOT NULL DEFAULT '{}',
    -- It stays when the refund fails later.
    succeeded_at     timestamptz,
    -- When a worker last began to send a refund to the card gateway; null while the gateway cannot have it. Without an
    -- answer the refund must not be settled by hand: the gateway may still make it.
    sent_at          timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((method = 'card') = (charge_id IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (settled_at IS NOT NULL)),
    CHECK (approved_by <> requested_by)
);
CREATE INDEX refunds_of_order ON refunds (account_id, order_id);
CREATE INDEX refunds_newest ON refunds (created_at, id);
CREATE INDEX refunds_due ON refunds (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX refunds_open ON refunds (state, created_at) WHERE state IN ('approval', 'due', 'pending', 'failed');
CREATE UNIQUE INDEX refunds_by_reference ON refunds (charge_id, order_id, reference) WHERE reference IS NOT NULL;
CREATE INDEX refunds_of_charge ON refunds (charge_id) WHERE charge_id IS NOT NULL;
CREATE INDEX refunds_by_return ON refunds USING gin (return_ids) WHERE method = 'bank';
CREATE INDEX refunds_made ON refunds (organisation_id, mode, settled_at)
    WHERE state = 'succeeded';
CREATE TRIGGER refunds_not_while_held BEFORE INSERT ON refunds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- Payments that a payer disputes at their bank.
CREATE TABLE disputes (
    account_id       text NOT NULL,
    id               text NOT NULL UNIQUE,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- A dispute of a charge that paid for an invoice concerns all its orders: it names none.
    order_id         text,
    charge_id        text NOT NULL,
    -- The gateway's id.
    reference        text NOT NULL,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    -- What the gateway has taken back from the seller: nothing during an inquiry, or once the dispute is won.
    withdrawn_minor  bigint NOT NULL CHECK (withdrawn_minor BETWEEN 0 AND amount_minor),
    currency         currency NOT NULL,
    reason           text NOT NULL,
    state            text NOT NULL CHECK (state IN ('opened', 'won', 'lost')),
    evidence_due     timestamptz,
    opened_at        timestamptz NOT NULL,
    recorded_at      timestamptz NOT NULL,
    closed_at        timestamptz,
    -- The most that the gateway has withdrawn because of the dispute. Unlike withdrawn_minor, it stays when the dispute
    -- is won: the journal books both directions.
    taken_minor      bigint NOT NULL DEFAULT 0,
    -- When the gateway first withdrew money: an inquiry may become a dispute later.
    taken_at         timestamptz,
    -- What a person decided about the tax of one that was lost after delivery: a credit note corrects it, or it stays.
    tax_decision     text CHECK (tax_decision IN ('credited', 'kept')),
    tax_decided_at   timestamptz,
    tax_decided_by   text,
    PRIMARY KEY (account_id, id),
    UNIQUE (charge_id, reference),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((state = 'opened') = (closed_at IS NULL))
);
CREATE INDEX disputes_of_order ON disputes (account_id, order_id);
CREATE INDEX disputes_newest ON disputes (recorded_at, id);
CREATE INDEX disputes_open ON disputes (account_id, order_id) WHERE state = 'opened';
CREATE INDEX disputes_undecided ON disputes (mode) WHERE state = 'lost' AND tax_decision IS NULL;

-- Up to when each gateway was asked for refunds and disputes that no webhook has reported.
CREATE TABLE gateway_polls (
    gateway       text PRIMARY KEY,
    polled_until  timestamptz NOT NULL,
    next_poll_at  timestamptz NOT NULL
);

-- accounting ---------------------------------------------------------------------------------------------------

-- Payouts of the card gateway and the fees it kept, as its report lists them.
CREATE TABLE gateway_payouts (
    id            text PRIMARY KEY,
    mode          mode NOT NULL,
    gateway       text NOT NULL,
    -- The gateway's own id.
    payout_id     text NOT NULL,
    paid_on       date NOT NULL,
    currency      currency NOT NULL,
    amount_minor  bigint NOT NULL,
    fee_minor     bigint NOT NULL,
    -- The line of a bank statement that shows it.
    transfer_id   text UNIQUE REFERENCES bank_transfers,
    imported_at   timestamptz NOT NULL,
    imported_by   text NOT NULL,
    UNIQUE (gateway, payout_id, currency)
);
CREATE INDEX gateway_payouts_by_date ON gateway_payouts (mode, paid_on);

-- Bank statements that an operator has uploaded and neither imported nor discarded. The row is deleted then, or after
-- a week.
CREATE TABLE statement_uploads (
    id            text PRIMARY KEY,
    mode          mode NOT NULL,
    file_name     text NOT NULL CHECK (length(file_name) BETWEEN 1 AND 200),
    content       bytea NOT NULL,
    -- How to read a CSV file, and the own account, where the file does not say so.
    date_order    text,
    decimal_mark  text,
    own_iban      text,
    uploaded_at   timestamptz NOT NULL,
    uploaded_by   text NOT NULL,
    -- The worker reads the file, and imports it when an operator has seen what that would do. It is then deleted.
    status        text NOT NULL DEFAULT 'reading' CHECK (status IN ('reading', 'read', 'refused', 'importing')),
    imported_by   text,
    imported_from text,
    next_attempt_at timestamptz DEFAULT now(),
    failures      integer NOT NULL DEFAULT 0,
    step          text NOT NULL DEFAULT '',
    done          integer NOT NULL DEFAULT 0,
    total         integer NOT NULL DEFAULT 0,
    -- What importing it would do, or its errors, as JSON.
    preview       bytea,
    CHECK ((status IN ('reading', 'importing')) = (next_attempt_at IS NOT NULL)),
    CHECK (status NOT IN ('read', 'refused') OR preview IS NOT NULL),
    CHECK (status <> 'importing' OR imported_by IS NOT NULL)
);
CREATE INDEX ON statement_uploads (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

CREATE TYPE ledger_account AS ENUM (
    'Assets:Bank', 'Assets:Card-Clearing', 'Assets:Payouts-In-Transit', 'Assets:Disputed', 'Assets:Receivables',
    'Assets:Settled-By-Hand', 'Assets:Credits', 'Liabilities:Unallocated-Receipts', 'Liabilities:Tax',
    'Liabilities:Tax-Not-Due', 'Liabilities:Deferred-Revenue', 'Equity:Resolved-By-Hand', 'Income:Offsets',
    'Income:Fees', 'Income:Refunds', 'Expenses:Cost-Of-Credits', 'Expenses:Gateway-Fees', 'Expenses:Bad-Debts',
    'Expenses:Bank-Fees', 'Expenses:Small-Differences', 'Expenses:Currency-Differences', 'Expenses:Dispute-Losses'
);

-- What is booked. A worker compares what a business event should book with what is stored for it, and adds the
-- difference as the next version. The month of `booked_on` was open then.
CREATE TABLE ledger_entries (
    id               bigint GENERATED ALWAYS AS IDENTITY,
    event_at         timestamptz NOT NULL,
    -- The previous version.
    corrects         bigint,
    booked_on        date NOT NULL,
    version          smallint NOT NULL CHECK (version > 0),
    kind             text NOT NULL,
    source_id        text NOT NULL,
    mode             mode NOT NULL,
    organisation_id  text,
    -- What people call it: the number of a document, the id of an order. Null: the source's id.
    subject          text,
    PRIMARY KEY (booked_on, id),
    UNIQUE (source_id, kind, version),
    CHECK ((version = 1) = (corrects IS NULL))
);
CREATE TRIGGER ledger_entries_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The postings of an entry sum to zero per currency. No foreign key: one statement inserts both.
CREATE TABLE ledger_postings (
    entry_id      bigint NOT NULL,
    -- Debits are positive.
    amount_minor  bigint NOT NULL,
    -- In the currency of the seller's country, if that is another one and the rate is known. Sums to zero, too.
    home_minor    bigint,
    account       ledger_account NOT NULL,
    currency      text NOT NULL,
    tax_code      text,
    home_currency text CHECK (home_currency <> currency),
    CHECK ((home_minor IS NULL) = (home_currency IS NULL)),
    -- A difference in the currency of the country alone has the amount 0.
    CHECK (amount_minor <> 0 OR home_minor <> 0)
);
CREATE INDEX ledger_postings_of_entry ON ledger_postings (entry_id);
CREATE TRIGGER ledger_postings_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_postings
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The sums of the postings, by the month in which they are booked.
CREATE TABLE ledger_totals (
    mode          mode NOT NULL,
    -- Its first day.
    month         date NOT NULL CHECK (extract(day FROM month) = 1),
    account       ledger_account NOT NULL,
    -- Empty without one, so that it can be part of the key.
    tax_code      text NOT NULL,
    currency      text NOT NULL,
    debit_minor   bigint NOT NULL CHECK (debit_minor >= 0),
    credit_minor  bigint NOT NULL CHECK (credit_minor >= 0),
    home_minor    bigint NOT NULL DEFAULT 0,
    home_currency text,
    PRIMARY KEY (mode, month, account, tax_code, currency)
) WITH (fillfactor = 50);

-- Charts of accounts of the seller's accountant. The newest one counts for open months, and never changes.
CREATE TABLE ledger_charts (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    imported_at     timestamptz NOT NULL,
    imported_by     text NOT NULL,
    consultant      integer NOT NULL CHECK (consultant > 0),
    client          integer NOT NULL CHECK (client > 0),
    account_length  smallint NOT NULL CHECK (account_length BETWEEN 4 AND 9),
    -- A month.
    year_begins     smallint NOT NULL CHECK (year_begins BETWEEN 1 AND 12),
    -- That of the books.
    currency        currency NOT NULL,
    lines           jsonb NOT NULL
);

-- Nothing is booked in a closed month. Only the last one can be reopened, by two people.
CREATE TABLE closed_months (
    id                   text PRIMARY KEY,
    mode                 mode NOT NULL,
    -- Its first day.
    month                date NOT NULL CHECK (extract(day FROM month) = 1),
    closed_at            timestamptz NOT NULL,
    closed_by            text NOT NULL,
    -- What was known then: supplies that were recorded later are not in its list of sales.
    known_until          timestamptz NOT NULL CHECK (known_until <= closed_at),
    -- Each account at the end of the month, per tax code and currency.
    balances             jsonb NOT NULL,
    -- The first and the last number of each series of documents.
    number_ranges        jsonb NOT NULL,
    -- The exchange rates of the report for the OSS, by currency: a rate that is imported later does not change it.
    oss_rates            jsonb NOT NULL,
    -- The SHA-256 of each file, by its name. Null until a worker has written them.
    digests              jsonb,
    reopen_reason        text CHECK (length(reopen_reason) BETWEEN 1 AND 500),
    reopen_requested_by  text,
    reopen_requested_at  timestamptz,
    reopened_at          timestamptz,
    CHECK (num_nonnulls(reopen_reason, reopen_requested_by, reopen_requested_at) IN (0, 3)),
    CHECK (reopened_at IS NULL OR reopen_requested_at IS NOT NULL)
);
CREATE UNIQUE INDEX closed_months_by_month ON closed_months (mode, month) WHERE reopened_at IS NULL;

-- The business events whose entries may have changed, by the table of their rows. Only triggers insert rows.
CREATE TABLE ledger_due (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    table_name  text NOT NULL,
    source_id   text NOT NULL,
    due_at      timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION note_booked_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id) VALUES (TG_TABLE_NAME, NEW.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER orders_are_booked AFTER UPDATE ON orders FOR EACH ROW
    WHEN (NEW.status IN ('complete', 'cancelled', 'failed')
          AND (OLD.status <> NEW.status OR OLD.billing_adjustment_minor <> NEW.billing_adjustment_minor))
    EXECUTE FUNCTION note_booked_row();
-- The supply makes the tax of its document due.
CREATE FUNCTION note_supplied_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'tax_documents', document.id
    FROM invoice_orders billed JOIN tax_documents document ON document.id = billed.invoice_id
    WHERE billed.account_id = NEW.account_id AND billed.order_id = NEW.id AND document.tax_point = 'supply';
    RETURN NULL;
END
$$;
CREATE TRIGGER supplies_are_booked AFTER UPDATE ON orders FOR EACH ROW
    WHEN (OLD.supplied_on IS DISTINCT FROM NEW.supplied_on) EXECUTE FUNCTION note_supplied_order();

-- A correction changes what of the tax of its invoice is due.
CREATE FUNCTION note_booked_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'tax_documents', NEW.id
    UNION ALL
    SELECT 'tax_documents',
           coalesce((SELECT invoice_id FROM credit_notes WHERE credit_notes.id = NEW.corrects), NEW.corrects)
    WHERE NEW.corrects IS NOT NULL AND NEW.tax_point <> 'invoice';
    RETURN NULL;
END
$$;
CREATE TRIGGER reductions_are_booked AFTER INSERT ON order_reductions FOR EACH ROW
    WHEN (NEW.was_billed) EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER documents_are_booked AFTER INSERT ON tax_documents FOR EACH ROW
    EXECUTE FUNCTION note_booked_document();
CREATE TRIGGER transfers_are_booked AFTER INSERT OR UPDATE ON bank_transfers FOR EACH ROW
    EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER differences_are_booked AFTER INSERT ON invoice_differences FOR EACH ROW
    EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER returns_are_booked AFTER INSERT OR UPDATE ON transfer_returns FOR EACH ROW
    WHEN (NEW.returned_at IS NOT NULL) EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER resolutions_are_booked AFTER INSERT ON transfer_resolutions FOR EACH ROW
    EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER write_offs_are_booked AFTER INSERT OR UPDATE ON write_offs FOR EACH ROW
    WHEN (NEW.booked_at IS NOT NULL) EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER payouts_are_booked AFTER INSERT ON gateway_payouts FOR EACH ROW
    EXECUTE FUNCTION note_booked_row();
CREATE TRIGGER disputes_are_booked AFTER INSERT OR UPDATE ON disputes FOR EACH ROW
    WHEN (NEW.taken_at IS NOT NULL) EXECUTE FUNCTION note_booked_row();

-- What a captured payment of an invoice pays is read from the invoice. It may make the tax due.
CREATE FUNCTION note_booked_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'invoices', NEW.id
    UNION ALL
    SELECT 'charges', charges.id FROM charge_invoices document
    JOIN charges ON charges.account_id = document.account_id AND charges.id = document.charge_id
    WHERE document.invoice_id = NEW.id AND charges.captured_minor IS NOT NULL
    UNION ALL
    SELECT 'tax_documents', id FROM tax_documents WHERE id = NEW.id AND tax_point = 'payment';
    RETURN NULL;
END
$$;
CREATE TRIGGER invoices_are_booked AFTER INSERT OR UPDATE ON invoices FOR EACH ROW
    WHEN (NOT NEW.is_prepaid) EXECUTE FUNCTION note_booked_invoice();

-- What an invoice was settled with by hand is what transfers did not pay.
CREATE FUNCTION note_booked_assignment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'transfer_assignments', NEW.id
    UNION ALL
    SELECT 'invoices', NEW.invoice_id
    UNION ALL
    SELECT 'tax_documents', id FROM tax_documents WHERE id = NEW.invoice_id AND tax_point = 'payment';
    RETURN NULL;
END
$$;
CREATE TRIGGER assignments_are_booked AFTER INSERT ON transfer_assignments FOR EACH ROW
    EXECUTE FUNCTION note_booked_assignment();

-- A dispute is about what a payment was for.
CREATE FUNCTION note_booked_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'charges', NEW.id
    UNION ALL
    SELECT 'disputes', disputes.id FROM disputes
    WHERE disputes.account_id = NEW.account_id AND disputes.charge_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER charges_are_booked AFTER INSERT OR UPDATE ON charges FOR EACH ROW
    WHEN (NEW.captured_minor IS NOT NULL) EXECUTE FUNCTION note_booked_charge();

-- What is lost in the dispute of a payment depends on its refunds.
CREATE FUNCTION note_booked_refund() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT 'refunds', NEW.id
    UNION ALL
    SELECT 'disputes', disputes.id FROM disputes
    WHERE disputes.account_id = NEW.account_id AND disputes.charge_id = NEW.charge_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER refunds_are_booked AFTER INSERT OR UPDATE ON refunds FOR EACH ROW
    WHEN (NEW.succeeded_at IS NOT NULL) EXECUTE FUNCTION note_booked_refund();

-- Only credits that an order got or lost after it was complete: the others are read when it completes.
CREATE FUNCTION note_booked_share() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    VALUES ('orders', NEW.order_id),
           ('shares', NEW.order_id || ':' || NEW.line_position || ':' || NEW.parcel_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER shares_are_booked AFTER INSERT OR UPDATE ON shares FOR EACH ROW
    WHEN (NEW.assigned_at IS NOT NULL) EXECUTE FUNCTION note_booked_share();
CREATE TRIGGER replaced_shares_are_booked AFTER INSERT OR UPDATE ON replaced_shares FOR EACH ROW
    EXECUTE FUNCTION note_booked_share();

-- The cost of a lot may become known, or change, after its credits were sold.
CREATE FUNCTION note_booked_lot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_due (table_name, source_id)
    SELECT noted.table_name, noted.source_id
    FROM (SELECT order_id, line_position, parcel_id, mode FROM shares
          UNION ALL
          SELECT order_id, line_position, parcel_id, mode FROM replaced_shares) AS share
    JOIN parcels ON parcels.mode = share.mode AND parcels.id = share.parcel_id
    CROSS JOIN LATERAL (
        VALUES ('orders', share.order_id),
               ('shares', share.order_id || ':' || share.line_position || ':' || share.parcel_id)
    ) AS noted (table_name, source_id)
    WHERE parcels.mode = NEW.mode AND parcels.lot_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER lots_are_booked AFTER UPDATE ON lots FOR EACH ROW
    WHEN ((OLD.unit_cost_minor, OLD.cost_currency) IS DISTINCT FROM (NEW.unit_cost_minor, NEW.cost_currency))
    EXECUTE FUNCTION note_booked_lot();

-- The entries of an order are found by its id alone.
CREATE INDEX orders_ended ON orders (id) WHERE status IN ('complete', 'cancelled', 'failed');

-- References to `invoices` of tables of packages before it. Integrity is worth more than the order of packages.
ALTER TABLE charges ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE charge_invoices ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE card_invoices ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE bank_transfers ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE transfer_assignments ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
ALTER TABLE transfer_returns ADD FOREIGN KEY (invoice_id) REFERENCES invoices;
