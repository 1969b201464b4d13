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

# --- recall -------------------------------------------------------------------------------------------------------
SELECTED = 5  # memories a turn; more than that is noise to the reader
SELECT_TOKENS = 256  # five file names as JSON need about a hundred
MANIFEST_NEWEST = 20  # of a larger directory the newest are shown to a model whatever their score
SURFACED_LINES = 200  # of one memory
SURFACED_BYTES = 4_096  # of one memory, whichever comes first; the rest is a file to read
CONVERSATION_BYTES = 60_000  # of all memories in one conversation, until it is compacted or cleared
LEDGER_ROWS = 10_000  # newest kept; at five a turn that is two thousand turns
LEDGER_QUERY_CHARS = 500  # enough to recognise a query; a pasted log is not kept
SESSION_DAYS = 60  # a conversation that nobody went on with for so long is over
SESSION_BYTES = 1_048_576  # a record larger than this is not one of ours
SESSION_SECONDS = 0.5  # how long a record is waited for: recall has one second in a hook
