"""Every limit of the system with its reason. Nothing here is read from the environment."""

# --- the index, which every session loads -------------------------------------------------------------------------
INDEX_LINES = 200  # Claude Code loads this many lines of MEMORY.md; a longer one is cut there
INDEX_BYTES = 25_000  # and this many UTF-8 bytes, whichever comes first
INDEX_LINE_CHARS = 150  # of an index line; details belong into the memory
INDEX_WARN_SHARE = 0.8  # a write reports the index when it is this full
INDEX_NEWEST_KEPT = 20  # above the limit, this many newest entries are kept regardless of type

# --- the files ----------------------------------------------------------------------------------------------------
HEADER_LINES = 30  # frontmatter must close within these; a scan reads no further
HEADER_BYTES = 16_384  # the same bound in bytes, for files with endless lines
FRONTMATTER_DEPTH = 4  # `metadata:` needs 2; the rest is for unknown keys
FILE_BYTES = 1_048_576  # larger files are listed by doctor and never read
INDEX_FILE_BYTES = 67_108_864  # of a MEMORY.md: a line for each of 500,000 memories; larger ones are not changed
MANIFEST_ENTRIES = 200  # shown to a selecting model
NAME_CHARS = 100  # one segment of a name
NAME_BYTES = 200  # the same in UTF-8: file systems stop at 255, and `.md` and temporary names need some
NAME_DEPTH = 8  # folders below the memory directory
TITLE_CHARS = 200  # one line; longer ones are bodies
DESCRIPTION_CHARS = 1_000  # one line; Claude Code's own reach 400
DESCRIPTION_WORDS = 3  # with fewer content words, recall cannot use it
CUES = 5  # of one memory
CUE_CHARS = 120
WHEN_ENTRIES = 8  # paths, commands and expressions of one memory together
WHEN_CHARS = 200  # of one entry
RULES = 30  # standing rules of a conversation; more would be read as little as a long instruction file
RECOGNISED_RULES = 12  # of these, recognised from their headers: a guess must not crowd out the index
RULE_CHARS = 200  # of one rule in a list
RULES_CHARS = 3_000  # of the list: at a start, half of what the index may have
RULE_SHORT_CHARS = 100  # of one rule when the list is repeated
RULES_PROMPTS = 40  # prompts of a conversation after which the rules are repeated

# --- the directory ------------------------------------------------------------------------------------------------
LOCK_SECONDS = 60.0  # one change takes milliseconds; 64 processes at once stay far below this
SLUG_UNITS = 200  # UTF-16 units of a project's slug before the hash is appended

# --- recall -------------------------------------------------------------------------------------------------------
SELECTED = 5  # memories per turn; more would be noise to the reader
SHOWN = 2  # memories per turn without a model: the third is right in one of twenty prompts
SELECT_TOKENS = 256  # five file names as JSON need about a hundred
MANIFEST_NEWEST = 20  # of a larger directory, this many newest are shown to a model regardless of score
NOT_USEFUL_TIMES = 3  # a memory was shown for nothing; then it must fit better
SURFACED_LINES = 200  # of one memory
SURFACED_BYTES = 4_096  # of one memory, whichever comes first; the rest is a file to read
TRIGGERS = 16  # derived from one memory
ACTION_CHARS = 32_768  # of a command or text that expressions are searched in; a larger file is generated
ACTION_SECONDS = 0.1  # of matching expressions at one action; usually it takes less than a millisecond
ACTION_SHOWN = 2  # memories at one action
ACTION_TURN = 4  # memories at all actions of a turn
CONVERSATION_BYTES = 60_000  # of all memories in one conversation, until it is compacted or cleared
LEDGER_ROWS = 10_000  # newest kept; at five per turn that is two thousand turns
RECALL_CHARS = 16_000  # of a prompt: start and end of a pasted log or file are enough to search by
LEDGER_QUERY_CHARS = 500  # enough to recognise a query; a pasted log is not kept
SESSION_DAYS = 60  # a conversation without a turn for this long is over
SESSION_BYTES = 1_048_576  # memdir writes no larger record
SESSION_SECONDS = 0.5  # how long to wait for a record: recall has one second in a hook

# --- the fork and extraction --------------------------------------------------------------------------------------
FORK_TURNS = 5  # read, write, and some to correct a refused call
FORK_CALLS = 20  # in all turns together
FORK_WRITTEN_BYTES = 65_536  # of all writes together: a turn's worth of memories is a few KB
FORK_TOKENS = 8_192  # of one answer: several memories written at once
FORK_READ_BYTES = 65_536  # of one file that a tool shows
FORK_HITS = 100  # lines of one search or listing
EXTRACT_WINDOW = 40  # messages that count if the cursor's own is missing
EXTRACT_SLICE_CHARS = 120_000  # of a conversation in one request; the newest are kept
FOREIGN_RUNS = 60_000  # hashes of runs of words and letters of untrusted text, per conversation
OPINION_CHARS = 24_000  # of typed text in a request for a second opinion; the newest are kept
OPINION_TOKENS = 1_024
EXTRACT_TRIES = 3  # failed runs over the same messages before they are finished without a model
DRAIN_SECONDS = 60.0  # how long an exit waits for running work

# --- dreams and daily logs ----------------------------------------------------------------------------------------
DREAM_HOURS = 24.0  # between two dreams
DREAM_SESSIONS = 5  # conversations that make one worthwhile
DREAM_SCAN_MINUTES = 10.0  # between two counts, which read every transcript of every project
DREAM_SCAN_KEPT = 100  # conversations a count keeps by id; far more than needed
DREAM_LATE_MINUTES = 60.0  # a dream takes minutes: a longer one is reported, and another program's lock is ignored
DREAM_TURNS = 12  # of a model: read, gather, write, prune, and a few more to correct refused calls
DREAM_CALLS = 60  # in all turns together
DREAM_WRITTEN_BYTES = 131_072  # of all writes together: twice an extraction's, because merging rewrites complete files
DREAM_LINES = 500  # of an index that one dream changes
DREAM_OPERATIONS = 60  # of a model that answers at once
DREAM_LOG_CHARS = 60_000  # of daily logs in one dream, about 15,000 tokens; the rest waits for the next
DREAM_TEXT_CHARS = 60_000  # of memories in one request to a model that cannot read files
DREAM_EXCERPTS = 8  # of one search through transcripts, a line each
DREAM_DRIFTED = 20  # memories reported as old
DREAM_CUED = 45  # memories without cues, and without `when`, that a dream is asked to write some for
DREAM_VERIFY_SECONDS = 20.0  # for git history, before a dream examines outdated memories
DREAM_REVIEWS = 3  # memories put in the inbox to ask whether they still hold
DREAM_REVIEW_LIVES = 3  # half-lives until that question
DREAM_GONE_SHARE = 0.2  # of all memories; if a model removes more, that needs review
DREAM_GONE_LEAST = 3  # this many may always be removed, because one is a large share of a small directory
DREAM_OPINION_CHARS = 6_000  # of the texts in which the second check looks for the sentences of one change
DREAM_FAILURES = 3  # of a model in a row, after which one dream continues without it
DREAM_SETS = 20  # kept to be applied or viewed later
LOG_ENTRY_CHARS = 8_000  # of one entry; a longer text belongs into a file
LOG_BYTES = 4_194_304  # of one day; about forty thousand entries

# --- session notes ------------------------------------------------------------------------------------------------
NOTES_START_TOKENS = 10_000  # of a conversation before its first notes
NOTES_STEP_TOKENS = 5_000  # more, before they are updated
NOTES_CALLS = 3  # tool calls since then; fewer delay the update, unless a turn had none at all
NOTES_SECTION_TOKENS = 2_000
NOTES_TOKENS = 12_000  # of all sections, with which a compacted conversation begins
NOTES_WAIT_SECONDS = 15.0  # how long a compaction waits for an update that is running
NOTES_DIGEST_CHARS = 6_000  # of the notes in a hook's answer
NOTES_BYTES = 262_144  # of the file; five times the limits in tokens

# --- instruction files --------------------------------------------------------------------------------------------
INSTRUCTION_CHARS = 40_000  # a longer file is loaded and flagged: about 10,000 tokens of every conversation
INSTRUCTION_FILES = 500  # loaded at once; real projects have a dozen, the largest monorepos some fifty
INSTRUCTION_TOTAL_BYTES = 4_194_304  # read at once, refused texts too: more than any model's window
INCLUDE_DEPTH = 5  # counted from the file that is not included
INCLUDE_TRIES = 2_000  # mentions of `@path` looked up at once; each costs a handful of system calls
INCLUDE_ASKS = 20  # new approvals asked for in one load; a clone must not fill the inbox
RULE_ENTRIES = 2_000  # entries listed below one rules folder
RULE_DEPTH = 8  # folders below a rules folder
RULE_HEAD_LINES = 200  # a rule's `paths:` may be a long list
GLOB_CHARS = 1_000  # of one pattern; a path itself has 4,096 at most
GLOB_PATTERNS = 1_000  # of one rule, or of all exclusions, after the braces are expanded; Claude Code's own budget

# --- models -------------------------------------------------------------------------------------------------------
MODEL_TRIES = 3  # of one request, including the first
MODEL_RETRY_SECONDS = 90.0  # from the first try: later ones neither start nor continue after this
MODEL_SECONDS = 60.0  # how long an endpoint may be silent
MODEL_WHOLE_SECONDS = 600.0  # one answer from beginning to end
MODEL_CONNECT_SECONDS = 10.0
STREAM_TOKENS = 2_048  # a longer answer is streamed: silence until its end would look like a dead endpoint
THINKING_TOKENS = 4_096  # added for a model whose thinking counts as output and used up the limit
RUN_TOKENS = 500_000  # of one run; a fork of a long conversation takes a fifth of it
DAY_TOKENS = (
    1_000_000  # of one day; about a hundred turns with something to learn, $2.50 at the price of a middle model
)
CACHED_WEIGHT = 0.1  # of a token read from a provider's cache, which is what it costs
USAGE_DAYS = 400  # a year of weeks, and the same week a year ago
USAGE_ROWS = 200_000  # newest kept

# --- hooks --------------------------------------------------------------------------------------------------------
HOOK_PROMPT_SECONDS = 1.0  # the user waits for a prompt, an agent for a tool
HOOK_START_SECONDS = 2.0  # once per conversation
HOOK_SECONDS = 0.3  # everything else only writes a record
HOOK_CHARS = 9_500  # of one answer: Claude Code puts more than 10,000 into a file that is not read
HOOK_TOKENS = 2_400  # the same for Codex, whose limit is 2,500
HOOK_LEAST_CHARS = 600  # with less space for a memory, one line says where it is
HOOK_INDEX_CHARS = 6_000  # of the index, for hosts that do not load it

# --- age ----------------------------------------------------------------------------------------------------------
# Days after which a memory counts half as fresh, by type: plans change within weeks, systems within a quarter, people
# within a year, and preferences do not expire.
HALF_LIFE_PROJECT = 30
HALF_LIFE_REFERENCE = 90
HALF_LIFE_USER = 365
HALF_LIFE_FEEDBACK = 0

# --- verification -------------------------------------------------------------------------------------------------
CLAIMS = 500  # of one memory; the largest real one seen has 60
VERIFY_FILES = 200_000  # of a project; a listing longer than this is cut, and nothing in it counts as gone
VERIFY_FILE_BYTES = 1_048_576  # searched of one file: what is longer is data, or made by a program
VERIFY_BYTES = 536_870_912  # searched in all; where there is more, no word counts as gone
VERIFY_GIT_SECONDS = 30.0  # one listing, or one query next to it
VERIFY_PAST_SECONDS = 10.0  # of git history, newest first; what lies further back is not known
VERIFY_REFRESH_SECONDS = 60.0  # of one run in the background
VERIFY_EVERY_MINUTES = 10  # between two runs in the background

# --- team sync ----------------------------------------------------------------------------------------------------
TEAM_FETCH_BYTES = 67_108_864  # of one fetch: all that a large team has written in years, packed
TEAM_ENTRIES = 5_000  # files in a team's branch; if there are more, none of them is taken
TEAM_BYTES = 16_777_216  # of all files that are new in one sync: each is searched for secrets, which takes time
SYNC_ENTRIES = 200_000  # files of all of a person's projects
SYNC_BYTES = 268_435_456  # of all files of one project that are new in one sync of a person's own machines
TEAM_SECONDS = 60.0  # one sync from beginning to end
TEAM_TRIES = 12  # of a push that others were quicker than; each time the merge is made again
TEAM_NEWS = 100  # newest kept
TEAM_LOG = 5_000  # commits looked at
SYNC_DUE_MINUTES = 5  # the same for a person's own machines
TEAM_DUE_MINUTES = 15  # between two syncs in the background

# --- import -------------------------------------------------------------------------------------------------------
IMPORT_BYTES = 67_108_864  # of one source, unpacked: ten thousand memories are some 20 MB
EXPORT_BYTES = 536_870_912  # of a chat service's export, unpacked: years of conversations are some 200 MB
EXPORT_RATIO = 200  # JSON compresses to about a tenth; a much smaller file is meant to fill memory
IMPORT_FILES = 20_000  # of one source
IMPORT_ITEMS = 20_000  # things in one file that could become memories

# Agent definitions: users have some dozens; a clone with thousands must not delay a start.
AGENT_FILES = 1_000
AGENT_DEPTH = 5
