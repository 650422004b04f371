"""A command that ends with whoever started it, even by `kill -9`: ``python -m plainbench.faults.tether COMMAND …``.

It is told to terminate when this process's stdin ends, and killed if it takes too long.
"""

from __future__ import annotations

import subprocess
import sys
import threading

END_WITHIN_S = 10.0


def main(command: list[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_stdin, args=(process,), daemon=True).start()
    return process.wait()


def _end_with_stdin(process: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    process.terminate()
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
