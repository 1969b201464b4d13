"""Read transcripts, tool calls and instruction files, build the static prompt, and write session notes."""
