"""Every line of the seed's command-line block, run as it stands there."""

import pytest

# As in the seed, with {name} and <…> filled in. `serve` comes with the server.
BLOCK = """
sqew --help # Displays help information
sqew --version # Shows version information
sqew queue list # List available queues
sqew queue add --name other --max-attempts 5 --visibility-ms 30000 # Adds a new queue
sqew queue rm --name orders # Delete a queue
sqew queue requeue-dlq --name orders # Requeue DLQ items to Queue
sqew queue show --name orders # Show information and stats about the queue
sqew queue purge --name orders # Purge messages from queue
sqew queue peek --name orders --limit 3 # Peek N items from queue
sqew queue compact --name orders
sqew message remove --queue orders --id 1 # Remove messages from queue by id
sqew message peek --queue orders --id 1 # Peek message from queue by id
sqew message get --queue orders --batch 2 # Get message(s), default is 1
sqew message get --queue orders # Get message(s), default is 1
sqew message enqueue --queue orders --file lines.ndjson --payload '{"a": 1}' --idempotency-key k # all of them at once
sqew message enqueue --queue orders --file lines.ndjson # enqueue messages from a newline-delimited JSON file
sqew message enqueue --queue orders --payload '{"a": 1}' --idempotency-key k
sqew message poll --queue orders --batch 2 # poll/lease up to n messages
sqew message ack --queue orders --ids 1,2 # acknowledge multiple messages
sqew message nack --queue orders --ids 1,2 # nack multiple messages
sqew message nack --queue orders --ids 1,2 --delay-ms 50 # nack multiple messages
sqew message extend-lease --queue orders --id 1 --ms 60000 # Extend lease of message
sqew dlq list --queue orders #(list DLQ messages for a queue)
sqew dlq purge --queue orders #(purge DLQ messages)
sqew dlq requeue --queue orders #(requeue DLQ messages to main queue)
sqew stats --queue orders #(show queue stats)
sqew health # (check service health)
sqew metrics # (show metrics in Prometheus format)
"""
LINES = [line.partition(" #")[0].removeprefix("sqew ") for line in BLOCK.strip().splitlines()]
ASKS = ("queue rm", "queue purge", "dlq purge")


@pytest.fixture
def filled(sqew, folder):
    """Fill orders with two messages that were received once, two more, and one dead letter."""
    assert sqew("queue add --name orders").code == 0
    (folder / "lines.ndjson").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n{"n": 4}\n')
    assert sqew("message enqueue --queue orders --file lines.ndjson").code == 0
    assert sqew("message enqueue --queue orders --priority 9 --text dead").code == 0
    assert sqew("message poll --queue orders").code == 0
    assert sqew("message nack --queue orders --ids 5 --dead").code == 0
    assert sqew("message poll --queue orders --batch 2 --lease-ms 1h").code == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith(ASKS)])
def test_a_line_works_as_written(process, line):
    done = process(line)

    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(ASKS)])
def test_a_line_that_destroys_asks_first_on_a_terminal(terminal, process, line):
    refused = terminal(line, "n\n")
    assert refused.code == 1
    assert "Nothing was changed." in refused.out
    assert len(process("queue list --json").json["queues"]) == 2

    agreed = terminal(line, "y\n")

    assert agreed.code == 0
    assert "eleted" in agreed.out or "Purged" in agreed.out


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(ASKS)])
@pytest.mark.parametrize("yes", ["", " --yes"])
def test_a_line_that_destroys_needed_yes_in_cron(process, line, yes):
    done = process(line + yes, input=b"")

    assert (done.code, done.err) == (0, "")
    assert "eleted" in done.out or "Purged" in done.out


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith(("-", "metrics"))])
def test_a_line_answers_in_json_where_asked(sqew, line):
    assert isinstance(sqew(f"--json {line}").json, dict)
