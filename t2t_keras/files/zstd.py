"""Decompression of files in zstd's format, by the package zstandard.

Its own stream reader ends without an error where a file was cut off, and by default
after the first of several frames.
"""

import io
from typing import Any

from t2t_keras.errors import require_extra

# Bytes of a file that are decompressed at once: at most 256 MB of text, in a file of
# nothing but repetitions.
_BLOCK = 8192
# zstd --long=31, with which large corpora are compressed, needs as much.
_LARGEST_WINDOW = 1 << 31


def open_zstd(file: Any) -> io.BufferedReader:
    """Returns an open file of zstd, decompressed, as `gzip.open` does.

    Raises:
        MissingPackage: If zstandard is not installed.
    """
    require_extra("Text compressed by zstd", "formats", "zstandard")
    return io.BufferedReader(_ZstdStream(file))


class _ZstdStream(io.RawIOBase):
    """Raw stream of all frames of a file, one after another.

    Reading raises `EOFError` if the file ends within a frame, and an `OSError` without
    a number if it is damaged, as the compressions of the standard library do.
    """

    def __init__(self, file: Any):
        # Of an extra, and only files of this kind need it.
        import zstandard

        self._file = file
        self._error = zstandard.ZstdError
        self._frames = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._frame: Any = None
        self._packed = b""
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            self._packed = self._packed or self._file.read(_BLOCK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends within a frame")
                return 0
            self._text = memoryview(self._decompress())
        count = min(len(buffer), len(self._text))
        buffer[:count] = self._text[:count]
        self._text = self._text[count:]
        return count

    def _decompress(self) -> bytes:
        """Returns the text of the bytes that were read, up to the end of a frame."""
        self._frame = self._frame or self._frames.decompressobj()
        try:
            text = self._frame.decompress(self._packed)
        except self._error as error:
            raise OSError(str(error)) from error
        self._packed = b""
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None
        return text
