"""The plainbench.yaml that `plainbench init` writes."""

from __future__ import annotations

TEMPLATE = """\
# What PlainBench is to run: `plainbench run`. Every key is explained in docs/plainbench.md.
# Times are in the unit that a key ends with; relative paths start in this file's folder.

seed: 1             # the same seed makes the same decisions: what is sent, and which calls go wrong
mode: real          # virtual: the whole run is deterministic, and takes no longer than the work does

# The queue that is measured. `plainbench drivers` lists the others.
target:
  driver: sqew      # Sqew, embedded, on queue_file

sqlite:
  queue_file: ./queue.db
  app_file: ./app.db        # a database for workers, to simulate what an application does
  pragmas:
    journal_mode: WAL
    synchronous: FULL       # NORMAL is faster, and may lose messages in a power cut
    busy_timeout_ms: 5000
    wal_autocheckpoint_pages: 1000

topics:
  - name: orders
    lanes:                  # while both have messages, priority gets three for each one of normal
      - name: priority
        weight: 3
      - name: normal
        weight: 1
    max_attempts: 5         # then a message goes to the dead letters
    base_backoff_ms: 200    # before it is delivered again, and longer each time

# What is sent. Leave it out to work on what `plainbench ingest` has put into the topics.
workload:
  - topic: orders
    arrivals:               # also: constant, bursts, ramp, recorded, at_once; closed for a closed loop
      type: poisson
      rate: 200             # a second
    for_s: 10               # or `messages: 2000`
    senders: 4              # side by side, so that a slow call does not make the next messages late
    lanes: {priority: 1, normal: 3}
    size: {min: 100, max: 1000, shape: log}
    keys: {count: 1000, skew: 1.0}
    # input: fixtures/*.jsonl   # bodies from files (JSONL, CSV, gzip) instead of made-up ones

# Who receives.
workers:
  - name: processor
    concurrency: 4
    lease_ms: 3000          # a message whose ack has failed comes again after so long
    work: {type: normal, mean_ms: 2, std_ms: 0.5}   # how long the work takes
    # cmd: [./process-orders, --mock]     # a command that reads JSON lines and answers each
    # call: workers.py:process            # or a Python function

# What goes wrong.
faults:
  queue:
    latency: {type: p95_spike, base_ms: 0.2, p95_ms: 20, spike_prob: 0.01}
    error_rate: 0.002
    errors: {transient: 1}                # timeout: a real SQLITE_BUSY, after busy_timeout_ms
    # crash: {point: after_commit, rate: 0.0005, calls: [ack]}    # the worker's process is killed
  # db:                                   # the same for calls to app_file, which workers make
  #   latency: {type: normal, mean_ms: 3, std_ms: 1}
  #   error_rate: 0.001
  # disk_full: [{at_s: 4, for_s: 1}]
  # clock_jump: [{at_s: 5, by_s: -60}]

# The run is over when everything is settled, or at the latest …
until:
  most_s: 120
  idle_s: 10                # … when nothing has moved for so long

runs: ./runs                # where runs are recorded
"""
