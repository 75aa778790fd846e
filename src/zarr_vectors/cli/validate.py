"""``zv validate``: what is wrong with a store, grouped by rule."""

import json
import sys

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from zarr_vectors.validate import LEVELS, RULES, Finding, Report, validate

SHOWN = 5
"""Findings of one rule that are printed; ``--json`` has them all."""


def run_validate(location: str, level: int, *, as_json: bool) -> int:
    """Print what is wrong with a store, and return the exit status: 0 sound, 1 not."""
    report = _validated(location, level)
    if as_json:
        print(json.dumps(report.to_json(), indent=2))  # noqa: T201
    else:
        Console().print(describe(report))
    return 0 if report.ok else 1


def _validated(location: str, level: int) -> Report:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("validate", total=None)
        return validate(
            location,
            level,
            progress=lambda what, done, total: bar.update(task, description=what, completed=done, total=total),
        )


def describe(report: Report) -> RenderableType:
    """Return a report, to print."""
    names = ", ".join(LEVELS[number][0] for number in range(1, report.level + 1))
    verdict = Text.assemble(
        ("sound", "bold green") if report.ok else ("not sound", "bold red"),
        f" at level {report.level} ({names}): {report.num_errors} errors, {report.num_warnings} warnings",
    )
    parts: list[RenderableType] = [
        Text(report.url, style="bold"),
        *(_rule(code, found, report.counts[code]) for code, found in report.by_rule().items()),
    ]
    parts.append(verdict)
    parts += [Text(f"not checked: {what}", style="yellow") for what in report.not_run]
    return Group(*parts)


def _rule(code: str, findings: list[Finding], count: int) -> RenderableType:
    rule = RULES[code]
    style = "red" if rule.severity == "error" else "yellow"
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for heading in ("where", "expected", "found"):
        table.add_column(heading, overflow="fold")
    for finding in findings[:SHOWN]:
        table.add_row(Text(finding.path), Text(finding.expected), Text(finding.found))
    head = Text.assemble((code, f"bold {style}"), f"  {rule.says}  ", (f"({rule.source})", "dim"))
    rest = count - min(len(findings), SHOWN)
    return Group(head, table, Text(f"  and {rest:,} more\n" if rest else "", style="dim"))
