-- compatible_from: 34
-- Pictures of projects and bundles, in two sizes.

-- catalog ------------------------------------------------------------------------------------------------------

-- Rows are shared by all projects and bundles that have the same picture, in both modes.
CREATE TABLE pictures (
    digest      text NOT NULL CHECK (digest ~ '^[0-9a-f]{32}$'),
    size        text NOT NULL CHECK (size IN ('card', 'wide')),
    content     bytea NOT NULL CHECK (length(content) <= 2097152),
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (digest, size)
);

ALTER TABLE projects ADD COLUMN picture text;
ALTER TABLE bundles ADD COLUMN picture text;
