"""``zv pyramid``."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import zarr_vectors as zv
from zarr_vectors.cli import app, main
from zarr_vectors.cli.pyramid import parse_factor
from zarr_vectors.exceptions import InputError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "points.zv"
    positions = np.random.default_rng(0).random((400, 3)) * 20
    ids = np.arange(400) % 8
    sizes = {"size": np.arange(8)}
    zv.write_points(path, positions, object_ids=ids, object_attributes=sizes, chunk_shape=10, bin_shape=1)
    return path


def test_levels_as_told(store: Path) -> None:
    arguments = ["pyramid", str(store), "--factor", "2", "--factor", "2,2,1:2", "--links", "explicit", "--depth", "-1"]
    result = CliRunner().invoke(app, [*arguments, "--strategy", "attribute", "--attribute", "size", "--renumber"])
    assert result.exit_code == 0, result.output
    made = zv.open(store)
    assert made.levels == (0, 1, 2)
    assert list(made[2].metadata.bin_shape or ()) == [4, 4, 2]
    assert made[2].read().object_attributes["size"].tolist() == [4, 5, 6, 7]
    assert made[2].read().object_attributes["level0_object_id"].tolist() == [4, 5, 6, 7]
    # Vertices of dropped objects too, where they share a metavertex of level 1 with a kept one.
    assert 200 <= len(made[0].parents(2)) < 400
    lines = result.output.splitlines()
    assert [line.split()[0] for line in lines if line.split()[:1] != ["level"] and line.strip()] == ["0", "1", "2"]
    assert "4 x 4 x 2" in result.output


def test_levels_planned_by_the_data(store: Path) -> None:
    result = CliRunner().invoke(app, ["pyramid", str(store), "--max-vertices", "20"])
    assert result.exit_code == 0, result.output
    assert zv.open(store).level_for(vertices=20).metadata.vertex_count <= 20


@pytest.mark.parametrize("text", ["", "a", "2:b", "2,:1", "2:1:1"])
def test_factors_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="a factor is BIN or BIN:SPARSITY"):
        parse_factor(text)


def test_an_error_is_one_line(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["zv", "pyramid", str(store), "--factor", "1"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "a bin factor above 1" in capsys.readouterr().err
    assert zv.open(store).levels == (0,)
