-- What any server process needs to answer any request: sessions of the page, logins at the provider that have begun, and rates. Neither logins nor
-- addresses that failed to log in belong to a tenant; a rate of theirs has the zero tenant.

CREATE TABLE memdir.sessions (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    key bytea NOT NULL,
    token uuid,
    subject text NOT NULL DEFAULT '',
    groups text[] NOT NULL DEFAULT '{}',
    until timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE TABLE memdir.logins (
    key bytea PRIMARY KEY,
    data text NOT NULL,
    until timestamptz NOT NULL
);

CREATE TABLE memdir.rates (
    tenant uuid NOT NULL,
    key text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- A group of the provider gives its people a role.
CREATE TABLE memdir.groups (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    name text NOT NULL,
    role text NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- The IDs of memories that were renamed; those of others are made from their path.
CREATE TABLE memdir.aliases (
    tenant uuid NOT NULL,
    store uuid NOT NULL,
    id text NOT NULL,
    path text NOT NULL,
    PRIMARY KEY (tenant, store, id),
    FOREIGN KEY (tenant, store) REFERENCES memdir.stores ON DELETE CASCADE
);

ALTER TABLE memdir.idempotency ADD COLUMN status integer, ADD COLUMN answer text;
ALTER TABLE memdir.stores ADD COLUMN title text NOT NULL DEFAULT '', ADD COLUMN description text NOT NULL DEFAULT '', ADD COLUMN metadata text NOT NULL DEFAULT '{}', ADD COLUMN updated timestamptz NOT NULL DEFAULT now(), ADD COLUMN archived timestamptz, ADD COLUMN pruned bigint NOT NULL DEFAULT 0;
ALTER TABLE memdir.contents ADD COLUMN redacted timestamptz;

-- How long history and audit are kept, null for ever. `upkeep` says when it was last looked after, by any process; like `queue` it has IDs only.
ALTER TABLE memdir.tenants ADD COLUMN history_days integer, ADD COLUMN audit_days integer;
CREATE TABLE memdir.upkeep (
    tenant uuid PRIMARY KEY,
    tidied timestamptz NOT NULL DEFAULT 'epoch'
);
INSERT INTO memdir.upkeep (tenant) SELECT tenant FROM memdir.directory;

ALTER TABLE memdir.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.sessions USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.sessions AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.rates ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.rates FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.rates USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.rates AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.groups ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.groups FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.groups USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.groups AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.aliases ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.aliases FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.aliases USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.aliases AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

-- Of the audit log the application removes what is older than it is kept, and empties the target of what names a purged memory. No grants on
-- columns, which not every engine has.
CREATE POLICY expired ON memdir.audit AS RESTRICTIVE FOR DELETE USING (at < now() - (SELECT audit_days FROM memdir.tenants t WHERE t.tenant = audit.tenant) * interval '1 day');
CREATE POLICY purged ON memdir.audit AS RESTRICTIVE FOR UPDATE WITH CHECK (target = '');

GRANT SELECT, INSERT, UPDATE, DELETE ON memdir.sessions, memdir.logins, memdir.rates, memdir.groups, memdir.aliases TO memdir_app;
GRANT UPDATE, DELETE ON memdir.audit TO memdir_app;
GRANT UPDATE ON memdir.idempotency TO memdir_app;
GRANT SELECT, INSERT, UPDATE ON memdir.upkeep TO memdir_app;
