"""Every number of the system, each with its reason. Nothing here is read from the environment."""

# --- the index: what every session loads -------------------------------------------------------------------------
INDEX_LINES = 200  # Claude Code loads this many lines of MEMORY.md; a longer one is cut there
INDEX_BYTES = 25_000  # and this many UTF-8 bytes, whichever comes first
INDEX_LINE_CHARS = 150  # a pointer line longer than this belongs into its topic file
INDEX_WARN_SHARE = 0.8  # a write reports the index when it is this full
INDEX_NEWEST_KEPT = 20  # over the limit, this many newest entries are kept whatever their type

# --- the files ----------------------------------------------------------------------------------------------------
HEADER_LINES = 30  # frontmatter must close within these; a scan reads no further
HEADER_BYTES = 16_384  # the same bound in bytes, for files with endless lines
FRONTMATTER_DEPTH = 4  # `metadata:` needs 2; the rest is room for keys we do not know
FILE_BYTES = 1_048_576  # larger files are listed by doctor and never read
MANIFEST_ENTRIES = 200  # what a selecting model sees
NAME_CHARS = 100  # one segment of a name
NAME_BYTES = 200  # the same in UTF-8: file systems stop at 255, and `.md` and temp marks need room
NAME_DEPTH = 8  # folders below the memory directory
TITLE_CHARS = 200  # one line; longer ones are bodies
DESCRIPTION_CHARS = 1_000  # one line; Claude Code's own reach 400
DESCRIPTION_WORDS = 3  # fewer content words than this and recall cannot judge by it

# --- the directory ------------------------------------------------------------------------------------------------
LOCK_SECONDS = 60.0  # one act takes milliseconds; 64 processes at once stay far below this
SLUG_UNITS = 200  # UTF-16 units of a project's slug before the hash is appended
