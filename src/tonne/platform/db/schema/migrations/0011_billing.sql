-- The money of an order beyond its price: tax, where the payment is, refunds, and why the order ended.

-- orders -------------------------------------------------------------------------------------------------------

ALTER TABLE orders
    ADD COLUMN payment_state text NOT NULL DEFAULT 'unpaid'
        CHECK (payment_state IN ('unpaid', 'paid', 'refunded', 'disputed')),
    ADD COLUMN tax_treatment text NOT NULL DEFAULT 'none'
        CHECK (tax_treatment IN ('none', 'standard', 'reverse_charge', 'exempt', 'outside_scope')),
    ADD COLUMN tax_rate numeric(6, 5) NOT NULL DEFAULT 0 CHECK (tax_rate >= 0 AND tax_rate < 1),
    -- Null until the order is priced, or until it is billed on a consolidated invoice.
    ADD COLUMN tax_minor bigint CHECK (tax_minor >= 0),
    ADD COLUMN refunded_minor bigint NOT NULL DEFAULT 0
        CHECK (refunded_minor >= 0 AND refunded_minor <= total_cost_minor + coalesce(tax_minor, 0)),
    ADD COLUMN failure_reason text,
    ADD COLUMN cancellation_reason text,
    ADD COLUMN beneficiary_kind text NOT NULL DEFAULT 'organisation'
        CHECK (beneficiary_kind IN ('organisation', 'person'));

UPDATE orders SET tax_minor = 0 WHERE total_cost_minor IS NOT NULL;
UPDATE orders SET payment_state = 'paid' WHERE status IN ('paid', 'retiring', 'complete');
UPDATE orders SET cancellation_reason = CASE split_part(cancelled_by, ':', 1)
        WHEN 'key' THEN 'requested_by_client'
        WHEN 'cli' THEN 'requested_by_operator'
        WHEN 'payer' THEN 'checkout_replaced'
        ELSE CASE cancelled_by WHEN 'system:close_checkouts' THEN 'checkout_expired' ELSE 'invoice_unpaid' END
    END
WHERE status = 'cancelled' AND cancelled_by IS NOT NULL;

-- The stored JSON of each order gains the new fields at its end.
UPDATE orders SET wire_document = substring(wire_document FROM 1 FOR octet_length(wire_document) - 1) || convert_to(
    format(',"payment_state":"%s","tax":%s,"amount_due":%s,"refunded_amount":"%s","failure_reason":null,'
           '"cancellation_reason":%s,"beneficiary":{"name":%s}}',
           payment_state,
           CASE WHEN tax_minor IS NULL THEN 'null' ELSE format('"%s"', zero) END,
           coalesce((convert_from(wire_document, 'UTF8')::json -> 'total_cost')::text, 'null'),
           zero,
           coalesce(to_json(cancellation_reason)::text, 'null'),
           to_json(beneficiary_name)::text),
    'UTF8')
FROM (
    SELECT ordered.account_id AS of_account, ordered.id AS of_id,
           coalesce(ordered.beneficiary, accounts.beneficiary) AS beneficiary_name,
           CASE WHEN ordered.currency IN ('BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX',
                                          'VND', 'VUV', 'XAF', 'XOF', 'XPF') THEN '0'
                WHEN ordered.currency IN ('BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND') THEN '0.000'
                ELSE '0.00' END AS zero
    FROM orders ordered JOIN accounts ON accounts.id = ordered.account_id
) AS named
WHERE orders.account_id = named.of_account AND orders.id = named.of_id;
