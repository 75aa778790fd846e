"""``zv info``: a store at a glance."""

import json

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

import zarr_vectors as zv
from zarr_vectors.constants import ALL_ARRAY_NAMES, GROUPS, VERTICES
from zarr_vectors.core.metadata import ArrayMetadata, Axis
from zarr_vectors.core.object_index import count_objects


def print_info(location: str) -> None:
    """Print the store's metadata, its levels, and a tree of its arrays."""
    with zv.open(location) as store:
        Console().print(describe(store))


def print_info_json(location: str) -> None:
    """Print the same facts as JSON."""
    with zv.open(location) as store:
        facts = {
            "url": store.url,
            **store.metadata.to_attrs(),
            "levels": [
                {
                    **level.metadata.to_json(),
                    "num_chunks": len(level.group.list_chunks()),
                    "num_objects": count_objects(level.group),
                    "arrays": {path: meta.to_json() for path, meta in array_metas(level).items()},
                }
                for level in store
            ],
        }
    print(json.dumps(facts, indent=2))  # noqa: T201


def describe(store: zv.Store) -> Panel:
    """Return everything worth knowing about a store, to print."""
    root = store.metadata
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column()
    facts.add_row("format", f"{root.zv_version}, {', '.join(root.format_capabilities) or 'no capabilities'}")
    facts.add_row("geometry", ", ".join(root.geometry_types))
    facts.add_row("axes", ", ".join(map(_axis, root.axes)))
    facts.add_row("bounds", " to ".join(_numbers(corner) for corner in root.bounds))
    facts.add_row("chunk, bin", f"{_numbers(root.chunk_shape)}, {_numbers(root.bin_shape)}")
    facts.add_row("links, objects", f"{root.links_convention}, {root.object_index_convention}")
    parts: list[RenderableType] = [facts, Text(), _level_table(store), Text(), _array_tree(store)]
    if root.unknown_capabilities:
        parts.insert(1, Text(f"unknown capabilities: {', '.join(root.unknown_capabilities)}", style="yellow"))
    return Panel(Group(*parts), title=store.url, title_align="left", border_style="cyan", expand=False)


def array_metas(level: zv.Level) -> dict[str, ArrayMetadata]:
    """Return the metadata of all arrays of a level, by path, in the format's order."""
    paths = [path for name in ALL_ARRAY_NAMES for path in level.group.list_arrays(name)]
    return {path: level.group.read_array_meta(path) for path in paths}


def _level_table(store: zv.Store) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold cyan")
    for heading in ("level", "vertices", "chunks", "objects", "groups", "bin", "chunk"):
        table.add_column(heading, justify="left" if heading in ("bin", "chunk") else "right")
    for level in store:
        metas = array_metas(level)
        groups = metas[GROUPS].num_groups if GROUPS in metas else None
        table.add_row(
            str(level.number),
            f"{level.metadata.vertex_count:,}",
            f"{len(level.group.list_chunks()):,}" if VERTICES in metas else "-",
            f"{count_objects(level.group):,}",
            "-" if groups is None else f"{groups:,}",
            _numbers(level.metadata.bin_shape or store.metadata.bin_shape),
            _numbers(level.metadata.chunk_shape or store.metadata.chunk_shape),
        )
    return table


def _array_tree(store: zv.Store) -> Tree:
    tree = Tree("[bold]arrays[/bold]", guide_style="dim")
    for level in store:
        branch = tree.add(f"[cyan]{level.number}/[/cyan]")
        for path, meta in array_metas(level).items():
            branch.add(Text.assemble(path, "  ", (_array_facts(meta), "dim")))
    return tree


def _array_facts(meta: ArrayMetadata) -> str:
    counts = {"objects": meta.num_objects, "groups": meta.num_groups, "links": meta.num_links, "ends": meta.link_width}
    facts = [] if meta.dtype is None else [meta.dtype]
    if meta.shape is not None:
        facts.append("x".join(map(str, meta.shape)))
    facts += [f"{count} {noun}" for noun, count in counts.items() if count is not None]
    if meta.channel_names is not None:
        facts.append(", ".join(meta.channel_names))
    return "  ".join(facts)


def _axis(axis: Axis) -> str:
    return axis.name if axis.unit is None else f"{axis.name} ({axis.unit})"


def _numbers(values: tuple[float, ...]) -> str:
    return " x ".join(f"{value:g}" for value in values)
