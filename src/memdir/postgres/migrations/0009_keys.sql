-- What an idempotency key was used for, so that it is not taken for another request.

CREATE TABLE memdir.idempotency (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    key text NOT NULL,
    digest text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);
ALTER TABLE memdir.idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.idempotency USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.idempotency AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));
GRANT SELECT, INSERT, DELETE ON memdir.idempotency TO memdir_app;
