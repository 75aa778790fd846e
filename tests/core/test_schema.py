import json
import subprocess
import sys
from pathlib import Path

from zarr_vectors.core.schema import schemas, write_schemas

PUBLISHED = Path(__file__).parents[2] / "docs" / "schema"


def test_published_schemas_are_those_of_the_models() -> None:
    published = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in PUBLISHED.iterdir()}
    assert published == schemas(), "run `make schema`"


def test_schemas_are_written_the_same_twice(tmp_path: Path) -> None:
    write_schemas(tmp_path / "a")
    command = [sys.executable, "-m", "zarr_vectors.core.schema", str(tmp_path / "b")]
    subprocess.run(command, check=True, cwd=tmp_path)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert len(list((tmp_path / "b").iterdir())) == 3


def test_schemas_say_what_they_are() -> None:
    for name, schema in schemas().items():
        assert schema["$id"] == f"urn:zarr-vectors:0.7:{name}"
        assert schema["title"]
    assert "multiscale" not in schemas()["root"]["$defs"]["RootMetadata"]["properties"]
    assert "groupings_attribute" in schemas()["array"]["$defs"]["ArrayMetadata"]["properties"]["zv_array"]["enum"]
