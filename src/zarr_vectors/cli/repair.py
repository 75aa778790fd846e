"""``zv repair``: what can be rebuilt without guessing."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zarr_vectors.validate import RepairPlan, repair


def run_repair(location: str, *, apply: bool, as_json: bool) -> None:
    """Print what repair will do or has done."""
    plan = repair(location, apply=apply)
    if as_json:
        print(json.dumps(plan.to_json(), indent=2))  # noqa: T201
        return
    console = Console()
    if plan:
        console.print(_table(plan))
    for note in plan.notes:
        console.print(Text(f"can't be repaired: {note}", style="yellow"))
    console.print(_verdict(plan))


def _table(plan: RepairPlan) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold cyan")
    for heading in ("where", "what", "is", "done: becomes" if plan.applied else "becomes"):
        table.add_column(heading, overflow="fold")
    for action in plan.actions:
        table.add_row(*map(Text, (action.path, action.kind, action.before, action.after)))
    return table


def _verdict(plan: RepairPlan) -> str:
    if not plan:
        return "nothing to repair"
    changes = f"{len(plan.actions)} change{'' if len(plan.actions) == 1 else 's'}"
    return f"{changes} made" if plan.applied else f"{changes}: run again with --apply to make them"
