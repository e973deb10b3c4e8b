-- compatible_from: 34
-- transaction: none
-- Lists of orders and certificates for the dashboard: newest first, of one organisation and of all.

CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_of_organisation
    ON orders (organisation_id, mode, created_at DESC, id DESC);
-- Most orders are complete: those in another status are few, and are what people look for.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_of_organisation_by_status
    ON orders (organisation_id, mode, status, created_at DESC, id DESC) WHERE status <> 'complete';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_of_organisation_by_payment
    ON orders (organisation_id, mode, payment_state, created_at DESC, id DESC)
    WHERE payment_state IN ('refunded', 'disputed');
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_of_mode ON orders (mode, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_open ON orders (mode, created_at DESC, id DESC)
    WHERE status IN ('received', 'placed', 'paid', 'retiring');

CREATE INDEX CONCURRENTLY IF NOT EXISTS certificates_of_organisation
    ON certificates (organisation_id, mode, issued_at DESC, number DESC);
