"""Reading JSONL and CSV: the lines that become bodies, and those set aside."""

import gzip

import pytest

from sqew.errors import BadValue
from sqew.formats.files import Quarantine, Reject, Row, files_of, format_of, rows
from sqew.rules.limits import Limits


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a file and returns its bodies and rejects."""

    def read(content, format="jsonl", name="in", **options):
        path = tmp_path / name
        path.write_bytes(content)
        found = list(rows(path, format, **options))
        bodies = [(row.line, row.body) for row in found if isinstance(row, Row)]
        rejects = [(row.line, row.reason, row.raw) for row in found if isinstance(row, Reject)]
        return bodies, rejects

    return read


def test_each_line_is_a_body_byte_for_byte(read):
    bodies, rejects = read(b'{"a": 1.0}\n"text"\n[1, 2]\nnull\n')

    assert bodies == [(1, b'{"a": 1.0}'), (2, b'"text"'), (3, b"[1, 2]"), (4, b"null")]
    assert rejects == []


def test_empty_lines_other_line_ends_and_a_byte_order_mark_are_passed_over(read):
    bodies, rejects = read(b"\xef\xbb\xbf1\r\n\r\n  \n2")

    assert bodies == [(1, b"1"), (4, b"2")]
    assert rejects == []


@pytest.mark.parametrize(
    "line", [b"{broken", b"NaN", b'{"a": 1} trailing', b'"\xff"', b"{'a': 1}", b"[" * 100 + b"]" * 100]
)
def test_what_is_no_json_is_set_aside_with_its_line_and_the_rest_goes_on(read, line):
    bodies, rejects = read(b"1\n" + line + b"\n2\n")

    assert bodies == [(1, b"1"), (3, b"2")]
    [(number, reason, raw)] = rejects
    assert number == 2
    assert reason.startswith("The body is ")
    assert raw == line.decode(errors="backslashreplace")


def test_a_line_that_is_too_long_is_set_aside_and_cut(read):
    bodies, rejects = read(b'"' + b"x" * 5000 + b'"\n2\n', limits=Limits(max_body_bytes=100))

    assert bodies == [(2, b"2")]
    assert rejects[0][:2] == (1, "It is longer than 100 bytes.")
    assert len(rejects[0][2]) < 200


def test_a_line_of_just_the_length_is_a_body(read):
    line = b'"' + b"x" * 98 + b'"'

    assert read(line + b"\r\n" + line + b"\n" + line, limits=Limits(max_body_bytes=100))[0] == [
        (1, line), (2, line), (3, line),
    ]  # fmt: skip


def test_each_row_is_an_object_of_texts_named_by_the_first(read):
    bodies, rejects = read(b'id,name\n1,Ann\n2,"O""Neill, Bob"\n', "csv")

    assert bodies == [(2, b'{"id":"1","name":"Ann"}'), (3, b'{"id":"2","name":"O\\"Neill, Bob"}')]
    assert rejects == []


def test_a_text_in_quotes_may_have_several_lines(read):
    bodies, _ = read(b'id,text\n1,"a\nb"\n2,c\n', "csv")

    assert bodies == [(2, b'{"id":"1","text":"a\\nb"}'), (4, b'{"id":"2","text":"c"}')]


def test_cells_may_be_separated_by_something_else(read):
    assert read(b"a;b\n1;2\n", "csv", delimiter=";")[0] == [(2, b'{"a":"1","b":"2"}')]


def test_rows_that_are_not_as_the_first_are_set_aside(read):
    bodies, rejects = read(b"a,b\n1,2\n1\n1,2,3\n\xff,2\n\n3,4\n", "csv")

    assert [line for line, _ in bodies] == [2, 7]
    assert rejects == [
        (3, "It has 1 cells, and the first line names 2.", "1\n"),
        (4, "It has 3 cells, and the first line names 2.", "1,2,3\n"),
        (5, "It is not UTF-8.", "\\xff,2\n"),
    ]


def test_a_quote_that_is_never_closed_is_set_aside_with_the_line_it_was_opened_on(read):
    bodies, rejects = read(b'a,b\n1,2\n3,"x\n4,5\n', "csv")

    assert [line for line, _ in bodies] == [2]
    assert rejects == [(3, "It is no CSV: unexpected end of data.", '3,"x\n4,5\n')]


@pytest.mark.parametrize("header", [b"a,a\n", b"a,\n"])
def test_a_first_row_that_does_not_name_all_columns_is_refused(read, header):
    with pytest.raises(BadValue, match="must name all columns"):
        read(header + b"1,2\n", "csv")


def test_an_empty_file_has_no_bodies(read):
    assert read(b"") == ([], [])
    assert read(b"", "csv") == ([], [])


def test_gzip_is_recognised_whatever_the_name(read):
    assert read(gzip.compress(b"1\n2\n"))[0] == [(1, b"1"), (2, b"2")]


def test_half_a_gzip_file_is_refused(read):
    with pytest.raises(BadValue, match="not a whole gzip file"):
        read(gzip.compress(b'"many different words"\n' * 100)[:-12])


def test_a_folder_is_no_file_to_read(tmp_path):
    with pytest.raises(BadValue, match="There is no file"):
        files_of(["."], tmp_path)


def test_patterns_stand_for_files_by_name_and_each_once(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "c[1].jsonl"):
        (tmp_path / name).touch()

    found = files_of(["b.jsonl", "*.jsonl", "c[1].jsonl"], tmp_path)

    assert [path.name for path in found] == ["b.jsonl", "a.jsonl", "c[1].jsonl"]


def test_a_pattern_may_begin_at_the_root(tmp_path):
    (tmp_path / "a.jsonl").touch()

    assert files_of(f"{tmp_path}/*.jsonl", tmp_path / "elsewhere") == [tmp_path / "a.jsonl"]


@pytest.mark.parametrize(
    ("name", "format"), [("a.csv", "csv"), ("a.CSV.gz", "csv"), ("a.jsonl", "jsonl"), ("a", "jsonl"), ("csv", "jsonl")]
)
def test_the_name_says_what_a_file_is(tmp_path, name, format):
    assert format_of(tmp_path / name) == format


def test_a_quarantine_without_rejects_leaves_no_file(tmp_path):
    Quarantine(tmp_path / "rejects" / "a.jsonl")

    assert not (tmp_path / "rejects").exists()
