"""Tables for notebooks."""

from collections.abc import Iterable
from html import escape


def table_html(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a small table of names and values, escaped.

    >>> table_html("Store", [("axes", "x < y")])
    '<table><caption><b>Store</b></caption><tr><th>axes</th><td>x &lt; y</td></tr></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption><b>{escape(title)}</b></caption>{body}</table>"
