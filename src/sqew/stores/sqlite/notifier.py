"""Notifications between the processes that share a file.

Each is a datagram: every waiting process has a socket in a folder beside the file, so that a queue without waiters
costs its senders only an occasional look at that folder.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from sqew.rules.values import LONGEST_NAME
from sqew.stores.contract import Wakeable

# The kernel's limit on the path of a Unix socket, with its closing zero (104 on macOS, 108 on Linux).
_LONGEST_SOCKET_PATH = 100
_LONGEST_QUEUE_NAME = 4 * LONGEST_NAME
"""The most bytes in a queue's name."""

_MOST_READ_AT_ONCE = 64
_USUAL_BACKLOG = 10
_TRIES_TO_BIND = 20

_QUIET_S = 0.005
"""Seconds for which a sender that found no socket assumes that there is none: looking takes 0.9 µs, of 25 for a send.

So a new socket may be missed for that long: until then, the waiters behind it also poll.
"""


class SocketNotifier:
    """Notifications between the processes that have one file open."""

    look_every_ms = 1 << 62
    """Never: the kernel loses no notification."""

    def __init__(self, database: str) -> None:
        # SQLite follows symbolic links, so all names of a file must lead to one folder.
        self._folder = Path(f"{Path(database).resolve()}-bells") if database != ":memory:" else None
        self._folder_name = str(self._folder)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._known_at = 0.0
        self._name = ""
        self._sender: socket.socket | None = None
        self._quiet_until = 0.0
        self._unavailable = self._folder is None or not hasattr(socket, "AF_UNIX")

    def notify(self, queues: Iterable[str]) -> None:
        """Wake the waiting processes: messages of these queues became ready."""
        folder, now = self._folder, monotonic()
        if folder is None or now < self._quiet_until:
            return
        if not os.access(self._folder_name, os.F_OK):
            # From before the look: in between a socket may have been bound.
            self._quiet_until = now + _QUIET_S
            return
        try:
            names = os.listdir(folder)  # noqa: PTH208 (a path per name is built only for those to be notified)
        except OSError:
            return
        for name in names:
            if name != self._name:
                for queue in queues:
                    self._send(folder / name, queue)

    def _send(self, listener: Path, queue: str) -> None:
        try:
            with _reachable(listener) as address:
                try:
                    self._sending_socket().sendto(queue.encode(), address)
                except BlockingIOError:
                    # That socket is full, or this one is, of what others have not read. A new one is empty: a process
                    # that is stuck must not keep the wake-ups from the rest.
                    self._drop_sender()
                    self._sending_socket().sendto(queue.encode(), address)
        except ConnectionRefusedError:
            # Its process is gone.
            with contextlib.suppress(OSError):
                listener.unlink()
        except OSError:
            # Full: it has wake-ups enough to look at everything (see `_hear`). Gone: nobody waits there.
            pass

    def _sending_socket(self) -> socket.socket:
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sender.setblocking(False)
        return self._sender

    def _drop_sender(self) -> None:
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def listen(self, waiters: Wakeable) -> bool:
        """Wake these waiters on notifications from other processes, in a thread of its own.

        Returns False if there can't be a socket, and while it is so new that senders may have missed it. Call it with
        the waiter registered: a socket that gets a notification while there are no waiters is removed.
        """
        with self._lock:
            if self._socket is None and not self._unavailable:
                try:
                    self._socket = self._open_socket()
                except OSError:
                    self._unavailable = True
                else:
                    self._known_at = monotonic() + _QUIET_S
                    name = "sqew-notifier"
                    threading.Thread(target=self._hear, args=(self._socket, waiters), name=name, daemon=True).start()
            return self._socket is not None and monotonic() >= self._known_at

    def _open_socket(self) -> socket.socket:
        for _ in range(_TRIES_TO_BIND - 1):
            # Another process may be the last one out, and take the folder away under this one.
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                return self._bind()
        return self._bind()

    def _bind(self) -> socket.socket:
        assert self._folder is not None
        self._folder.mkdir(exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._name = f"{os.getpid()}-{os.urandom(4).hex()}"
            with _reachable(self._folder / self._name) as address:
                listener.bind(address)
        except BaseException:
            listener.close()
            raise
        return listener

    def _hear(self, listener: socket.socket, waiters: Wakeable) -> None:
        most = _backlog()
        while True:
            try:
                received = [listener.recv(_LONGEST_QUEUE_NAME)]
                with contextlib.suppress(BlockingIOError):
                    while len(received) < most:
                        received.append(listener.recv(_LONGEST_QUEUE_NAME, socket.MSG_DONTWAIT))
            except OSError:
                return
            if len(received) < most:
                waiters.wake({name.decode(errors="replace") for name in received})
            else:
                # So many that some may not have fitted.
                waiters.wake_all()
            with self._lock:
                if self._socket is not listener:
                    return
                if not waiters:
                    self._take_down()
                    return

    def _take_down(self) -> None:
        listener = self._socket
        if listener is None:
            return
        self._socket = None
        assert self._folder is not None
        (self._folder / self._name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # The last one out.
            self._folder.rmdir()
        # shutdown() ends a recv() in another thread; close() alone would not.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()

    def close(self) -> None:
        """Stop listening and notifying for good: a waiter that is woken by the close may try to listen once more."""
        with self._lock:
            self._unavailable = True
            self._take_down()
        self._drop_sender()


def _backlog() -> int:
    """Return how many unread datagrams the kernel keeps for a socket, at least: after as many, some may be lost."""
    try:
        kept = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    except (OSError, ValueError):
        kept = _USUAL_BACKLOG
    return max(1, min(kept, _MOST_READ_AT_ONCE))


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Yield the path, or a shorter path to the same file if the kernel could not take the whole."""
    if len(os.fsencode(path)) < _LONGEST_SOCKET_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
