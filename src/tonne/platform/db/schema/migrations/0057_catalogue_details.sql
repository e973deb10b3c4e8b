-- compatible_from: 34

-- catalog ------------------------------------------------------------------------------------------------------

-- What the API tells about a project or a bundle beyond what selling it needs. `selling/catalogue/details.py` has the shapes.
ALTER TABLE projects ADD COLUMN details jsonb NOT NULL DEFAULT '{}';
ALTER TABLE bundles ADD COLUMN details jsonb NOT NULL DEFAULT '{}';
-- When the bundle was taken off sale; null if it is on sale, or never was.
ALTER TABLE bundles ADD COLUMN disabled_at timestamptz;
