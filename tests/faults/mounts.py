"""Small and read-only disks: real file systems, in a mount namespace that ends with the test."""

from __future__ import annotations

import ctypes
import os
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import pytest

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE, _RECURSIVE, _BIND, _REMOUNT, _READ_ONLY = 1 << 18, 1 << 14, 1 << 12, 1 << 5, 1
_NOT_POSSIBLE = 77

Test = Callable[[Path], None]


def in_own_mounts(test: Test) -> Test:
    """Run a test in a child process that may mount what it likes. Skipped where the system allows no namespaces."""

    @wraps(test)
    def run(tmp_path: Path) -> None:
        report, told = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(report)
                code = _in_namespace(test, tmp_path)
            except BaseException:  # noqa: BLE001  whatever it was, the parent tells it
                os.write(told, traceback.format_exc().encode())
            finally:
                # Past pytest's own ending: that belongs to the parent.
                os._exit(code)
        os.close(told)
        with open(report, "rb") as pipe:  # noqa: PTH123  a descriptor, not a path
            said = pipe.read().decode()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == _NOT_POSSIBLE:
            pytest.skip("this system allows no mount namespaces")
        assert code == 0, said or f"the child ended with {code}"

    return run


def mount_small_disk(at: Path, size: int) -> Path:
    """Mount a file system of so many bytes."""
    _call("mount", b"tmpfs", os.fsencode(at), b"tmpfs", 0, f"size={size}".encode())
    return at


def make_read_only(at: Path) -> None:
    """Make a folder read-only, even for root."""
    path = os.fsencode(at)
    _call("mount", path, path, None, _BIND, None)
    _call("mount", None, path, None, _BIND | _REMOUNT | _READ_ONLY, None)


def _in_namespace(test: Test, folder: Path) -> int:
    user, group = os.getuid(), os.getgid()
    try:
        if user == 0:
            _call("unshare", _NEW_MOUNTS)
        else:
            _call("unshare", _NEW_MOUNTS | _NEW_USER)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        _call("mount", b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    except OSError:
        return _NOT_POSSIBLE
    test(folder)
    return 0


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
