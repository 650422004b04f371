"""A command that ends with the process that started it: ``python -m plainbench.faults.tether COMMAND …``.

Even `kill -9` of that process ends it: it is terminated when its stdin ends, and killed if it takes too long.
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
