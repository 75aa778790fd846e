"""The one write pipeline: a table of vertices to chunks, to payloads, to a committed store."""
