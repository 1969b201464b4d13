"""Everything about a conversation: transcripts, tool calls, the static prompt, instruction files, session notes."""
