"""Files on object stores, `s3://` and `gs://`, through the packages of fsspec.

Here alone is decided what a URL is. An object store has neither renames nor locks: an
object appears when it has been uploaded whole. Its errors are of the moment more often
than those of a disk, so each request is repeated a few times, with growing waits, and
what cannot be done then is a `UserError` that names the URL and the cause. The packages
repeat some requests on their own before. They find the credentials.
"""

import errno
import io
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path, PosixPath
from types import MappingProxyType
from typing import Any, TypeVar

from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.atomic import name_in_errors

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Module beside fsspec that each protocol needs; tests use fsspec's own, in memory.
_MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"s3": ("s3fs",), "gs": ("gcsfs",), "memory": ()}
)
_WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each repetition of a request."""
_FIRST_BLOCK = 1 << 18
"""Bytes of the first request at a place, which may be but a look."""
_BLOCK = 1 << 23
"""Most bytes of a request. While a reader goes on, each is larger than that before."""
_RETRIED_STATUS = (408, 425, 429)
_FINAL_NUMBERS = (
    errno.EACCES,
    errno.EINVAL,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EPERM,
)
_FINAL_NAMES = re.compile("Credential|Profile|Validation|Invalid|RefreshError")
_FAULTS_OF_PROGRAMS = (ArithmeticError, AttributeError, LookupError, TypeError)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is one on an object store."""
    return isinstance(path, RemotePath) or bool(_URL.match(os.fspath(path)))


def as_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a file, which is a `RemotePath` for a URL.

    Raises:
        UserError: If it is a URL without a bucket or with an empty part.
    """
    if not is_url(path):
        return Path(path)
    protocol, _, rest = os.fspath(path).partition("://")
    if "//" in rest or not rest.strip("/"):
        raise UserError(
            f"{path} must name a bucket and, without empty parts, a path in it, such "
            f"as {protocol}://bucket/folder/file."
        )
    return RemotePath(path)


def check_supported(url: str) -> None:
    """Raises `UserError` if the files of a URL cannot be read here.

    Raises:
        UserError: If it is of another protocol.
        MissingPackage: If a package that reads it is not installed.
    """
    protocol = url.partition("://")[0]
    if protocol not in _MODULES:
        raise UserError(
            f"{url} is on no object store that is supported: s3:// and gs://. Give one "
            "of these, or a path of a file system."
        )
    require_extra(url, "remote", "fsspec", *_MODULES[protocol])


class RemotePath(PosixPath):
    """Path on an object store, such as `s3://bucket/folder/file`.

    It can be joined and asked as any path. It is a folder if an object's name goes on
    after it and a "/". `upload` and `delete` change what is there.
    """

    def __str__(self) -> str:
        # A path has no two slashes together.
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Returns the kind and the size.

        Raises:
            FileNotFoundError: If there is no such object or folder.
            UserError: If that cannot be found out.
        """
        found = _find_info(str(self))
        if found is None:
            message = os.strerror(errno.ENOENT)
            raise FileNotFoundError(errno.ENOENT, message, str(self))
        is_folder = found["type"] == "directory"
        mode = stat.S_IFDIR if is_folder else stat.S_IFREG
        size = 0 if is_folder else int(found["size"])
        return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return _find_info(str(self)) is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        found = _find_info(str(self))
        return found is not None and found["type"] == "file"

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        found = _find_info(str(self))
        return found is not None and found["type"] == "directory"

    def absolute(self) -> "RemotePath":
        return self

    def resolve(self, strict: bool = False) -> "RemotePath":
        return self

    def iterdir(self) -> Generator["RemotePath", None, None]:
        url = str(self)
        names = _attempt(url, "listed", lambda system: system.ls(url, detail=False))
        yield from (self / name.rstrip("/").rpartition("/")[2] for name in names)

    def read_bytes(self) -> bytes:
        with open_remote(str(self)) as file:
            return file.read()

    def read_text(
        self, encoding: str | None = None, errors: str | None = None, *_: Any
    ) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def mkdir(self, *_: Any, **__: Any) -> None:
        raise UserError(
            f"{self} is on an object store, where nothing but records is written. Give "
            "a path of a file system."
        )


def find_pattern(url: str) -> list[str]:
    """Returns the URLs that match a pattern, sorted."""
    try:
        names = _attempt(url, "listed", lambda system: system.glob(url))
    except FileNotFoundError:
        return []
    protocol = url.partition("://")[0]
    return sorted(f"{protocol}://{name.lstrip('/')}" for name in names)


def list_objects(folder: RemotePath) -> list[str]:
    """Returns the names of all objects below a folder, beginning after it."""
    url = str(folder)

    def find(system: Any) -> list[str]:
        prefix = system._strip_protocol(url).rstrip("/") + "/"
        return [name.removeprefix(prefix) for name in system.find(url)]

    try:
        return sorted(_attempt(url, "listed", find))
    except FileNotFoundError:
        return []


def open_remote(url: str) -> io.BufferedReader:
    """Returns an open file that reads ranges of an object, and can be sought in.

    Raises:
        FileNotFoundError: If there is no such object.
        UserError: Here and while reading, if it cannot be read.
    """
    return io.BufferedReader(_Ranges(url))


def as_file_or_path(path: Path) -> Any:
    """Returns what packages can open: an open file for a URL, or the path."""
    return open_remote(str(path)) if isinstance(path, RemotePath) else str(path)


def download(url: RemotePath, file: Path) -> None:
    """Writes the bytes of an object to a file.

    Raises:
        FileNotFoundError: If there is no such object.
        OSError: If the file cannot be written, such as on a full disk.
        UserError: If the object cannot be read.
    """
    with open_remote(str(url)) as source, name_in_errors(file):
        with open(file, "wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)


def upload(file: Path, url: RemotePath) -> None:
    """Makes an object of a file's bytes; it replaces one of that name.

    Raises:
        UserError: If it cannot be written, or its bucket does not exist.
    """
    size = file.stat().st_size

    def put(system: Any) -> None:
        system.put_file(str(file), str(url))
        _check_count(int(system.info(str(url))["size"]), size)

    try:
        _attempt(str(url), "written", put)
    except FileNotFoundError as error:
        raise UserError(
            f"{url} cannot be written: there is no such bucket. Make it, or give "
            "another path."
        ) from error


def write_object(content: bytes, url: RemotePath) -> None:
    """Makes an object of these bytes; see `upload`."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        upload(Path(file.name), url)


def delete(url: RemotePath) -> None:
    """Removes an object if it exists."""
    try:
        _attempt(str(url), "removed", lambda system: system.rm_file(str(url)))
    except FileNotFoundError:
        return


class _Ranges(io.RawIOBase):
    """Raw file of an object, of which a block is in memory."""

    def __init__(self, url: str):
        self._url = url
        self._size = RemotePath(url).stat().st_size
        self._place = self._begin = 0
        self._ahead = 0
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}
        self._place = max(base[whence] + offset, 0)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        if self._place >= self._size:
            return 0
        if not self._begin <= self._place < self._begin + len(self._block):
            goes_on = self._ahead and self._place == self._begin + len(self._block)
            self._ahead = min(4 * self._ahead if goes_on else _FIRST_BLOCK, _BLOCK)
            end = min(self._place + self._ahead, self._size)
            self._block = memoryview(self._request(self._place, end))
            self._begin = self._place
        part = self._block[self._place - self._begin :][: len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _request(self, begin: int, end: int) -> bytes:
        def read(system: Any) -> bytes:
            content = system.cat_file(self._url, start=begin, end=end)
            _check_count(len(content), end - begin)
            return content

        return _attempt(self._url, "read", read)


def _check_count(count: int, expected: int) -> None:
    """Raises `OSError` if a request was cut short."""
    if count != expected:
        raise OSError(f"only {count:,} of {expected:,} bytes arrived")


def _find_info(url: str) -> Mapping[str, Any] | None:
    """Returns what the store tells of an object or folder; None if there is none."""
    try:
        return _attempt(url, "found", lambda system: system.info(url))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _attempt(url: str, done: str, request: Callable[[Any], _Result]) -> _Result:
    """Returns the result of a request, which is repeated after errors of the moment.

    Args:
        url: What it is about.
        done: What cannot be done with it otherwise, in messages.
        request: Function of the file system of fsspec.

    Raises:
        FileNotFoundError: If the store says so.
        UserError: For an error that stays.
    """
    check_supported(url)
    for wait in (*_WAITS, None):
        try:
            return request(_file_system(url))
        except (FileNotFoundError, UserError, *_FAULTS_OF_PROGRAMS):
            raise
        except Exception as error:  # each package has its own
            cause = str(error) or type(error).__name__
            if wait is None or not _is_of_the_moment(error):
                raise UserError(
                    f"{url} cannot be {done}: {cause.rstrip('.')}. {_advice(error)}"
                ) from error
            logger.warning(
                f"{url} could not be {done} ({cause}); again in {wait:g} seconds"
            )
        time.sleep(wait)
    raise AssertionError


def _file_system(url: str) -> Any:
    """Returns the file system of fsspec, with nothing of what it has listed before."""
    import fsspec  # of an extra

    protocol = url.partition("://")[0]
    return fsspec.filesystem(protocol, use_listings_cache=False)


def _is_of_the_moment(error: BaseException) -> bool:
    """Returns whether the same request may succeed later."""
    status = _http_status(error)
    if status is not None:
        return status in _RETRIED_STATUS or status >= 500
    if isinstance(error, OSError) and error.errno in _FINAL_NUMBERS:
        return False
    is_final = isinstance(error, PermissionError | ValueError | FileExistsError)
    return not is_final and not _FINAL_NAMES.search(type(error).__name__)


def _http_status(error: BaseException | None) -> int | None:
    """Returns the status of HTTP in an error of any package, or in its cause."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):  # of botocore
            metadata = response.get("ResponseMetadata", {})
            found = metadata.get("HTTPStatusCode")
        else:
            found = getattr(error, "status", None) or getattr(error, "code", None)
        if isinstance(found, int) and 400 <= found < 600:
            return found
        error = error.__cause__
    return None


def _advice(error: BaseException) -> str:
    status = _http_status(error)
    names = "Credential|Profile|Refresh"
    if (
        isinstance(error, PermissionError)
        or status in (401, 403)
        or re.search(names, type(error).__name__)
    ):
        return "Check the name, the credentials, and what they allow."
    return "Check the name and the connection, and run the command again."
