"""Positions to the integer grid of chunks and bins and back; pure."""
