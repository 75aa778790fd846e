"""What the ``zarr.json`` files of a store say, format 5 and 8, as validated and frozen models.

Unknown keys are kept, so that a read-modify-write loses nothing. A document that breaks a rule
raises one `MetadataError` that lists every problem found in it.

>>> root = RootMetadata(chunk_shape=(10, 10), bounds=((0, 0), (20, 20)), geometry_types=("point_cloud",))
>>> RootMetadata.from_attrs(root.to_attrs()) == root
True
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from zarr_vectors.constants import (
    ALL_CAPABILITIES,
    CAP_FRAGMENT_INDEX,
    DISCRIMINATORS,
    FORMAT_VERSION,
    NEWEST_READABLE,
    OLDEST_READABLE,
    CoarseningMethod,
    CrossChunkStrategy,
    CrossLevelStorage,
    GeometryType,
    LinksConvention,
    ObjectIndexConvention,
)
from zarr_vectors.exceptions import MetadataError, Problem, UnsupportedVersionError
from zarr_vectors.typing import JSON

ROOT_KEY: Final = "zarr_vectors"
LEVEL_KEY: Final = "zarr_vectors_level"
ARRAYS_KEY: Final = "zarr_vectors_arrays"
MULTISCALES_KEY: Final = "multiscales"
MAX_NDIM: Final = 8
MAX_LEVEL: Final = 9999
_AXIS_NAMES: Final = ("x", "y", "z", "t")
_DIVISION_TOLERANCE: Final = 1e-9
_VERSION_PARTS: Final = 2
_SHOWN_CHARACTERS: Final = 80

# Whole numbers are taken too, and stored as the format has them: 10 and 10.0 give the same bytes.
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Lengths = Annotated[tuple[Annotated[Number, Field(gt=0)], ...], Field(min_length=1, max_length=MAX_NDIM)]
Point = Annotated[tuple[Number, ...], Field(min_length=1, max_length=MAX_NDIM)]
# What does not fit in 64 bits could not be counted, and numpy has no room for it.
Count = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]


class FormatModel(BaseModel):
    """A frozen block of metadata that keeps keys it does not know."""

    # JSON has no NaN: one that a user hands in is to be refused, and not to turn into null.
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, ser_json_inf_nan="constants")

    _elsewhere: ClassVar[dict[str, str]] = {}
    """Fields that stand at another place of the document than the rest of the block."""

    def extras(self) -> dict[str, Any]:
        """Return the keys that the format does not define."""
        return dict(self.model_extra or {})

    def to_json(self) -> dict[str, JSON]:
        """Return the block as plain JSON, without the keys that say nothing."""
        return self.model_dump(mode="json", by_alias=True)

    @model_serializer(mode="wrap")
    def _say_something(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A null of ours says nothing; one under a key that we do not know is not ours to drop.
        extras = self.extras()
        return {key: value for key, value in dump(self).items() if value is not None or key in extras}

    @classmethod
    def parse(cls, block: object, path: str) -> Self:
        """Return the model of a JSON block, or raise with every problem in it."""
        try:
            return cls.model_validate(block)
        except ValidationError as error:
            raise MetadataError(_problems(error, path, cls._elsewhere)) from error


class Axis(FormatModel):
    """One spatial axis, as NGFF names it; the unit is there only when it is known."""

    name: StrictStr
    type: StrictStr | None = None
    unit: StrictStr | None = None


class Transformation(FormatModel):
    """One NGFF coordinate transformation; the format uses ``scale`` and ``translation``."""

    type: StrictStr
    scale: tuple[Number, ...] | None = None
    translation: tuple[Number, ...] | None = None


class Dataset(FormatModel):
    """One level in the NGFF block: its path and how its grid lies on the axes."""

    path: StrictStr
    transformations: tuple[Transformation, ...] = Field(default=(), alias="coordinateTransformations")

    @property
    def scale(self) -> tuple[float, ...] | None:
        """Bins of level 0 in one bin of this level, if the store states it."""
        return next((item.scale for item in self.transformations if item.type == "scale"), None)

    @property
    def translation(self) -> tuple[float, ...] | None:
        """Centre of the first bin of this level, if the store states it."""
        return next((item.translation for item in self.transformations if item.type == "translation"), None)


class Multiscale(FormatModel):
    """The NGFF ``multiscales`` entry: axes, and one dataset a level."""

    version: StrictStr = "0.4"
    name: StrictStr = "default"
    axes: tuple[Axis, ...] = ()
    datasets: tuple[Dataset, ...] = ()


class RootMetadata(FormatModel):
    """``zarr_vectors`` and ``multiscales`` of the root group."""

    zv_version: StrictStr = FORMAT_VERSION
    chunk_shape: Lengths
    bounds: tuple[Point, Point]
    geometry_types: Annotated[tuple[GeometryType, ...], Field(min_length=1)]
    base_bin_shape: Lengths | None = None
    links_convention: LinksConvention = "explicit"
    object_index_convention: ObjectIndexConvention = "standard"
    cross_chunk_strategy: CrossChunkStrategy = "explicit_links"
    reduction_factor: Annotated[StrictInt, Field(ge=2)] = 8
    cross_level_depth: Annotated[StrictInt, Field(ge=-1)] = 1
    cross_level_storage: CrossLevelStorage = "explicit"
    crs: dict[str, Any] | None = None
    format_capabilities: tuple[StrictStr, ...] = (CAP_FRAGMENT_INDEX,)
    multiscale: Multiscale = Field(default_factory=Multiscale, exclude=True, validate_default=True)

    _elsewhere: ClassVar[dict[str, str]] = {"multiscale": f"{MULTISCALES_KEY}[0]"}

    @property
    def ndim(self) -> int:
        """Number of spatial axes."""
        return len(self.chunk_shape)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, one for each column of the positions."""
        return self.multiscale.axes

    @property
    def bin_shape(self) -> tuple[float, ...]:
        """Bins of level 0; one bin a chunk where the store does not say."""
        return self.base_bin_shape or self.chunk_shape

    @property
    def bins_per_chunk(self) -> tuple[int, ...]:
        """Bins of level 0 along each axis of a chunk."""
        return tuple(round(chunk / size) for chunk, size in zip(self.chunk_shape, self.bin_shape, strict=True))

    @property
    def unknown_capabilities(self) -> tuple[str, ...]:
        """Capability tokens that this reader does not know."""
        return tuple(token for token in self.format_capabilities if token not in ALL_CAPABILITIES)

    @field_validator("bounds")
    @classmethod
    def _check_bounds(cls, bounds: tuple[Point, Point], info: ValidationInfo) -> tuple[Point, Point]:
        chunk_shape = info.data.get("chunk_shape")
        if chunk_shape is not None:
            for corner in bounds:
                _raise_first(_length_problems("bounds", corner, len(chunk_shape)))
        if len(bounds[0]) != len(bounds[1]):
            raise _broken("ndim", f"the corners have {len(bounds[0])} and {len(bounds[1])} entries")
        if any(low > high for low, high in zip(*bounds, strict=True)):
            raise _broken("bounds-order", "the lower corner is above the upper")
        return bounds

    @field_validator("base_bin_shape")
    @classmethod
    def _check_bins(cls, bins: Lengths | None, info: ValidationInfo) -> Lengths | None:
        chunk_shape = info.data.get("chunk_shape")
        if bins is not None and chunk_shape is not None:
            _raise_first(_division_problems("base_bin_shape", chunk_shape, bins))
        return bins

    @field_validator("multiscale")
    @classmethod
    def _fill_axes(cls, multiscale: Multiscale, info: ValidationInfo) -> Multiscale:
        chunk_shape, names = info.data.get("chunk_shape"), [axis.name for axis in multiscale.axes]
        if chunk_shape is not None and not names:
            return multiscale.model_copy(update={"axes": default_axes(len(chunk_shape))})
        if chunk_shape is not None and len(names) != len(chunk_shape):
            raise _broken("ndim", f"{len(names)} axes, the chunk shape has {len(chunk_shape)} entries")
        if len(set(names)) != len(names):
            raise _broken("axis-names", f"the names of axes must differ: {', '.join(names)}")
        return multiscale

    @classmethod
    def from_attrs(cls, attributes: Mapping[str, Any]) -> Self:
        """Return the metadata that the root's attributes hold.

        Raises
        ------
        UnsupportedVersionError
            If the store is older than 0.6 or newer than this reader.
        MetadataError
            With every rule that the attributes break.
        """
        block = attributes.get(ROOT_KEY)
        if not isinstance(block, Mapping):
            raise MetadataError([Problem(ROOT_KEY, "type", "the root group has no such block")])
        check_version(block.get("zv_version"))
        multiscales = attributes.get(MULTISCALES_KEY, [])
        if isinstance(multiscales, list):
            return cls.parse({**block, "multiscale": multiscales[0] if multiscales else {}}, ROOT_KEY)
        wrong = Problem(MULTISCALES_KEY, "type", f"must be a list, found {_shown(multiscales)}")
        try:
            cls.parse(dict(block), ROOT_KEY)
        except MetadataError as error:
            raise MetadataError([wrong, *error.problems]) from error
        raise MetadataError([wrong])

    def to_attrs(self) -> dict[str, JSON]:
        """Return the attributes of the root group."""
        return {ROOT_KEY: self.to_json(), MULTISCALES_KEY: [self.multiscale.to_json()]}


class LevelMetadata(FormatModel):
    """``zarr_vectors_level`` of a level group."""

    level: Annotated[Count, Field(le=MAX_LEVEL)]
    vertex_count: Count = 0
    arrays_present: tuple[StrictStr, ...] = ()
    bin_shape: Lengths | None = None
    bin_ratio: tuple[Annotated[StrictInt, Field(ge=1)], ...] | None = None
    chunk_shape: Lengths | None = None
    object_sparsity: Annotated[Number, Field(gt=0, le=1)] = 1.0
    coarsening_method: CoarseningMethod = "none"
    parent_level: Count | None = None
    chunk_dims: tuple[StrictStr, ...] | None = None
    chunk_attribute_name: StrictStr | None = None
    chunk_attribute_values: tuple[Any, ...] | None = None
    preserves_object_ids: StrictBool = False
    inherited_num_objects: Count | None = None
    shared_fragments: StrictBool = False

    @classmethod
    def from_attrs(cls, attributes: Mapping[str, Any]) -> Self:
        """Return the metadata that a level group's attributes hold."""
        return cls.parse(attributes.get(LEVEL_KEY), LEVEL_KEY)

    def on(self, root: RootMetadata) -> Self:
        """Return this level with its grid spelled out, and checked against the root.

        ``bin_shape`` and ``bin_ratio`` of a level that does not state them follow from the
        level's translation (half a bin) and scale in the NGFF block; ``chunk_shape`` from the root.
        """
        chunk_shape = self.chunk_shape or root.chunk_shape
        bin_shape, bin_ratio = self._bins(root)
        problems = _length_problems("chunk_shape", chunk_shape, root.ndim)
        problems = problems or _division_problems("chunk_shape", chunk_shape, root.chunk_shape)
        if bin_shape is not None:
            problems += _length_problems("bin_shape", bin_shape, root.ndim) or (
                # Bins that a level does not state need not fit: the reference makes such levels.
                _division_problems("bin_shape", chunk_shape, bin_shape) if self.bin_shape or self.chunk_shape else []
            )
        if bin_ratio is not None:
            problems += _length_problems("bin_ratio", bin_ratio, root.ndim)
        if problems:
            named = [Problem(f"{LEVEL_KEY}.{item.path}", item.rule, item.message) for item in problems]
            raise MetadataError(named).at(level=self.level)
        return self.model_copy(update={"bin_shape": bin_shape, "bin_ratio": bin_ratio, "chunk_shape": chunk_shape})

    def _bins(self, root: RootMetadata) -> tuple[tuple[float, ...] | None, tuple[int, ...] | None]:
        bin_shape, bin_ratio = self.bin_shape, self.bin_ratio
        dataset = next((item for item in root.multiscale.datasets if item.path == str(self.level)), None)
        if self.level > 0 and dataset is not None:
            if bin_shape is None and all(value > 0 for value in dataset.translation or ()):
                bin_shape = tuple(2 * value for value in dataset.translation or ()) or None
            if bin_ratio is None and all(round(value) >= 1 for value in dataset.scale or ()):
                bin_ratio = tuple(round(value) for value in dataset.scale or ()) or None
        return bin_shape, bin_ratio


class ArrayMetadata(FormatModel):
    """Attributes of one array's group: the ``zv_array`` discriminator and a small shape block."""

    zv_array: Annotated[StrictStr, Field(json_schema_extra={"enum": sorted(DISCRIMINATORS)})]
    name: StrictStr | None = None
    dtype: StrictStr | None = None
    encoding: StrictStr | None = None
    shape: tuple[Count, ...] | None = None
    channel_names: tuple[StrictStr, ...] | None = None
    channel_dtype: StrictStr | None = None
    categories: tuple[StrictStr, ...] | None = None
    level_delta: StrictInt | None = None
    link_width: Annotated[StrictInt, Field(ge=1, le=64)] | None = None
    num_links: Count | None = None
    sid_ndim: Annotated[StrictInt, Field(ge=1, le=MAX_NDIM)] | None = None
    num_objects: Count | None = None
    layout: StrictStr | None = None
    manifests_per_chunk: Annotated[StrictInt, Field(ge=1, le=2**31)] | None = None
    num_groups: Count | None = None
    num_chunks: Count | None = None
    num_ids: Count | None = None
    has_present_mask: StrictBool | None = None
    # The documents name this key and leave its form open, so stores may have any.
    compression_codec: tuple[dict[str, Any], ...] | dict[str, Any] | StrictStr | None = None
    chunk_key: StrictStr | None = None

    @property
    def codecs(self) -> tuple[dict[str, Any], ...] | None:
        """The Zarr pipeline of the array's chunks, where the metadata spell it out as ours do."""
        return self.compression_codec if isinstance(self.compression_codec, tuple) else None

    @field_validator("zv_array")
    @classmethod
    def _check_discriminator(cls, value: str) -> str:
        if value not in DISCRIMINATORS:
            raise _broken("discriminator", f"must be one of {', '.join(sorted(DISCRIMINATORS))}")
        return value


def default_axes(ndim: int) -> tuple[Axis, ...]:
    """Return axes without units: x, y, z and t for up to four columns, then d4, d5 and so on."""
    names = [*_AXIS_NAMES[:ndim], *(f"d{number}" for number in range(len(_AXIS_NAMES), ndim))]
    return tuple(Axis(name=name, type="time" if name == "t" else "space") for name in names)


def check_version(version: object) -> None:
    """Raise unless this reader knows the format version of a store."""
    parts = str(version).split(".")
    if len(parts) < _VERSION_PARTS or not all(part.isascii() and part.isdecimal() for part in parts[:_VERSION_PARTS]):
        message = f"the store's zv_version is {version!r}, not a version such as {FORMAT_VERSION}"
        raise UnsupportedVersionError(message, found=str(version))
    found = (int(parts[0]), int(parts[1]))
    if found < OLDEST_READABLE:
        message = f"the store is of format {version}; 0.6 is the oldest that can be read: rewrite it from the source"
        raise UnsupportedVersionError(message, found=str(version))
    if found > NEWEST_READABLE:
        message = f"the store is of format {version}, newer than {FORMAT_VERSION}: upgrade zarr-vectors to read it"
        raise UnsupportedVersionError(message, found=str(version))


def divides(whole: Sequence[float], part: Sequence[float]) -> bool:
    """Tell whether ``part`` fits into ``whole`` a whole number of times on each axis."""
    ratios = [outer / inner for outer, inner in zip(whole, part, strict=True)]
    return all(
        math.isfinite(ratio) and round(ratio) >= 1 and math.isclose(ratio, round(ratio), rel_tol=_DIVISION_TOLERANCE)
        for ratio in ratios
    )


def _length_problems(field: str, values: Sequence[object], ndim: int) -> list[Problem]:
    if len(values) == ndim:
        return []
    return [Problem(field, "ndim", f"has {len(values)} entries, the chunk shape has {ndim}")]


def _division_problems(field: str, whole: Sequence[float], part: Sequence[float]) -> list[Problem]:
    found = _length_problems(field, part, len(whole))
    if found or divides(whole, part):
        return found
    return [Problem(field, "division", f"{list(part)} does not divide {list(whole)} a whole number of times")]


def _broken(rule: str, message: str) -> PydanticCustomError:
    """Return what a validator raises; the message is data, so that braces in it are left alone."""
    return PydanticCustomError(rule, "{message}", {"message": message})


def _raise_first(problems: Sequence[Problem]) -> None:
    for problem in problems:
        raise _broken(problem.rule, problem.message)


def _problems(error: ValidationError, path: str, elsewhere: Mapping[str, str]) -> list[Problem]:
    found = []
    items = error.errors(include_url=False)
    holders = {item["loc"][:-1] for item in items}
    for item in items:
        # pydantic calls a list too short when its only entry is wrong: the same problem, said twice.
        if item["type"] == "too_short" and item["loc"] in holders:
            continue
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]]
        place = path + "".join(parts)
        for field, home in elsewhere.items():
            place = place.replace(f"{path}.{field}", home, 1)
        # Of a missing key, pydantic shows what surrounds it.
        shown = "" if item["type"] == "missing" else f", found {_shown(item['input'])}"
        found.append(Problem(place, item["type"], f"{item['msg']}{shown}"))
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
