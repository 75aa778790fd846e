"""The command ``zv``: argument parsing only; what it does is imported when it is asked for."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from zarr_vectors._version import __version__
from zarr_vectors.exceptions import ZarrVectorsError

app = typer.Typer(
    name="zv",
    help="Keep very large vector geometry (points, lines, streamlines, skeletons, graphs, meshes) in Zarr v3 stores.",
    epilog="Start with: zv demo, then zv info on a store that it made.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="A path, a .zip file or a URL.")]


def _print_version(wanted: bool) -> None:  # noqa: FBT001  typer calls it so
    if wanted:
        typer.echo(f"zarr-vectors {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Hold the options that come before a command."""
    del version


@app.command()
def info(
    store: StoreArgument,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what is in a store: geometry, grid, levels, arrays."""
    from zarr_vectors.cli.info import print_info, print_info_json

    if as_json:
        print_info_json(store)
    else:
        print_info(store)


@app.command()
def pyramid(
    store: StoreArgument,
    *,
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="A level, relative to the one below: BIN or BIN:SPARSITY, e.g. 2:1 doubles the bins, 2:2 also keeps "
            "one object in two, 2,2,1:1 has a factor for each axis. Once for each level; without it, levels are "
            "planned by the data."
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Objects to keep: random, length, attribute or spatial_coverage.")
    ] = "random",
    attribute: Annotated[str | None, typer.Option(help="The object attribute to rank by.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random choice.")] = 0,
    links: Annotated[str, typer.Option(help="Links between levels: none, implicit or explicit.")] = "implicit",
    depth: Annotated[int, typer.Option(help="Levels that links reach over; 0 none, -1 all.")] = 1,
    renumber: Annotated[bool, typer.Option("--renumber", help="Number the kept objects anew.")] = False,
    max_vertices: Annotated[int, typer.Option(help="Planned by the data: the size of the last level.")] = 10_000,
) -> None:
    """Build coarser levels over level 0, in place of any that are there."""
    from zarr_vectors.cli.pyramid import run_pyramid

    options = {
        "sparsity_strategy": strategy,
        "sparsity_attribute": attribute,
        "sparsity_seed": seed,
        "cross_level_storage": links,
        "cross_level_depth": depth,
        "preserve_object_ids": not renumber,
        "max_vertices": max_vertices,
    }
    run_pyramid(store, factor or None, options)


@app.command()
def validate(
    store: StoreArgument,
    *,
    level: Annotated[
        int,
        typer.Option(
            min=1,
            max=5,
            help="1 structure, 2 metadata, 3 consistency, 4 conformance, 5 pyramid; each includes the last.",
        ),
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Check a store against every rule of the format; exit status 0 sound, 1 not sound, 2 could not run."""
    from zarr_vectors.cli.validate import run_validate

    raise typer.Exit(run_validate(store, level, as_json=as_json))


@app.command()
def repair(
    store: StoreArgument,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the store; without it, only say what would be.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Rebuild what follows from the data: counts, copies, capabilities, bounds, link fragments; remove leftovers."""
    from zarr_vectors.cli.repair import run_repair

    run_repair(store, apply=apply, as_json=as_json)


@app.command()
def demo(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to put the stores.")] = Path("zv-demo"),
) -> None:
    """Write one store of each geometry, ask each a question, and show what is in one."""
    from zarr_vectors.cli.demo import run_demo

    run_demo(directory)


def main() -> None:
    """Run the command; an error of ours is one line on standard error and exit status 2."""
    try:
        app()
    except ZarrVectorsError as error:
        typer.secho(f"zv: {error}", err=True, fg="red")
        sys.exit(2)
