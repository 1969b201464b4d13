-- What belongs to no tenant: whether anybody can log in at all, and the list of tenants for those who run the server. The application reads the
-- first and does not see the second.

CREATE TABLE memdir.server (
    name text PRIMARY KEY,
    value text NOT NULL
);
GRANT SELECT ON memdir.server TO memdir_app;

CREATE TABLE memdir.directory (
    tenant uuid PRIMARY KEY,
    name text NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);
