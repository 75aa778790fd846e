"""A read from its selection to its result: which objects, which chunks, one fetch, rows in order."""

from dataclasses import replace

from zarr_vectors.exceptions import locate
from zarr_vectors.query.by_chunk import read_by_chunk
from zarr_vectors.query.by_object import read_by_object
from zarr_vectors.query.chunks import Fetch
from zarr_vectors.query.index import LevelIndex
from zarr_vectors.query.objects import resolve_objects, touching_objects
from zarr_vectors.query.result import Result
from zarr_vectors.query.selection import Selection


def read(index: LevelIndex, selection: Selection) -> Result:
    """Return what a selection means at a level."""
    with locate(store=index.group.storage.url, level=index.group.level):
        geometry = index.geometry
        fetch = Fetch(index.group)
        box = selection.bbox
        crop = not geometry.whole_by_default if selection.crop is None else selection.crop
        chosen = resolve_objects(index, selection)
        filtered = box is not None or bool(chosen.conditions)
        if filtered and index.has_objects and (geometry.by_object or not crop):
            chosen = touching_objects(index, fetch, chosen, box)
            if not crop:
                chosen, box = replace(chosen, conditions=()), None
        read_rows = read_by_object if geometry.by_object else read_by_chunk
        return read_rows(index, fetch, selection, chosen, box)
