"""Bytes worked out by hand from the format documents, read and written exactly."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zarr_vectors.encoding.fragments import decode_fragments, encode_fragments
from zarr_vectors.encoding.manifests import (
    decode_manifests,
    decode_object_manifest_blocks,
    encode_manifests,
    encode_object_manifest_blocks,
    scan_manifests,
)
from zarr_vectors.typing import FragmentLike, FragmentRef

HERE = Path(__file__).parent
Case = dict[str, Any]


def cases_of(section: str) -> list[Any]:
    cases = json.loads((HERE / section / "cases.json").read_text())
    return [pytest.param(case, id=case["name"]) for case in cases]


def fragments_of(case: Case) -> list[FragmentLike]:
    return [tuple(f["range"]) if "range" in f else list(f["rows"]) for f in case["fragments"]]


def reference_of(block: Case) -> FragmentRef:
    if "single" in block:
        return int(block["single"])
    if "range" in block:
        start, count = block["range"]
        return start, count
    return np.array(block["explicit"], dtype=np.int64)


def plain(blocks: list[tuple[tuple[int, ...], FragmentRef]]) -> list[tuple[tuple[int, ...], object]]:
    return [(chunk, ref.tolist() if isinstance(ref, np.ndarray) else ref) for chunk, ref in blocks]


def blocks_of(case: Case) -> list[tuple[tuple[int, ...], FragmentRef]]:
    return [(tuple(block["chunk"]), reference_of(block)) for block in case["blocks"]]


@pytest.mark.parametrize("case", cases_of("fragment_index"))
def test_fragment_index_is_read(case: Case) -> None:
    index = decode_fragments(bytes.fromhex(case["hex"]))
    found = [index.range(f) if index.is_range(f) else index.indices(f).tolist() for f in range(index.num_fragments)]
    assert found == fragments_of(case)


@pytest.mark.parametrize("case", cases_of("fragment_index"))
def test_fragment_index_is_written(case: Case) -> None:
    written = encode_fragments(fragments_of(case), force_explicit=True)
    assert (written.hex() == case["hex"].replace(" ", "")) is case["canonical"]


@pytest.mark.parametrize("case", cases_of("object_manifest"))
def test_object_manifest_is_read(case: Case) -> None:
    blob = bytes.fromhex(case["hex"])
    assert plain(decode_object_manifest_blocks(blob, case["sid_ndim"])) == plain(blocks_of(case))
    assert scan_manifests(blob, case["sid_ndim"], 1).tolist() == [0, len(blob)]


@pytest.mark.parametrize("case", cases_of("object_manifest"))
def test_object_manifest_is_written(case: Case) -> None:
    written = encode_object_manifest_blocks(blocks_of(case), case["sid_ndim"], force_explicit=True)
    assert written.hex() == case["hex"].replace(" ", "")


@pytest.mark.parametrize("case", cases_of("object_manifest"))
def test_object_manifest_is_written_in_bulk(case: Case) -> None:
    blob = bytes.fromhex(case["hex"])
    table = decode_manifests(blob, np.array([0, len(blob)]), case["sid_ndim"])
    written, offsets = encode_manifests(table)
    assert written == blob
    assert offsets.tolist() == [0, len(blob)]
