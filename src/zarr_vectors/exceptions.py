"""What can go wrong, as a small hierarchy: every error names the place and says what to do next.

Each class also derives from the built-in that a Python user would catch, so
``except FileNotFoundError`` and ``except ZarrVectorsError`` both work.

>>> error = DecodeError("fragment index is cut short", rule="length", offset=16)
>>> print(error.at(level=0, array="vertex_fragments", chunk="0.0.0"))
level 0, vertex_fragments/0.0.0: fragment index is cut short (rule length, byte 16)
>>> isinstance(error, ValueError)
True
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as data."""

    path: str
    """Where: ``0/object_index``, ``zarr_vectors.chunk_shape``."""
    rule: str
    """Stable name of the rule that is broken."""
    message: str
    """What was expected and what was found."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ZarrVectorsError(Exception):
    """Any error that this library raises on purpose; carries the place it speaks of."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.store: str | None = None
        self.level: int | None = None
        self.array: str | None = None
        self.chunk: str | None = None
        self.object_id: int | None = None

    def at(
        self,
        *,
        store: str | None = None,
        level: int | None = None,
        array: str | None = None,
        chunk: str | None = None,
        object_id: int | None = None,
    ) -> Self:
        """Return this error with the place filled in where it was not known yet."""
        self.store = store if self.store is None else self.store
        self.level = level if self.level is None else self.level
        self.array = array if self.array is None else self.array
        self.chunk = chunk if self.chunk is None else self.chunk
        self.object_id = object_id if self.object_id is None else self.object_id
        return self

    @property
    def place(self) -> str:
        """Store, level, array, chunk and object, as far as they are known."""
        node = "/".join(part for part in (self.array, self.chunk) if part is not None)
        parts = (
            self.store,
            None if self.level is None else f"level {self.level}",
            node or None,
            None if self.object_id is None else f"object {self.object_id}",
        )
        return ", ".join(part for part in parts if part is not None)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


@contextmanager
def locate(
    *,
    store: str | None = None,
    level: int | None = None,
    array: str | None = None,
    chunk: str | None = None,
    object_id: int | None = None,
) -> Iterator[None]:
    """Fill the place into any of our errors that passes through."""
    try:
        yield
    except ZarrVectorsError as error:
        error.at(store=store, level=level, array=array, chunk=chunk, object_id=object_id)
        raise


class DecodeError(ZarrVectorsError, ValueError):
    """Bytes do not follow their layout; ``rule`` names the broken rule, ``offset`` the byte."""

    def __init__(self, message: str, *, rule: str, offset: int | None = None) -> None:
        where = f"rule {rule}" if offset is None else f"rule {rule}, byte {offset}"
        super().__init__(f"{message} ({where})")
        self.rule = rule
        self.offset = offset


class EncodeError(ZarrVectorsError, ValueError):
    """What was to be written breaks a rule of the format; nothing was written."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(f"{message} (rule {rule})")
        self.rule = rule


class InputError(ZarrVectorsError, ValueError):
    """An argument can't be used: its shape, type or value is wrong. Nothing was written."""


class KeywordError(InputError, TypeError):
    """A function has no such keyword."""


class MetadataError(ZarrVectorsError, ValueError):
    """A ``zarr.json`` says something that the format does not allow; lists every problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the metadata:{lines}")


class UnsupportedVersionError(ZarrVectorsError, ValueError):
    """The store is of a format version that this reader does not know."""

    def __init__(self, message: str, *, found: str) -> None:
        super().__init__(message)
        self.found = found


class StoreNotFoundError(ZarrVectorsError, FileNotFoundError):
    """There is no zarr-vectors store at this place."""


class StoreExistsError(ZarrVectorsError, FileExistsError):
    """Something is at this place already."""


class UnfinishedWriteError(ZarrVectorsError, RuntimeError):
    """A write to this store began and did not finish."""


class StorageError(ZarrVectorsError, OSError):
    """The backend refused or failed."""


class MissingArrayError(ZarrVectorsError, FileNotFoundError):
    """An array that was asked for, or that other data promise, is not in the store."""


class MissingChunkError(ZarrVectorsError, FileNotFoundError):
    """A chunk that a manifest, a listing or a ``zarr.json`` promises has no data."""


class ObjectNotFoundError(ZarrVectorsError, IndexError):
    """No level, object, group or fragment has this number."""


class MissingDependencyError(ZarrVectorsError, ImportError):
    """An optional package is needed; the message says what to install."""

    def __init__(self, feature: str, *, extra: str) -> None:
        super().__init__(f'{feature} needs an extra: pip install "zarr-vectors[{extra}]"')
        self.extra = extra


class ZarrVectorsWarning(UserWarning):
    """A result is right but not all that the store holds, or a store says something unknown."""
