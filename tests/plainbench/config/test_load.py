"""The file plainbench.yaml: the configurations that are accepted, and errors for mistakes in it."""

import pytest

from plainbench.config.load import load
from plainbench.config.model import Config, Lane, Normal, P95Spike, Pragmas, TopicConfig
from plainbench.config.template import TEMPLATE
from sqew.errors import BadValue, NotFound

SEED = """\
# plainbench.yaml
sqlite:
  queue_file: "./queue.db"
  app_file: "./app.db"
  pragmas:
    journal_mode: WAL
    synchronous: NORMAL
    busy_timeout_ms: 5000
    wal_autocheckpoint_pages: 1000

topics:
  - name: orders
    lanes:
      - name: priority
        weight: 3
      - name: normal
        weight: 1
    max_attempts: 5
    base_backoff_ms: 750

faults:
  queue:
    latency: {type: p95_spike, base_ms: 5, p95_ms: 40, spike_prob: 0.01}
    error_rate: 0.002
  db:
    latency: {type: normal, mean_ms: 8, std_ms: 4}
    error_rate: 0.001

workers:
  - name: order-processor
    cmd: ["./bin/process-orders", "--mode", "mock"]
    concurrency: 8
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a file and returns the configuration in it."""

    def read(text, name="plainbench.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(path)

    return read


@pytest.fixture
def complaint(read, tmp_path):
    """Return a function that returns the sentences that refuse a file's content, without the folder in them."""

    def complain(text):
        with pytest.raises(BadValue) as refused:
            read(text)
        return str(refused.value).replace(f"{tmp_path}/", "")

    return complain


def with_topic(text):
    return f"topics: [{{name: orders, lanes: [{{name: high}}, {{name: low}}]}}]\n{text}"


def test_the_configuration_of_the_seed_is_taken_key_for_key(read):
    config = read(SEED)

    assert (config.sqlite.queue_file, config.sqlite.app_file) == ("./queue.db", "./app.db")
    assert config.sqlite.pragmas == Pragmas("WAL", "NORMAL", 5000, 1000)
    assert config.topics == [TopicConfig("orders", [Lane("priority", 3), Lane("normal", 1)], False, 5, 750)]
    assert config.faults.queue.latency == P95Spike(5, 40, 0.01)
    assert config.faults.queue.error_rate == 0.002
    assert config.faults.db.latency == Normal(8, 4)
    assert config.faults.db.error_rate == 0.001
    worker = config.workers[0]
    assert (worker.name, worker.cmd, worker.concurrency) == (
        "order-processor", ["./bin/process-orders", "--mode", "mock"], 8,
    )  # fmt: skip


def test_what_init_writes_is_a_configuration(read):
    config = read(TEMPLATE)

    assert config.workload
    assert config.workers


def test_what_init_writes_names_every_section_that_there_is():
    for section in Config.__struct_fields__:
        assert f"\n{section}:" in f"\n{TEMPLATE}", section


def test_a_key_that_does_not_exist_is_told_with_its_line_and_the_nearest_that_does(complaint):
    said = complaint("topics:\n  - name: orders\n    max_attemps: 3\n")

    assert said == (
        "plainbench.yaml, line 3: topics[0] has no key 'max_attemps' (did you mean 'max_attempts'?). "
        "It may have: name, lanes, fifo, max_attempts, base_backoff_ms."
    )


def test_a_key_that_is_missing_is_told_with_what_it_may_be(complaint):
    said = complaint("topics:\n  - fifo: true\n")

    assert said == "plainbench.yaml, line 2: topics[0] needs the key 'name': a text of 1 to 80 characters."


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("seed: five", 2, "seed can't be 'five': it must be a whole number from 0 on."),
        ("seed: 1.5", 2, "seed can't be '1.5': it must be a whole number from 0 on."),
        ("seed: -1", 2, "seed can't be '-1': it must be a whole number from 0 on."),
        ("seed: '5'", 2, "seed can't be '5': it must be a whole number from 0 on, without quotes."),
        ("seed: {a: 1}", 2, "seed can't be keys and values: it must be a whole number from 0 on."),
        ("seed:", 2, "seed can't be empty: it must be a whole number from 0 on."),
        ("mode: vrtual", 2, "mode can't be 'vrtual' (did you mean 'virtual'?): it must be one of real, virtual."),
        ("until:\n  most_s: .inf", 3, "until.most_s can't be '.inf': it must be a number from 0 on."),
        ("until: soon", 2, "until can't be 'soon': it must be keys and values (most_s, idle_s)."),
        (
            "faults: {queue: {error_rate: 2}}", 2,
            "faults.queue.error_rate can't be '2': it must be a number from 0 to 1.",
        ),
        (
            "faults:\n  queue:\n    latency: {type: p95spike}", 4,
            ("faults.queue.latency.type can't be 'p95spike' (did you mean 'p95_spike'?): it must be one of fixed, "
             "uniform, normal, p95_spike, histogram."),
        ),
        (
            "faults: {db: {latency: {ms: 3}}}", 2,
            "faults.db.latency needs the key 'type': one of fixed, uniform, normal, p95_spike, histogram.",
        ),
        (
            "faults: {queue: {errors: {tiemout: 1}}}", 2,
            "faults.queue.errors has no key 'tiemout' (did you mean 'timeout'?). It may have: timeout, transient.",
        ),
        ("workers:\n- name: w\n  heartbeat: 'yes'", 4,
         "workers[0].heartbeat can't be 'yes': it must be true or false, without quotes."),
        ("workers:\n- name: w\n  cmd: run", 4,
         "workers[0].cmd can't be 'run': it must be a list, each entry of it a text."),
        ("seed: 1\nseed: 2", 3, "seed is here for the second time: the first is on line 2."),
        ("target: {options: {a: !thing {}}}", 2,
         "target.options.a can't be read: could not determine a constructor for the tag '!thing'."),
    ],
)  # fmt: skip
def test_a_bad_value_is_told_with_its_line_its_key_and_what_is_allowed(complaint, text, line, sentence):
    assert complaint(with_topic(text)) == f"plainbench.yaml, line {line}: {sentence}"


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines(complaint):
    said = complaint("seed: x\nmode: y\ntopics: z\n").splitlines()

    assert [line.split(":")[0] for line in said] == [f"plainbench.yaml, line {line}" for line in (1, 2, 3)]


def test_more_than_ten_mistakes_are_counted(complaint):
    said = complaint("".join(f"key_{number}: 1\n" for number in range(15))).splitlines()

    assert len(said) == 11
    assert said[-1] == "There are 5 more mistakes in plainbench.yaml."


def test_what_is_no_yaml_is_told_with_its_line(complaint):
    said = complaint("seed: 1\ntopics: [\n")

    assert said.startswith("plainbench.yaml, line 3: this is no YAML:")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_is_refused(complaint, text):
    assert "plainbench init" in complaint(text) or "can't be empty" in complaint(text)


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "42\n"])
def test_a_file_that_is_not_keys_and_values_is_refused(complaint, text):
    assert "line 1: the file can't be" in complaint(text)


def test_a_file_that_is_not_there_is_told_with_what_to_do(tmp_path):
    with pytest.raises(NotFound, match="plainbench init"):
        load(tmp_path / "plainbench.yaml")


def test_a_file_that_is_not_utf_8_is_refused(complaint):
    assert "is not UTF-8" in complaint("seed: 1 # é".encode("latin-1"))


def test_bytes_that_yaml_forbids_are_refused(complaint):
    assert "is no YAML" in complaint("seed: 1\x00\n")


def test_nesting_without_end_is_refused(complaint):
    assert "plainbench.yaml" in complaint("a: " + "[" * 5000)


def test_a_section_with_everything_commented_out_is_as_if_it_were_not_there(read):
    config = read(with_topic("faults:\n  queue:\n  # error_rate: 1\nworkload:\nsqlite:\n"))

    assert config.faults == Config().faults
    assert config.workload == []


@pytest.mark.parametrize(
    ("written", "number"), [("1e3", 1000), ("1_000", 1000), ("2.0", 2), ("18446744073709551617", 2**64 + 1)]
)
def test_numbers_may_be_written_in_their_usual_ways(read, written, number):
    assert read(with_topic(f"seed: {written}")).seed == number


@pytest.mark.parametrize("name", ["no", "1", "null-ish", "1e3"])
def test_a_name_is_a_text_whatever_yaml_would_make_of_it(read, name):
    assert read(f"topics: [{{name: {name}}}]").topics[0].name == name


def test_null_stands_for_no_limit(read):
    assert read("topics: [{name: a, max_attempts: null}]").topics[0].max_attempts is None


def test_what_an_anchor_names_may_be_used_again_and_changed(read):
    config = read(
        "topics: [{name: a}]\n"
        "workers:\n"
        "  - &one {name: w, concurrency: 3, work: &work {type: fixed, ms: 1}}\n"
        "  - {<<: *one, name: v, work: {<<: *work, ms: 2}}\n"
    )

    assert [(worker.name, worker.concurrency, worker.work.ms) for worker in config.workers] == [
        ("w", 3, 1),
        ("v", 3, 2),
    ]


def test_options_of_a_target_may_be_anything(read, tmp_path):
    (tmp_path / "own.py").write_text(
        "class Own:\n    name, options, runs_in_virtual_time = 'own', {'url': '', 'db': '', 'deep': ''}, False\n"
    )

    config = read(with_topic("target: {driver: 'own.py:Own', options: {url: x, db: 3, deep: [1, {a: null}]}}"))

    assert config.target.options == {"url": "x", "db": 3, "deep": [1, {"a": None}]}


def test_what_does_not_go_together_is_told_along_with_what_is_wrong_elsewhere(complaint):
    said = complaint(with_topic("seed: many\nworkload:\n  - {topic: order, messages: 3}\nworkers:\n  - name: lab\n"))

    assert [line.partition(": ")[2][:40] for line in said.splitlines()] == [
        "seed can't be 'many': it must be a whole",
        "workload[0].topic: there is no topic 'or",
        "workers[0].name can't be 'lab': the lab ",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "workload:\n  - topic: orders\n    mesages: 3\n",
        "workload:\n  - topic: orders\n    messages: none\n",
        "workload:\n  - messages: 3\n",
        "target: {driver: sqew, option: {}}\nworkload:\n  - topic: orders\n",
    ],
)
def test_nothing_is_told_that_only_follows_from_another_mistake(complaint, text):
    assert len(complaint(with_topic(text)).splitlines()) == 1


def test_topics_that_are_misspelt_are_one_mistake(complaint):
    assert len(complaint("topcis: [{name: a}]\nworkload: [{topic: a, messages: 1}]\n").splitlines()) == 1


def test_options_that_hold_themselves_are_refused(complaint):
    assert "target.options.inner can't be read" in complaint(with_topic("target: {options: &o {inner: *o}}"))


def test_a_byte_order_mark_is_passed_over(read):
    assert read(b"\xef\xbb\xbf" + with_topic("seed: 3").encode()).seed == 3
