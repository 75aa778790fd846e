"""JSON schemas of the metadata, from the models: ``python -m zarr_vectors.core.schema DIR`` writes them.

>>> sorted(schemas())
['array', 'level', 'root']
>>> schemas()["level"]["required"]
['zarr_vectors_level']
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from zarr_vectors.constants import NEWEST_READABLE
from zarr_vectors.core.metadata import (
    ARRAYS_KEY,
    LEVEL_KEY,
    MULTISCALES_KEY,
    ROOT_KEY,
    ArrayMetadata,
    FormatModel,
    LevelMetadata,
    Multiscale,
    RootMetadata,
)

Schema = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_VERSION: Final = ".".join(map(str, NEWEST_READABLE))


def schemas() -> dict[str, Schema]:
    """Return the schema of each kind of attributes: of the root group, of a level group, of an array's group."""
    array = _definitions(ArrayMetadata)
    return {
        "root": _document(
            "root",
            "Attributes of the root group",
            {ROOT_KEY: _reference(RootMetadata), MULTISCALES_KEY: {"type": "array", "items": _reference(Multiscale)}},
            required=ROOT_KEY,
            definitions=_root_definitions(),
        ),
        "level": _document(
            "level",
            "Attributes of a level group",
            {
                LEVEL_KEY: _reference(LevelMetadata),
                ARRAYS_KEY: {"type": "object", "additionalProperties": _reference(ArrayMetadata)},
            },
            required=LEVEL_KEY,
            definitions=_definitions(LevelMetadata) | array,
        ),
        "array": _head("array", "Attributes of an array's group") | _reference(ArrayMetadata) | {"$defs": array},
    }


def write_schemas(directory: Path) -> None:
    """Write each schema to ``<name>.schema.json``; the same models give the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (directory / f"{name}.schema.json").write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


def _document(name: str, title: str, properties: Schema, *, required: str, definitions: Schema) -> Schema:
    body = {"type": "object", "properties": properties, "required": [required], "$defs": definitions}
    return _head(name, title) | body


def _head(name: str, title: str) -> Schema:
    return {"$schema": _DIALECT, "$id": f"urn:zarr-vectors:{_VERSION}:{name}", "title": f"{title}, format {_VERSION}"}


def _definitions(*models: type[FormatModel]) -> Schema:
    _, schema = models_json_schema([(model, "validation") for model in models])
    definitions: Schema = schema["$defs"]
    return definitions


def _root_definitions() -> Schema:
    definitions = _definitions(RootMetadata, Multiscale)
    # The model holds the NGFF block too; in the document it stands beside the block.
    del definitions[RootMetadata.__name__]["properties"]["multiscale"]
    return definitions


def _reference(model: type[FormatModel]) -> Schema:
    return {"$ref": f"#/$defs/{model.__name__}"}


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
