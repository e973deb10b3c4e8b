-- compatible_from: 1
-- The audit log covers changes of the catalogue, which belong to no organisation, and stores what was changed.

ALTER TABLE audit_log DROP CONSTRAINT audit_log_pkey;
ALTER TABLE audit_log ADD PRIMARY KEY (id);
-- Null: an entry of the operator, which no organisation may read.
ALTER TABLE audit_log ALTER COLUMN organisation_id DROP NOT NULL;
-- Null: the change concerns both modes, or an earlier release recorded it.
ALTER TABLE audit_log ADD COLUMN mode mode;
-- The API client's network address.
ALTER TABLE audit_log ADD COLUMN address text;
-- The values that changed. `before` is null for a new object, `after` for a deleted one.
ALTER TABLE audit_log ADD COLUMN before jsonb CHECK (jsonb_typeof(before) = 'object');
ALTER TABLE audit_log ADD COLUMN after jsonb CHECK (jsonb_typeof(after) = 'object');
CREATE INDEX audit_log_by_organisation ON audit_log (organisation_id, at, id);
CREATE INDEX audit_log_by_subject ON audit_log (subject_id, at, id);
CREATE INDEX audit_log_by_time ON audit_log (at, id);

-- The API key that placed the order. Null: it was placed by a checkout, a command, or an earlier release.
ALTER TABLE orders ADD COLUMN placed_by_key text;
