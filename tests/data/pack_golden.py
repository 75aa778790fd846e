"""Pack golden stores for the tests: ``python tests/data/pack_golden.py GOLDEN`` writes one zip a case.

The same cases give the same bytes: names are sorted and carry no time.
"""

import sys
import zipfile
from pathlib import Path

TARGET = Path(__file__).parent / "golden"
NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack(case: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in case.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(case).as_posix(), NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())


def main(source: Path) -> None:
    TARGET.mkdir(exist_ok=True)
    for case in sorted(path for path in source.iterdir() if path.is_dir()):
        pack(case, TARGET / f"{case.name}.zip")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
