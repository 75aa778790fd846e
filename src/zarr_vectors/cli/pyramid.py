"""``zv pyramid``: coarser levels, with progress and a table of what was made."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import zarr_vectors as zv
from zarr_vectors.exceptions import InputError
from zarr_vectors.multiresolution.plan import Factor


def run_pyramid(location: str, factors: Sequence[str] | None, options: Mapping[str, Any]) -> None:
    """Build a pyramid and print its levels."""
    console = Console()
    with zv.open(location) as store:
        wanted = None if factors is None else [parse_factor(text) for text in factors]
        with console.status("Building") as status:
            store.build_pyramid(
                wanted, progress=lambda level, what: status.update(f"Building level {level}: {what}"), **options
            )
        console.print(level_table(store))


def level_table(store: zv.Store) -> Table:
    """Return the levels of a store, to print."""
    table = Table(box=None, padding=(0, 2), header_style="bold cyan")
    for heading in ("level", "vertices", "objects", "bin", "chunk"):
        table.add_column(heading, justify="left" if heading in ("bin", "chunk") else "right")
    for level in store:
        root, meta = store.metadata, level.metadata
        present = len(level.objects) - len(level.objects.absent) if level.index.has_objects else 0
        bins, chunk = meta.bin_shape or root.bin_shape, meta.chunk_shape or root.chunk_shape
        shapes = (" x ".join(f"{size:g}" for size in shape) for shape in (bins, chunk))
        table.add_row(str(level.number), f"{meta.vertex_count:,}", f"{present:,}", *shapes)
    return table


def parse_factor(text: str) -> Factor:
    """Return the factor that ``BIN`` or ``BIN:SPARSITY`` states; BIN may have a number for each axis.

    >>> parse_factor("2:1.5"), parse_factor("2,2,1")
    ((2, 1.5), ((2, 2, 1), 1.0))
    """
    bins, _, sparsity = text.partition(":")
    try:
        numbers = tuple(int(part) for part in bins.split(","))
        return (numbers[0] if len(numbers) == 1 else numbers), float(sparsity or 1.0)
    except ValueError as error:
        raise InputError(f"a factor is BIN or BIN:SPARSITY, such as 2:1 or 2,2,1:2, not {text!r}") from error
