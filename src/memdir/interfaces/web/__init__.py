"""What memdir serves over HTTP."""
