"""A zygote whose native library is played by Python: forks on request, with the child's descriptors.

Run as a script by `test_zygote.py`. It stands in for the fork only; nothing is locked down.
"""

from __future__ import annotations

import os
import socket
import types

from atoll_kernel import zygote


class FakeNative:
    def atoll_zygote_next(self) -> int:
        control = socket.socket(fileno=os.dup(3))
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, 100, 3)
            if not request:
                os._exit(0)
            if os.fork() == 0:
                for number, fd in zip((3, 1, 2), descriptors, strict=True):
                    os.dup2(fd, number)
                    os.close(fd)
                control.close()
                return 0
            for fd in descriptors:
                os.close(fd)


zygote.ctypes = types.SimpleNamespace(PyDLL=lambda path: FakeNative())  # type: ignore[assignment]
zygote.main()
