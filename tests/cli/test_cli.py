"""The command as a user meets it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import zarr_vectors as zv
from zarr_vectors.cli import app, main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "points.zv"
    positions = np.random.default_rng(0).random((50, 3)) * 20
    zv.write_points(path, positions, object_ids=np.arange(50) % 3, chunk_shape=(10, 10, 10), groups=[[0, 2]])
    return path


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("info", "demo", "--version"))


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"zarr-vectors {zv.__version__}\n"


def test_info_shows_levels_and_arrays(store: Path) -> None:
    result = CliRunner().invoke(app, ["info", str(store)])
    assert result.exit_code == 0
    assert "point_cloud" in result.output
    assert "object_index" in result.output


def test_info_as_json(store: Path) -> None:
    result = CliRunner().invoke(app, ["info", str(store), "--json"])
    facts = json.loads(result.output)
    assert facts["levels"][0]["vertex_count"] == 50
    assert facts["levels"][0]["num_objects"] == 3
    assert facts["levels"][0]["num_chunks"] == len(zv.open(store)[0].chunks)
    assert "vertices" in facts["levels"][0]["arrays"]


@pytest.mark.parametrize("case", ["pyramid_points", "identity_single_chunk", "legacy_object_index", "mesh_draco"])
def test_info_of_stores_that_others_wrote(golden: Callable[[str], Path], case: str) -> None:
    result = CliRunner().invoke(app, ["info", str(golden(case) / "store.zv")])
    assert result.exit_code == 0, result.output
    assert "vertices" in result.output


def test_an_error_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zv", "info", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("zv: ")


def test_demo_writes_and_queries_every_geometry(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", str(tmp_path)])
    assert result.exit_code == 0, result.output
    kinds = {kind for path in tmp_path.glob("*.zv") for kind in zv.open(path).metadata.geometry_types}
    assert kinds == {"point_cloud", "line", "polyline", "streamline", "skeleton", "graph", "mesh"}
    assert "1 root" in result.output


def test_demo_can_be_run_twice(tmp_path: Path) -> None:
    runs = [CliRunner().invoke(app, ["demo", str(tmp_path)]) for _ in range(2)]
    assert [run.exit_code for run in runs] == [0, 0]


def test_readme_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    near, inside, shape = re.match(r"(\d+) (\d+) (\(.*?\))", result.stdout).groups()  # type: ignore[union-attr]
    assert int(near) <= int(inside)
    assert shape == "(80, 3)"
