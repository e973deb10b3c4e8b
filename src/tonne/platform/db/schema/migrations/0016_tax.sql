-- compatible_from: 1
-- Tax profiles of organisations, and the tax that was shown at a checkout.

-- accounts -----------------------------------------------------------------------------------------------------

-- An organisation without a row, or without a treatment, is taxed as the seller's settings say.
CREATE TABLE tax_profiles (
    organisation_id text PRIMARY KEY REFERENCES organisations (id),
    treatment text CHECK (treatment IN ('none', 'standard', 'reverse_charge', 'exempt', 'outside_scope')),
    -- As a share: 0.19 is 19 %.
    rate numeric(6,5) CHECK (rate > 0 AND rate <= 1),
    country text CHECK (country ~ '^[A-Z]{2}$'),
    tax_id text CHECK (length(tax_id) BETWEEN 1 AND 50),
    legal_note text CHECK (length(legal_note) BETWEEN 1 AND 500),
    -- Printed on invoices: a purchase order number, or the Leitweg-ID of a public buyer.
    buyer_reference text CHECK (length(buyer_reference) BETWEEN 1 AND 100),
    street text CHECK (length(street) BETWEEN 1 AND 200),
    postcode text CHECK (length(postcode) BETWEEN 1 AND 20),
    city text CHECK (length(city) BETWEEN 1 AND 100),
    CHECK ((treatment IS NOT DISTINCT FROM 'standard') = (rate IS NOT NULL)),
    CHECK (treatment IS DISTINCT FROM 'reverse_charge' OR (country IS NOT NULL AND tax_id IS NOT NULL))
);

-- checkout -----------------------------------------------------------------------------------------------------

-- On top of total_cost_minor.
ALTER TABLE checkouts ADD COLUMN tax_minor bigint NOT NULL DEFAULT 0;
