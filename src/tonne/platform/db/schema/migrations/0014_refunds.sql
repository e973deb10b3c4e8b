-- Refunds, disputes, and refunds that somebody began at the gateway.

-- gateways -----------------------------------------------------------------------------------------------------

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
INSERT INTO simulated_refunds (id, reference, amount_minor, status, later, created_at)
SELECT refund_ids[1], reference, refunded_minor, 'refunded', 'refunded', created_at
FROM simulated_charges WHERE refunded_minor > 0;

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

-- accounts -----------------------------------------------------------------------------------------------------

ALTER TABLE accounts ADD COLUMN refunds_by_api boolean NOT NULL DEFAULT false;

-- cards --------------------------------------------------------------------------------------------------------

-- What the gateway captured: the requested amount, unless the charge is or was mismatched. `check_at`: when a worker
-- compares the charge with the gateway's record of refunds and disputes; null if there is no reason to.
-- `is_surplus`: it never paid for its order, because it was captured too late, a second time or with another amount. Its
-- status is then refund_due until all of it is refunded. Status refunded says that nothing is left of a charge.
ALTER TABLE charges
    ADD COLUMN captured_minor bigint CHECK (captured_minor > 0),
    ADD COLUMN captured_currency text,
    ADD COLUMN is_surplus boolean NOT NULL DEFAULT false,
    ADD COLUMN check_at timestamptz;
UPDATE charges SET captured_minor = amount_minor, captured_currency = currency,
                   is_surplus = status <> 'captured'
WHERE status IN ('captured', 'refund_due', 'refunded');
ALTER TABLE charges ADD CHECK (captured_minor IS NOT NULL OR status NOT IN ('captured', 'refund_due', 'refunded'));
CREATE INDEX charges_by_reference ON charges (reference) WHERE reference IS NOT NULL;
CREATE INDEX charges_to_check ON charges (check_at) WHERE check_at IS NOT NULL;

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
    -- cancellation: of a paid order that was cancelled. goodwill: the order stays as it is. surplus: of a payment that
    -- never paid for the order. gateway: begun at the gateway.
    purpose          text NOT NULL CHECK (purpose IN ('cancellation', 'goodwill', 'surplus', 'gateway')),
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
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, idempotency_key),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((method = 'card') = (charge_id IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (settled_at IS NOT NULL)),
    CHECK (approved_by <> requested_by)
);
CREATE INDEX refunds_of_order ON refunds (account_id, order_id);
CREATE INDEX refunds_newest ON refunds (created_at DESC, id DESC);
CREATE INDEX refunds_due ON refunds (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX refunds_open ON refunds (state, created_at) WHERE state IN ('approval', 'due', 'pending', 'failed');
CREATE UNIQUE INDEX refunds_by_reference ON refunds (charge_id, reference) WHERE reference IS NOT NULL;

-- Payments that a payer disputes at their bank.
CREATE TABLE disputes (
    account_id       text NOT NULL,
    id               text NOT NULL UNIQUE,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    order_id         text NOT NULL,
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
    PRIMARY KEY (account_id, id),
    UNIQUE (charge_id, reference),
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((state = 'opened') = (closed_at IS NULL))
);
CREATE INDEX disputes_of_order ON disputes (account_id, order_id);
CREATE INDEX disputes_newest ON disputes (recorded_at DESC, id DESC);
CREATE INDEX disputes_open ON disputes (account_id, order_id) WHERE state = 'opened';

-- Up to when each gateway was asked for refunds and disputes that no webhook has reported.
CREATE TABLE gateway_polls (
    gateway       text PRIMARY KEY,
    polled_until  timestamptz NOT NULL,
    next_poll_at  timestamptz NOT NULL
);

-- Charges that were refunded, or were about to be, under `refund_<id of the charge>`. A refund whose answer was lost is
-- found at the gateway under the same id.
INSERT INTO refunds (account_id, id, organisation_id, mode, order_id, method, charge_id, amount_minor, currency,
                     purpose, reason, state, message, requested_by, created_at, settled_at, next_attempt_at)
SELECT account_id, 'refund_' || id, organisation_id, mode, order_id, 'card', id, amount_minor, currency, 'surplus',
       'Captured after the order was cancelled', CASE status WHEN 'refunded' THEN 'succeeded' ELSE 'due' END, message,
       'system:refund_charges', settled_at, refunded_at, CASE status WHEN 'refund_due' THEN now() END
FROM charges WHERE status IN ('refund_due', 'refunded');
UPDATE charges SET next_attempt_at = NULL WHERE status = 'refund_due';
