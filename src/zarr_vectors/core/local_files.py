"""File calls of a local directory: reads that neither follow a link out of it nor wait, and an atomic swap of two."""

import contextlib
import ctypes
import errno
import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import Final

from zarr_vectors.core.keys import TEMPORARY_PREFIX

# Process numbers repeat, in containers above all: a file that a crash left behind must not be in the way.
PROCESS_TOKEN: Final = secrets.token_hex(4)
_SERIAL: Final = itertools.count()
_HOST: Final = hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()
_TEMPORARY: Final = re.compile(
    rf"{re.escape(TEMPORARY_PREFIX)}(?P<pid>\d{{1,10}})-(?P<host>[0-9a-f]{{8}})-(?P<token>[0-9a-f]{{8}})-\d+(?P<rest>.*)"
)
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_LINUX_ONLY: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def temporary_name(place: str = "") -> str:
    """Return a name for a file that is being written, which nobody else uses; ``place`` is what it will be called."""
    return f"{TEMPORARY_PREFIX}{os.getpid()}-{_HOST}-{PROCESS_TOKEN}-{next(_SERIAL)}{place and f'-{place}'}"


def sweep(folder: str | Path, place: str = "") -> None:
    """Remove from a folder what processes of this machine that are gone were writing there."""
    for name in os.listdir(folder):  # noqa: PTH208  names are all that is needed
        found = _TEMPORARY.fullmatch(name)
        if found is None or found["host"] != _HOST or found["rest"] != (place and f"-{place}"):
            continue
        pid = int(found["pid"])
        if found["token"] != PROCESS_TOKEN and (pid == os.getpid() or not is_alive(pid)):
            Path(folder, name).unlink(missing_ok=True)


class LinkedOutError(OSError):
    """A symbolic link leads out of the directory."""


class Fence:
    """Tells whether paths stay inside a directory in spite of symbolic links; each folder is looked at once."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._inside = {self.root}

    def check_folder(self, folder: str) -> None:
        """Raise `LinkedOutError` if a folder below the root is, or lies in, a link that leads out of it."""
        if folder in self._inside or len(folder) < len(self.root):
            return
        self.check_folder(folder[: folder.rindex("/")])
        try:
            is_link = stat.S_ISLNK(os.lstat(folder).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return
        if is_link:
            self.check_link(folder)
        self._inside.add(folder)

    def check_link(self, path: str) -> None:
        """Raise `LinkedOutError` if what a link leads to is not inside the root."""
        real, root = os.path.realpath(path), os.path.realpath(self.root)
        if not real.startswith(f"{root}/"):
            message = (
                f"a symbolic link leads to {real}, out of the store: open it with follow_links=True if that is meant"
            )
            raise LinkedOutError(errno.ELOOP, message)

    def forget(self) -> None:
        """Look at every folder anew."""
        self._inside = {self.root}


def read_file(path: str, fence: Fence | None, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; a pipe or a device is an error and not a wait."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    if fence is not None:
        fence.check_folder(path[: path.rindex("/")])
        try:
            descriptor = os.open(path, flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            fence.check_link(path)
            descriptor = os.open(path, flags)
    else:
        descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
            message = os.strerror(number) if number == errno.EISDIR else "not a regular file"
            raise OSError(number, message)
        if status.st_size > max_bytes:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes, more than the limit of {max_bytes}: raise max_bytes")
        # One call for nearly every file; a file that grows meanwhile is read as far as it was.
        data = os.read(descriptor, status.st_size)
        while len(data) < status.st_size:
            more = os.read(descriptor, status.st_size - len(data))
            if not more:
                break
            data += more
        return data
    finally:
        os.close(descriptor)


def write_file(path: str, value: memoryview, *, durable: bool) -> None:
    """Write a new file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        left = value
        while left:
            left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: str | Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove whatever is at a path, without following a link; nothing there is fine."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def put_in_place(new: Path, place: Path) -> None:
    """Let two directories change places, in one step where the system can."""
    if _exchange(new, place):
        return
    # Between the two renames nothing is at the place; the old directory has a name that tells where it belongs.
    aside = new.with_name(f"{new.name}-old")
    place.rename(aside)
    new.rename(place)
    aside.rename(new)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two paths atomically, or tell that this system can't."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _LINUX_ONLY:
        return False
    raise OSError(number, os.strerror(number), str(second))


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def process_started(pid: int) -> str | None:
    """Return when a process began, in the system's own words, so that a number that is used again is not mistaken."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19]
