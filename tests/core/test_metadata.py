import json
from typing import Any

import pytest
from pydantic import ValidationError

from zarr_vectors.core.metadata import (
    ArrayMetadata,
    Axis,
    Dataset,
    LevelMetadata,
    Multiscale,
    RootMetadata,
    Transformation,
    default_axes,
    divides,
)
from zarr_vectors.exceptions import MetadataError, UnsupportedVersionError


def root_block(**changes: Any) -> dict[str, Any]:
    block = {
        "zv_version": "0.7.0",
        "chunk_shape": [10.0, 20.0],
        "bounds": [[0.0, 0.0], [20.0, 20.0]],
        "geometry_types": ["point_cloud"],
    }
    return block | changes


def root_attrs(**changes: Any) -> dict[str, Any]:
    return {"zarr_vectors": root_block(**changes)}


def problems_of(error: pytest.ExceptionInfo[MetadataError]) -> dict[str, str]:
    return {problem.path: problem.rule for problem in error.value.problems}


def make_root(**changes: Any) -> RootMetadata:
    return RootMetadata.from_attrs(root_attrs(**changes))


# -- root


def test_root_defaults() -> None:
    root = make_root()
    assert root.ndim == 2
    assert root.bin_shape == root.chunk_shape == (10.0, 20.0)
    assert root.bins_per_chunk == (1, 1)
    assert root.links_convention == "explicit"
    assert root.object_index_convention == "standard"
    assert root.cross_chunk_strategy == "explicit_links"
    assert (root.reduction_factor, root.cross_level_depth, root.cross_level_storage) == (8, 1, "explicit")
    assert [axis.name for axis in root.axes] == ["x", "y"]
    assert root.crs is None


def test_bins_of_a_chunk() -> None:
    assert make_root(base_bin_shape=[2.5, 20]).bins_per_chunk == (4, 1)


def test_unknown_capabilities_are_reported_and_not_fatal() -> None:
    assert make_root(format_capabilities=["fragment_index", "teleport"]).unknown_capabilities == ("teleport",)


def test_whole_numbers_and_floats_give_the_same_bytes() -> None:
    whole = make_root(chunk_shape=[10, 20], bounds=[[0, 0], [20, 20]]).to_attrs()
    assert json.dumps(whole) == json.dumps(make_root().to_attrs())


def test_unknown_keys_of_the_root_are_kept() -> None:
    attributes = root_attrs(future={"a": [1, None]}, nothing=None, crs={"name": "EPSG:4326", "epoch": None})
    attributes["multiscales"] = [
        {
            "version": "0.4",
            "name": "mine",
            "type": "mean",
            "axes": [{"name": "y", "type": "space", "unit": "micrometer", "long": 1}, {"name": "x"}],
            "datasets": [
                {
                    "path": "0",
                    "note": None,
                    "coordinateTransformations": [
                        {"type": "scale", "scale": [1.0, 1.0], "why": "x"},
                        {"type": "affine"},
                    ],
                }
            ],
        }
    ]
    again = RootMetadata.from_attrs(attributes).to_attrs()
    block = again["zarr_vectors"]
    assert isinstance(block, dict)
    assert {key: block[key] for key in attributes["zarr_vectors"]} == attributes["zarr_vectors"]
    assert again["multiscales"] == attributes["multiscales"]
    assert RootMetadata.from_attrs(again).to_attrs() == again


def test_units_are_never_made_up() -> None:
    attributes = make_root().to_attrs()
    assert "unit" not in json.dumps(attributes)
    assert "null" not in json.dumps(attributes)


def test_axes_beyond_four() -> None:
    axes = default_axes(6)
    assert [axis.name for axis in axes] == ["x", "y", "z", "t", "d4", "d5"]
    assert [axis.type for axis in axes] == ["space"] * 3 + ["time"] + ["space"] * 2


@pytest.mark.parametrize(
    ("changes", "path", "rule"),
    [
        ({"chunk_shape": []}, "zarr_vectors.chunk_shape", "too_short"),
        ({"chunk_shape": [1.0] * 9}, "zarr_vectors.chunk_shape", "too_long"),
        ({"chunk_shape": [0.0, 1.0]}, "zarr_vectors.chunk_shape[0]", "greater_than"),
        ({"chunk_shape": ["10", 20]}, "zarr_vectors.chunk_shape[0]", "float_type"),
        ({"chunk_shape": [True, 20]}, "zarr_vectors.chunk_shape[0]", "float_type"),
        ({"chunk_shape": [float("inf"), 20]}, "zarr_vectors.chunk_shape[0]", "finite_number"),
        ({"bounds": [[0.0], [20.0, 20.0]]}, "zarr_vectors.bounds", "ndim"),
        ({"bounds": [[0.0, 30.0], [20.0, 20.0]]}, "zarr_vectors.bounds", "bounds-order"),
        ({"bounds": [[0.0, 0.0], [float("nan"), 1.0]]}, "zarr_vectors.bounds[1][0]", "finite_number"),
        ({"geometry_types": []}, "zarr_vectors.geometry_types", "too_short"),
        ({"geometry_types": ["cube"]}, "zarr_vectors.geometry_types[0]", "literal_error"),
        ({"base_bin_shape": [3.0, 20.0]}, "zarr_vectors.base_bin_shape", "division"),
        ({"base_bin_shape": [20.0, 20.0]}, "zarr_vectors.base_bin_shape", "division"),
        ({"base_bin_shape": [5.0]}, "zarr_vectors.base_bin_shape", "ndim"),
        ({"links_convention": "none"}, "zarr_vectors.links_convention", "literal_error"),
        ({"reduction_factor": 1}, "zarr_vectors.reduction_factor", "greater_than_equal"),
        ({"reduction_factor": 2.5}, "zarr_vectors.reduction_factor", "int_type"),
        ({"cross_level_depth": -2}, "zarr_vectors.cross_level_depth", "greater_than_equal"),
        ({"crs": "EPSG:4326"}, "zarr_vectors.crs", "dict_type"),
        ({"format_capabilities": "fragment_index"}, "zarr_vectors.format_capabilities", "tuple_type"),
    ],
)
def test_root_rules(changes: dict[str, Any], path: str, rule: str) -> None:
    with pytest.raises(MetadataError) as error:
        make_root(**changes)
    assert problems_of(error) == {path: rule}


@pytest.mark.parametrize(
    ("entry", "path", "rule"),
    [
        ({"axes": [{"name": "x"}]}, "multiscales[0]", "ndim"),
        ({"axes": [{"name": "x"}, {"name": "x"}]}, "multiscales[0]", "axis-names"),
        ({"axes": [{"name": 1}, {"name": "x"}]}, "multiscales[0].axes[0].name", "string_type"),
        ({"datasets": [{}]}, "multiscales[0].datasets[0].path", "missing"),
        (
            {"datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": ["a"]}]}]},
            "multiscales[0].datasets[0].coordinateTransformations[0].scale[0]",
            "float_type",
        ),
        ("text", "multiscales[0]", "model_type"),
    ],
)
def test_multiscales_rules(entry: object, path: str, rule: str) -> None:
    with pytest.raises(MetadataError) as error:
        RootMetadata.from_attrs({**root_attrs(), "multiscales": [entry]})
    assert problems_of(error) == {path: rule}


def test_all_problems_of_a_root_are_reported_at_once() -> None:
    attributes = root_attrs(
        bounds=[[0.0], [20.0]], geometry_types=["cube"], base_bin_shape=[3.0, 3.0], reduction_factor=0
    )
    attributes["multiscales"] = [{"axes": [{"name": "x"}], "datasets": [{"path": 0}]}]
    with pytest.raises(MetadataError, match="5 problems in the metadata") as error:
        RootMetadata.from_attrs(attributes)
    assert problems_of(error) == {
        "zarr_vectors.bounds": "ndim",
        "zarr_vectors.geometry_types[0]": "literal_error",
        "zarr_vectors.base_bin_shape": "division",
        "zarr_vectors.reduction_factor": "greater_than_equal",
        "multiscales[0].datasets[0].path": "string_type",
    }


def test_multiscales_that_is_no_list_is_reported_with_the_rest() -> None:
    with pytest.raises(MetadataError) as error:
        RootMetadata.from_attrs({**root_attrs(geometry_types=["cube"]), "multiscales": {"axes": []}})
    assert problems_of(error) == {"multiscales": "type", "zarr_vectors.geometry_types[0]": "literal_error"}
    with pytest.raises(MetadataError) as error:
        RootMetadata.from_attrs({**root_attrs(), "multiscales": "x" * 200})
    assert problems_of(error) == {"multiscales": "type"}
    assert len(error.value.problems[0].message) < 120


def test_a_root_without_its_block() -> None:
    with pytest.raises(MetadataError, match="zarr_vectors: the root group has no such block"):
        RootMetadata.from_attrs({"multiscales": []})


def test_corners_are_compared_even_without_a_chunk_shape() -> None:
    with pytest.raises(MetadataError) as error:
        make_root(chunk_shape="10", bounds=[[0.0], [1.0, 2.0]])
    assert problems_of(error) == {"zarr_vectors.chunk_shape": "tuple_type", "zarr_vectors.bounds": "ndim"}


def test_axes_are_compared_even_without_a_chunk_shape() -> None:
    for names, rules in ((["a", "b"], {}), (["a", "a"], {"multiscales[0]": "axis-names"})):
        attributes = root_attrs(chunk_shape="10") | {"multiscales": [{"axes": [{"name": name} for name in names]}]}
        with pytest.raises(MetadataError) as error:
            RootMetadata.from_attrs(attributes)
        assert problems_of(error) == {"zarr_vectors.chunk_shape": "tuple_type", **rules}


def test_a_root_made_in_python_is_checked_too() -> None:
    with pytest.raises(ValidationError, match="lower corner is above"):
        RootMetadata(chunk_shape=(1,), bounds=((2,), (1,)), geometry_types=("mesh",))


def test_metadata_are_frozen() -> None:
    with pytest.raises(ValidationError):
        make_root().chunk_shape = (1.0, 1.0)  # type: ignore[misc]


# -- versions


@pytest.mark.parametrize("version", ["0.6", "0.6.0", "0.6.3", "0.7.0", "0.7.12", "0.7.0rc1"])
def test_versions_that_are_read(version: str) -> None:
    assert make_root(zv_version=version).zv_version == version


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.5", "format 0.5; 0.6 is the oldest"),
        ("0.5.9", "rewrite it from the source"),
        ("0.8", "format 0.8, newer than 0.7.0: upgrade"),
        ("1.0", "format 1.0, newer"),
        ("garbage", "zv_version is 'garbage'"),
        ("7", "zv_version is '7'"),
        ("a.b", "zv_version is 'a.b'"),
        ("", "zv_version is ''"),
        (None, "zv_version is None"),
        (7, "zv_version is 7"),
    ],
)
def test_other_versions_are_refused_by_name(version: object, words: str) -> None:
    # The rest of the block may mean anything in another version: it is not judged.
    with pytest.raises(UnsupportedVersionError, match=words) as error:
        RootMetadata.from_attrs({"zarr_vectors": {"zv_version": version}})
    assert error.value.found == str(version)


def test_a_version_that_is_no_text_is_a_problem_like_any_other() -> None:
    with pytest.raises(MetadataError) as error:
        RootMetadata.from_attrs({"zarr_vectors": {"zv_version": 0.7}})
    assert problems_of(error) == {
        "zarr_vectors.zv_version": "string_type",
        "zarr_vectors.chunk_shape": "missing",
        "zarr_vectors.bounds": "missing",
        "zarr_vectors.geometry_types": "missing",
    }
    assert error.value.problems[1].message == "Field required"


# -- levels


def test_unknown_keys_of_a_level_are_kept() -> None:
    block = {"level": 2, "vertex_count": 5, "arrays_present": ["vertices"], "future": None, "more": {"a": 1}}
    level = LevelMetadata.from_attrs({"zarr_vectors_level": block})
    assert {key: level.to_json()[key] for key in block} == block
    assert level.extras() == {"future": None, "more": {"a": 1}}
    assert "parent_level" not in level.to_json()


def test_all_problems_of_a_level_are_reported_at_once() -> None:
    block = {"level": -1, "object_sparsity": 0, "coarsening_method": "magic", "bin_ratio": [0], "shared_fragments": 1}
    with pytest.raises(MetadataError) as error:
        LevelMetadata.from_attrs({"zarr_vectors_level": block})
    assert problems_of(error) == {
        "zarr_vectors_level.level": "greater_than_equal",
        "zarr_vectors_level.object_sparsity": "greater_than",
        "zarr_vectors_level.coarsening_method": "literal_error",
        "zarr_vectors_level.bin_ratio[0]": "greater_than_equal",
        "zarr_vectors_level.shared_fragments": "bool_type",
    }


def test_a_level_without_its_block() -> None:
    with pytest.raises(MetadataError, match="zarr_vectors_level: "):
        LevelMetadata.from_attrs({})


@pytest.mark.parametrize("number", [10_000, True, "0"])
def test_level_numbers_can_be_names(number: object) -> None:
    with pytest.raises(MetadataError):
        LevelMetadata.from_attrs({"zarr_vectors_level": {"level": number}})


def pyramid_root(*transformations: Transformation) -> RootMetadata:
    datasets = (Dataset(path="1", transformations=transformations),)
    return RootMetadata(
        chunk_shape=(10, 20),
        bounds=((0, 0), (1, 1)),
        geometry_types=("mesh",),
        multiscale=Multiscale(axes=(Axis(name="a"), Axis(name="b")), datasets=datasets),
    )


def test_a_level_inherits_the_chunk_shape() -> None:
    level = LevelMetadata(level=0).on(make_root())
    assert (level.chunk_shape, level.bin_shape, level.bin_ratio) == ((10.0, 20.0), None, None)


def test_bins_follow_from_the_ngff_block() -> None:
    root = pyramid_root(
        Transformation(type="scale", scale=(2, 4)), Transformation(type="translation", translation=(2.5, 5))
    )
    level = LevelMetadata(level=1).on(root)
    assert (level.bin_shape, level.bin_ratio) == ((5.0, 10.0), (2, 4))
    # What the level says itself comes first.
    level = LevelMetadata(level=1, bin_shape=(10, 10), bin_ratio=(4, 4)).on(root)
    assert (level.bin_shape, level.bin_ratio) == ((10.0, 10.0), (4, 4))
    assert LevelMetadata(level=2).on(root).bin_shape is None


def test_bins_that_no_ngff_block_tells() -> None:
    zero = pyramid_root(
        Transformation(type="scale", scale=(0.1, 1)), Transformation(type="translation", translation=(0, 0))
    )
    for root in (pyramid_root(), pyramid_root(Transformation(type="affine")), zero):
        level = LevelMetadata(level=1, chunk_shape=(20, 20)).on(root)
        assert (level.bin_shape, level.bin_ratio) == (None, None)


def test_inferred_bins_need_not_divide_the_chunk() -> None:
    root = pyramid_root(Transformation(type="translation", translation=(4, 4)))
    assert LevelMetadata(level=1).on(root).bin_shape == (8.0, 8.0)
    with pytest.raises(MetadataError, match=r"bin_shape: \[8.0, 8.0\] does not divide"):
        LevelMetadata(level=1, chunk_shape=(10, 20)).on(root)


@pytest.mark.parametrize(
    ("level", "found"),
    [
        (LevelMetadata(level=3, chunk_shape=(10,)), {"zarr_vectors_level.chunk_shape": "ndim"}),
        (LevelMetadata(level=3, chunk_shape=(15, 20)), {"zarr_vectors_level.chunk_shape": "division"}),
        (LevelMetadata(level=3, chunk_shape=(5, 20)), {"zarr_vectors_level.chunk_shape": "division"}),
        (LevelMetadata(level=3, bin_shape=(3, 20)), {"zarr_vectors_level.bin_shape": "division"}),
        (LevelMetadata(level=3, bin_shape=(5,)), {"zarr_vectors_level.bin_shape": "ndim"}),
        (
            LevelMetadata(level=3, bin_ratio=(2, 2, 2), bin_shape=(1,), chunk_shape=(1,)),
            {
                "zarr_vectors_level.chunk_shape": "ndim",
                "zarr_vectors_level.bin_shape": "ndim",
                "zarr_vectors_level.bin_ratio": "ndim",
            },
        ),
    ],
)
def test_a_level_must_fit_its_root(level: LevelMetadata, found: dict[str, str]) -> None:
    with pytest.raises(MetadataError) as error:
        level.on(make_root())
    assert problems_of(error) == found
    assert error.value.level == 3


# -- arrays


def test_unknown_keys_of_an_array_are_kept() -> None:
    block = {"zv_array": "attribute", "dtype": "float32", "num_channels": 1, "note": None, "compression_codec": "zstd"}
    meta = ArrayMetadata.parse(block, "attributes")
    assert meta.to_json() == block
    assert meta.codecs is None


@pytest.mark.parametrize("codec", ["blosc", {"name": "zstd"}, None])
def test_codecs_in_another_form_are_not_ours_to_use(codec: object) -> None:
    assert ArrayMetadata.parse({"zv_array": "vertices", "compression_codec": codec}, "attributes").codecs is None


def test_all_problems_of_an_array_are_reported_at_once() -> None:
    block = {"zv_array": "edges", "shape": [3, -1], "link_width": 0, "num_links": 1.5, "has_present_mask": "no"}
    with pytest.raises(MetadataError) as error:
        ArrayMetadata.parse(block, "0/links")
    assert problems_of(error) == {
        "0/links.zv_array": "discriminator",
        "0/links.shape[1]": "greater_than_equal",
        "0/links.link_width": "greater_than_equal",
        "0/links.num_links": "int_type",
        "0/links.has_present_mask": "bool_type",
    }
    assert "must be one of attribute, cross_chunk_link_attribute" in str(error.value)


# -- division


@pytest.mark.parametrize(
    ("whole", "part", "good"),
    [
        ((10.0,), (2.5,), True),
        ((0.3,), (0.1,), True),
        ((10.0,), (3.0,), False),
        ((1.0,), (2.0,), False),
        ((1e308,), (1e-308,), False),
        ((1.0, 1.0), (1.0, 0.4), False),
    ],
)
def test_divides(whole: tuple[float, ...], part: tuple[float, ...], good: bool) -> None:
    assert divides(whole, part) is good
