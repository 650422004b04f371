"""docs/sqs.md and docs/migrating-to-sqew.md: their examples run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pointed import environment
from programs import script

from serving import serving

DOCS = Path(__file__).parents[3] / "docs"
USUAL = "http://127.0.0.1:8888"


def examples(page, language):
    text = (DOCS / page).read_text()
    return [block.replace("\n  ", "\n") for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def run(server, *command):
    environ = {**os.environ, **environment(server), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("example", "shown"),
    list(
        zip(
            re.findall(r"```python\n(.*?)```", (DOCS / "sqs.md").read_text(), re.DOTALL),
            ["hello\n", "sqs://any:**@127.0.0.1:8888//\n", "http://127.0.0.1:8888\n"],
            strict=True,
        )
    ),
)
def test_an_example_in_python_works_on_a_server(shared_server, example, shown):
    here, port = example.replace(USUAL, shared_server.url), str(shared_server.port)

    assert run(shared_server, sys.executable, "-c", here.replace("8888", port)) == shown.replace("8888", port)


@pytest.mark.parametrize("page", ["sqs.md", "migrating-to-sqew.md"])
def test_the_lines_for_the_aws_cli_work_on_a_server(tmp_path, page):
    blocks = [block for block in examples(page, "sh") if block.startswith("aws ")]

    with serving(tmp_path) as server:
        for block in blocks:
            run(server, "bash", "-euc", re.sub(r"http://[\w.]+:8888", server.url, block))
            listed = run(server, *script("aws"), "--endpoint-url", server.url, "sqs", "list-queues")

            assert "/000000000000/orders" in listed


def test_the_fixture_that_takes_the_place_of_mock_aws_works(tmp_path, shared_server):
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "migrating-to-sqew.md").read_text(), re.DOTALL)
    (tmp_path / "test_orders.py").write_text(example)

    shown = run(shared_server, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))

    assert "1 passed" in shown
