"""``zv validate`` and ``zv repair`` as a user meets them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import zarr_vectors as zv
from zarr_vectors.cli import app, main


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "points.zv"
    zv.write_points(path, np.random.default_rng(0).random((50, 3)) * 20, chunk_shape=(10, 10, 10))
    return path


def spoil(store: Path) -> None:
    path = store / "0" / "zarr.json"
    path.write_text(path.read_text().replace('"vertex_count": 50', '"vertex_count": 49'))


def test_a_sound_store(store: Path) -> None:
    result = CliRunner().invoke(app, ["validate", str(store)])
    assert result.exit_code == 0, result.output
    assert "sound at level 5" in result.output.replace("\n", " ")


def test_a_store_that_is_not_sound(store: Path) -> None:
    spoil(store)
    for number in range(9):
        (store / "0" / "vertices" / f"stray{number}").mkdir()
    result = CliRunner().invoke(app, ["validate", str(store)])
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "L3.vertex-count" in said
    assert "and 4 more" in said
    assert "not sound at level 5" in said
    assert CliRunner().invoke(app, ["validate", str(store), "--level", "2"]).exit_code == 1


def test_warnings_alone_are_fine(store: Path) -> None:
    (store / "notes.txt").write_text("remember")
    result = CliRunner().invoke(app, ["validate", str(store)])
    assert result.exit_code == 0
    assert "L1.stray-node" in result.output


def test_as_json(store: Path) -> None:
    spoil(store)
    result = CliRunner().invoke(app, ["validate", str(store), "--json"])
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["counts"] == {"L3.vertex-count": 1}
    assert report["findings"][0]["found"] == "49"


def test_a_level_that_does_not_exist(store: Path) -> None:
    assert CliRunner().invoke(app, ["validate", str(store), "--level", "6"]).exit_code == 2


@pytest.mark.parametrize("command", ["validate", "repair"])
def test_no_store_is_status_2(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zv", command, str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("zv: ")


def test_repair_says_and_does(store: Path) -> None:
    assert "nothing to repair" in CliRunner().invoke(app, ["repair", str(store)]).output
    spoil(store)
    planned = CliRunner().invoke(app, ["repair", str(store)])
    assert planned.exit_code == 0
    assert "vertex_count" in planned.output
    assert "--apply" in planned.output
    assert CliRunner().invoke(app, ["validate", str(store)]).exit_code == 1
    done = CliRunner().invoke(app, ["repair", str(store), "--apply"])
    assert "1 change made" in done.output
    assert CliRunner().invoke(app, ["validate", str(store)]).exit_code == 0


def test_repair_as_json(store: Path) -> None:
    spoil(store)
    plan = json.loads(CliRunner().invoke(app, ["repair", str(store), "--json"]).output)
    assert [action["kind"] for action in plan["actions"]] == ["vertex_count"]
    assert plan["applied"] is False


def test_repair_of_what_has_no_root(store: Path) -> None:
    (store / "zarr.json").unlink()
    result = CliRunner().invoke(app, ["repair", str(store)])
    assert result.exit_code == 0
    assert "can't be repaired" in result.output
