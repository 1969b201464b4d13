"""Transcripts, tool calls, the static prompt, instruction files, and session notes of a conversation."""
