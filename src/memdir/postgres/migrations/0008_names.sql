-- Names that differ only in case are one: `folded` is made by the program (`text.fold`), and was filled for old rows after 0007.

ALTER TABLE memdir.files ALTER COLUMN folded SET NOT NULL, DROP COLUMN data;
CREATE UNIQUE INDEX files_folded ON memdir.files (tenant, store, folded);
