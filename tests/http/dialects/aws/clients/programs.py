"""Third-party programs that work against a server, in processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.http.dialects.aws.pointed import environment

HERE = Path(__file__).parent
ROOT = HERE.parents[4]


@contextlib.contextmanager
def program(server, log, *command, **variables):
    """Run a program until the block ends, with the server as its AWS."""
    environ = {**os.environ, **environment(server), **variables}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        # All of them at once: some wait for their children, which wait for the end of a long poll.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def python(*arguments):
    """Return the command that runs a Python module, as in ``python -m celery``."""
    return (sys.executable, "-m", *arguments)


def script(name, *arguments):
    """Return the command of a program that a package installed."""
    return (str(Path(sys.executable).with_name(name)), *arguments)


def receive_one(sqs, queue, within_s=20):
    """Wait for a queue's next message, delete it, and return its body."""
    found = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=within_s).get("Messages", [])
    assert found, f"nothing came to {queue} within {within_s} s"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=found[0]["ReceiptHandle"])
    return found[0]["Body"]
