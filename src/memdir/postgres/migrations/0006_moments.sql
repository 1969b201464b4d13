-- The moment at which a memory was shown (`records.Moment`).

ALTER TABLE memdir.recalls ADD COLUMN moment text NOT NULL DEFAULT 'prompt';
