-- compatible_from: 27
-- transaction: none

ALTER TABLE events VALIDATE CONSTRAINT events_bounds;
ALTER TABLE webhook_attempts VALIDATE CONSTRAINT webhook_attempts_bounds;
ALTER TABLE mails VALIDATE CONSTRAINT mails_bounds;
