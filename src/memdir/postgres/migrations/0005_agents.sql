-- Whether agents change a store of a team without review: by default they do not (docs/server.md).

ALTER TABLE memdir.stores ADD COLUMN agents boolean NOT NULL DEFAULT false;
