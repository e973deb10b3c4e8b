-- compatible_from: 34
-- 0027 has moved its content to `document`.

ALTER TABLE events DROP COLUMN IF EXISTS payload;
