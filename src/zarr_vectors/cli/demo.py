"""``zv demo``: one store of each geometry, written, opened again and asked questions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

import zarr_vectors as zv
from zarr_vectors.cli import samples
from zarr_vectors.cli.info import describe
from zarr_vectors.cli.plot import draw_levels
from zarr_vectors.cli.pyramid import level_table
from zarr_vectors.exceptions import MissingDependencyError

MICRONS = [{"name": name, "type": "space", "unit": "micrometer"} for name in "xyz"]
PARSECS = [{"name": name, "type": "space", "unit": "parsec"} for name in "xyz"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One store of the demo: how it is written, and a question to it."""

    name: str
    write: Callable[[Path], zv.WriteSummary]
    question: str
    answer: Callable[[zv.Level], str]


def run_demo(directory: Path) -> None:
    """Write one store of each geometry, query it, and print what was found."""
    console = Console()
    written = Table(title="Written", title_justify="left", box=None, padding=(0, 2), header_style="bold cyan")
    for heading in ("store", "vertices", "objects", "links", "chunks", "kB", "ms"):
        written.add_column(heading, justify="left" if heading == "store" else "right")
    answers = Table(title="Asked", title_justify="left", box=None, padding=(0, 2), header_style="bold cyan")
    for heading in ("store", "question", "answer"):
        answers.add_column(heading)
    for sample in track(SAMPLES, description="Writing and reading", console=console, transient=True):
        path = directory / f"{sample.name}.zv"
        written.add_row(sample.name, *_figures(sample.write(path)))
        with zv.open(path) as store:
            answers.add_row(sample.name, sample.question, sample.answer(store[0]))
    console.print(written, "", answers, "")
    with zv.open(directory / "galaxy.zv") as store:
        console.print(describe(store))
        arm = store[0].objects[1].read().positions
        console.print(f"\nArm 1 of the galaxy, {len(arm):,} of its stars, seen from above:\n")
        console.print(density_picture(arm))
    _build_pyramid(console, directory)
    console.print(f"The stores are in [bold]{directory}[/bold]; look at one with [bold]zv info[/bold].")


def _build_pyramid(console: Console, directory: Path) -> None:
    """Give the bundle of streamlines coarser levels, and draw them side by side where matplotlib is there."""
    with zv.open(directory / "bundle.zv") as store:
        store.build_pyramid([(2, 1.0), (2, 2.0), (2, 2.0)])
        console.print("The bundle as a pyramid: streamlines that pass through one bin share its vertex.\n")
        console.print(level_table(store), "")
        picture = directory / "bundle.png"
        try:
            draw_levels(store, picture, title="A bundle of streamlines and its coarser levels")
        except MissingDependencyError as error:
            console.print(f"No picture of it: {error}.")
        else:
            console.print(f"Drawn to [bold]{picture}[/bold].")


def density_picture(positions: npt.NDArray[np.generic], width: int = 72, height: int = 24) -> Text:
    """Return a picture of the first two axes, in characters and colours by density."""
    plane = positions[:, :2].astype(np.float64)
    counts, _, _ = np.histogram2d(plane[:, 1], plane[:, 0], bins=(height, width), range=[[-95, 95], [-95, 95]])
    shades = np.minimum(np.ceil(np.log1p(counts[::-1]) * 2), 8).astype(int)
    colours = ("black", "grey30", "blue", "blue", "cyan", "cyan", "yellow", "yellow", "bright_white")
    picture = Text()
    for row in shades.tolist():
        for shade in row:
            picture.append(" .:-=+*#@"[shade], style=colours[shade])
        picture.append("\n")
    return picture


def _figures(summary: zv.WriteSummary) -> Sequence[str]:
    return (
        f"{summary.vertices:,}",
        f"{summary.objects:,}",
        f"{summary.links:,}",
        f"{summary.chunks:,}",
        f"{summary.bytes / 1e3:,.0f}",
        f"{summary.seconds * 1e3:,.0f}",
    )


def _write_galaxy(path: Path) -> zv.WriteSummary:
    galaxy = samples.make_galaxy()
    return zv.write_points(
        path,
        galaxy.positions,
        object_ids=galaxy.arms,
        vertex_attributes={"brightness": galaxy.brightness},
        object_attributes={"luminosity": np.bincount(galaxy.arms, weights=galaxy.brightness)},
        groups=[[0], [1, 2]],
        group_attributes={"survey": ["old", "new"]},
        chunk_shape=(50, 50, 50),
        bin_shape=(25, 25, 25),
        axes=PARSECS,
        mode="w",
    )


def _write_wind(path: Path) -> zv.WriteSummary:
    return zv.write_lines(path, samples.make_wind(), chunk_shape=(25, 25), mode="w")


def _write_contours(path: Path) -> zv.WriteSummary:
    rings = samples.make_contours()
    heights = 10.0 * (len(rings) - np.arange(len(rings)))
    return zv.write_polylines(path, rings, object_attributes={"height": heights}, chunk_shape=(25, 25), mode="w")


def _write_bundle(path: Path) -> zv.WriteSummary:
    values, offsets = samples.make_bundle()
    return zv.write_polylines(
        path,
        (values, offsets),
        geometry_type="streamline",
        vertex_attributes={"anisotropy": (0.4 + 0.004 * values[:, 1]).astype(np.float32)},
        object_attributes={"length": np.diff(offsets)},
        chunk_shape=(24, 24, 24),
        bin_shape=(1.5, 1.5, 1.5),
        axes=MICRONS,
        mode="w",
    )


def _write_neuron(path: Path) -> zv.WriteSummary:
    positions, parents = samples.make_neuron()
    radius = np.linspace(1.0, 0.2, len(positions), dtype=np.float32)
    return zv.write_skeletons(
        path,
        positions,
        parents=parents,
        vertex_attributes={"radius": radius},
        chunk_shape=(40, 40, 40),
        axes=MICRONS,
        mode="w",
    )


def _write_streets(path: Path) -> zv.WriteSummary:
    positions, streets = samples.make_streets()
    lengths = np.linalg.norm(positions[streets[:, 0]] - positions[streets[:, 1]], axis=1)
    return zv.write_graph(path, positions, streets, link_attributes={"length": lengths}, chunk_shape=(25, 25), mode="w")


def _write_ring(path: Path) -> zv.WriteSummary:
    vertices, faces = samples.make_torus()
    return zv.write_mesh(path, vertices, faces, chunk_shape=(25, 25, 25), mode="w")


def _bright_core(level: zv.Level) -> str:
    found = level.read(bbox=([-20, -20, -20], [20, 20, 20]), where={"brightness": (">", 0.5)})
    return f"{len(found):,} stars of {len(found.objects)} arms"


def _through_centre(level: zv.Level) -> str:
    return f"{len(level.read(bbox=([40, 40], [60, 60])).objects)} whole arrows"


def _high_ground(level: zv.Level) -> str:
    found = level.read(where={"height": (200, None)})
    return f"{len(found.polylines)} rings, {len(found):,} vertices"


def _under_arch(level: zv.Level) -> str:
    whole = level.read(bbox=([45, 30, -5], [55, 60, 5]))
    inside = level.read(bbox=([45, 30, -5], [55, 60, 5]), crop=True)
    return f"{len(whole.polylines)} streamlines; cut to the box, {len(inside.polylines)} pieces"


def _tips(level: zv.Level) -> str:
    tree = level.read().skeletons[0]
    has_child = np.zeros(len(tree.positions), dtype=np.bool_)
    has_child[tree.edges[:, 1]] = True
    return f"{int((~has_child).sum())} tips, {int((tree.parents < 0).sum())} root"


def _long_streets(level: zv.Level) -> str:
    found = level.read(bbox=([0, 0], [50, 50]))
    return f"{len(found.edges)} streets, {found.link_attributes['length'].sum():.0f} units long"


def _quarter_ring(level: zv.Level) -> str:
    mesh = level.read(bbox=([0, 0, -20], [60, 60, 20])).mesh
    return f"{len(mesh.faces):,} triangles on {len(mesh.vertices):,} vertices"


SAMPLES = (
    Sample("galaxy", _write_galaxy, "bright stars near the centre?", _bright_core),
    Sample("wind", _write_wind, "arrows that touch the middle?", _through_centre),
    Sample("contours", _write_contours, "rings above 200 m?", _high_ground),
    Sample("bundle", _write_bundle, "streamlines through the top of the arch?", _under_arch),
    Sample("neuron", _write_neuron, "how many tips has the tree?", _tips),
    Sample("streets", _write_streets, "streets of the south-west?", _long_streets),
    Sample("ring", _write_ring, "a quarter of the mesh?", _quarter_ring),
)
