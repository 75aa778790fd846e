"""One writer at a time: a key that is there while a store is being written, and says by whom."""

import itertools
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from zarr_vectors.core.local_files import PROCESS_TOKEN, is_alive, process_started
from zarr_vectors.core.nodes import parse_document
from zarr_vectors.core.storage import Storage
from zarr_vectors.exceptions import DecodeError, StoreExistsError, UnfinishedWriteError
from zarr_vectors.typing import Buffer

MARKER: Final = "zarr_vectors.unfinished"
"""Key that exists while a store is being written."""

_SERIAL: Final = itertools.count()
_HELD: Final[set[int]] = set()
"""Locks of this process that were not let go."""


class WriteLock:
    """The marker of one writer; ``marker`` is what it says."""

    def __init__(self) -> None:
        self.serial = next(_SERIAL)
        self.marker = json.dumps(
            {
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "host": platform.node(),
                "pid": os.getpid(),
                "process_started": process_started(os.getpid()),
                "token": PROCESS_TOKEN,
                "serial": self.serial,
            }
        ).encode()

    def take(self, storage: Storage, *, take_over: bool) -> None:
        """Put the marker, or raise.

        Parameters
        ----------
        storage
            Of the store that is to be written.
        take_over
            Whether to take the place of a writer that is gone.

        Raises
        ------
        UnfinishedWriteError
            If another writer is at work, or may be.
        StoreExistsError
            If a writer that is gone left something, and it is not to be taken over.
        """
        if not storage.put_new(MARKER, self.marker):
            (found,) = storage.get_many([MARKER])
            # Gone meanwhile: whoever wrote has finished, and what is there now was not seen by the caller.
            problem = (
                "has just finished here: look at what is there, and write again" if found is None else _busy(found)
            )
            if problem is not None:
                raise UnfinishedWriteError(f"another write {problem}")
            if not take_over:
                message = f"a write {describe(found)} did not finish: write it again with mode='w'"
                raise StoreExistsError(message)
            storage.put_many([(MARKER, self.marker)])
            # Of two who take over at once, the last to write its name has the lock.
            if storage.get_many([MARKER])[0] != self.marker:
                raise UnfinishedWriteError("another write has begun here at the same time: wait for it to finish")
        _HELD.add(self.serial)

    def release(self, storage: Storage) -> None:
        """Remove the marker, if it is still ours."""
        if self.serial in _HELD:
            _HELD.discard(self.serial)
            if storage.get_many([MARKER])[0] == self.marker:
                storage.delete_many([MARKER])

    def __del__(self) -> None:
        # A draft that is forgotten does not hold its place for the rest of the process.
        _HELD.discard(self.serial)


@contextmanager
def changing(storage: Storage) -> Iterator[None]:
    """Hold the lock of a store that is being changed; one that a process which is gone left is taken over."""
    lock = WriteLock()
    lock.take(storage, take_over=True)
    try:
        yield
    finally:
        lock.release(storage)


def describe(marker: Buffer | None) -> str:
    """Say when a write began and whose it is."""
    fields = _parse(marker)
    if not fields:
        return "that began here"
    return f"that began {fields.get('started')} (process {fields.get('pid')} on {fields.get('host')})"


def _busy(marker: Buffer) -> str | None:
    """Say why a marker can't be taken over; ``None`` if whoever put it there is gone."""
    fields = _parse(marker)
    pid, host = fields.get("pid"), fields.get("host")
    if not isinstance(pid, int) or not isinstance(host, str) or pid < 1:
        return None
    if host != platform.node():
        return f"{describe(marker)} may still be at work there: if it is not, remove the key {MARKER!r}"
    if fields.get("token") == PROCESS_TOKEN:
        alive = fields.get("serial") in _HELD
    else:
        known = fields.get("process_started")
        alive = is_alive(pid) and pid != os.getpid() and known in (None, process_started(pid))
    return f"{describe(marker)} is at work: wait for it to finish" if alive else None


def _parse(marker: Buffer | None) -> dict[str, Any]:
    try:
        return {} if marker is None else parse_document(marker)
    except DecodeError:
        return {}
