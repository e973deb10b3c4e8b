-- compatible_from: 18
-- Spending limits and minimum orders, closed accounts, and what a mail is about.

-- gateways -----------------------------------------------------------------------------------------------------

-- The order, invoice or refund that the mail is about, so that it appears in the order's timeline.
ALTER TABLE mails ADD COLUMN subject_id text;
CREATE INDEX mails_of_subject ON mails (subject_id) WHERE subject_id IS NOT NULL;

-- accounts -----------------------------------------------------------------------------------------------------

-- Of a closed organisation or account, nothing new is ordered. Open orders finish, and the data stays.
ALTER TABLE organisations
    ADD COLUMN closed_at timestamptz,
    ADD COLUMN closed_reason text CHECK (length(closed_reason) BETWEEN 1 AND 500),
    ADD CHECK ((closed_at IS NULL) = (closed_reason IS NULL));
ALTER TABLE accounts
    ADD COLUMN closed_at timestamptz,
    ADD COLUMN closed_reason text CHECK (length(closed_reason) BETWEEN 1 AND 500),
    ADD CHECK ((closed_at IS NULL) = (closed_reason IS NULL)),
    -- In the account's currency; null: no limit, and the minimum of the settings.
    ADD COLUMN monthly_limit_minor bigint CHECK (monthly_limit_minor >= 0),
    ADD COLUMN minimum_order_minor bigint CHECK (minimum_order_minor >= 0);
-- In the currency of the key's default account.
ALTER TABLE api_keys ADD COLUMN monthly_limit_minor bigint CHECK (monthly_limit_minor >= 0);

-- orders -------------------------------------------------------------------------------------------------------

-- What an account or an API key with a limit has ordered in a month (UTC). Orders that were cancelled or failed later
-- may still be included: before an order is refused, the sum is computed again from the orders.
CREATE TABLE monthly_spending (
    subject_id   text NOT NULL,
    month        date NOT NULL CHECK (extract(day FROM month) = 1),
    spent_minor  bigint NOT NULL,
    PRIMARY KEY (subject_id, month)
) WITH (fillfactor = 50);
CREATE INDEX orders_by_email ON orders (lower(email)) WHERE email IS NOT NULL;

-- cards --------------------------------------------------------------------------------------------------------

-- When a worker removes the card of a closed account at the gateway; null: the account is not closed.
ALTER TABLE account_cards ADD COLUMN removal_at timestamptz;
CREATE INDEX account_cards_to_remove ON account_cards (removal_at) WHERE removal_at IS NOT NULL;
