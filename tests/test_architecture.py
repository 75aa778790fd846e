"""The shape of the package: imports point downwards, and a bare import stays cheap."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zarr_vectors

ROOT = Path(__file__).parents[1]
PACKAGE = Path(zarr_vectors.__file__).parent


def run_python(code: str, *arguments: str, cwd: Path, first_on_path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that looks for modules in `first_on_path` before anywhere else."""
    environment = os.environ | {"PYTHONPATH": str(first_on_path)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def lint_imports(source: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Hold the package in `source` to the contracts in pyproject.toml."""
    return run_python(
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
        "--config",
        str(ROOT / "pyproject.toml"),
        "--no-cache",
        "--no-logo",
        cwd=cwd,
        first_on_path=source,
    )


def test_import_contracts_hold(tmp_path: Path) -> None:
    result = lint_imports(PACKAGE.parent, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("constants.py", "import zarr_vectors.api", "Layers point downwards"),
        ("encoding/__init__.py", "import zarr_vectors.core", "Layers point downwards"),
        ("encoding/__init__.py", "import zarr", "Pure layers"),
        ("encoding/__init__.py", "import asyncio", "Pure layers"),
    ],
)
def test_import_contracts_find_a_forbidden_import(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "zarr_vectors", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "zarr_vectors" / module).open("a") as file:
        file.write(f"\n{line}\n")

    result = lint_imports(tmp_path, tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    broken = [report for report in result.stdout.splitlines() if report.endswith("BROKEN")]
    assert any(report.startswith(contract) for report in broken), result.stdout


@pytest.mark.parametrize(
    ("module", "kept_out"),
    [
        ("zarr_vectors", {"zarr"}),
        ("zarr_vectors.cli", {"zarr", "numpy"}),
    ],
)
def test_bare_import_stays_cheap(tmp_path: Path, module: str, kept_out: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    result = run_python(code, cwd=tmp_path, first_on_path=PACKAGE.parent)
    assert result.returncode == 0, result.stderr
    assert not kept_out & set(result.stdout.split())
