"""Archive runs: finished messages go to the lake once each, whatever happens to the run."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqew.errors import LakeConflict, LakeUnusable, TooLarge
from sqew.spark.jobs.archive import archive
from sqew.spark.lake.commits import Lake
from sqew.spark.lake.files import HadoopFiles, LocalFiles
from sqew.spark.lake.read import read
from tests.spark.lake.lakes import NOON, archive_of, finished, ids_in, ids_of, parquet_files


class Killed(BaseException):
    """An exception that ends a run as a kill does: nothing that the run would do afterwards is done."""


def killed_at(moment):
    def step(doing):
        if doing == moment:
            raise Killed

    return step


@pytest.fixture
def folder(tmp_path):
    """Return a folder whose name, taken for a pattern, does not match it."""
    return tmp_path / "lake [1] {a,b}*"


@pytest.fixture
def lake(folder):
    return Lake(LocalFiles(folder))


MESSAGES = [
    finished(1, group="g", key="k", priority=3),
    finished(2, NOON + timedelta(hours=12)),
    finished(3, reason="no use", outcome="dead"),
]


@pytest.fixture(scope="module")
def archived_once(spark, tmp_path_factory):
    """Return a lake that has `MESSAGES`, and the result of its run, in a session of another time zone."""
    folder = tmp_path_factory.mktemp("archived") / "lake"
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        done = archive(archive_of(spark, MESSAGES), "orders", Lake(LocalFiles(folder)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    return folder, done


@pytest.fixture
def filled(archived_once, folder):
    """Return a lake of the test's own that has `MESSAGES`."""
    shutil.copytree(archived_once[0], folder)
    return Lake(LocalFiles(folder))


class Archive:
    """A queue's archive from which messages can be deleted."""

    def __init__(self, messages):
        self.messages = list(messages)

    def delete(self, which):
        times = {(one.id, one.finished_at) for one in which}
        before = len(self.messages)
        self.messages = [
            one for one in self.messages if (one["id"], round(one["finished_at"].timestamp() * 1000)) not in times
        ]
        return before - len(self.messages)


def ids(frame):
    return sorted(row["id"] for row in frame.select("id").collect())


def test_messages_are_in_the_lake_by_queue_and_day_in_utc(archived_once):
    folder, done = archived_once

    assert (done.queue, done.added, done.deleted, done.commit) == ("orders", 3, 0, 1)
    assert {str(path.parent.relative_to(folder)) for path in parquet_files(folder)} == {
        "queue=orders/day=2026-03-01",
        "queue=orders/day=2026-03-02",
    }
    assert ids_in(parquet_files(folder)) == [1, 2, 3]


def test_the_lake_gives_back_what_the_archive_had(spark, filled):
    archived = archive_of(spark, MESSAGES)

    kept = read(spark, filled, "orders").drop("day").select(*archived.columns)

    assert sorted(kept.collect(), key=lambda row: row["id"]) == archived.collect()


def test_a_second_run_adds_nothing(spark, filled, folder):
    again = archive(archive_of(spark, MESSAGES), "orders", filled)

    assert (again.added, again.commit) == (0, None)
    assert ids_in(parquet_files(folder)) == [1, 2, 3]


def test_what_finishes_late_or_again_is_added(spark, lake):
    archive(archive_of(spark, [finished(2), finished(7, outcome="dead"), finished(9)]), "orders", lake)
    late, requeued = finished(5, NOON + timedelta(hours=1)), finished(7, NOON + timedelta(minutes=5))

    done = archive(archive_of(spark, [finished(2), late, requeued, finished(9)]), "orders", lake)

    assert (done.added, done.commit) == (2, 2)
    assert ids_of(lake) == [2, 5, 7, 7, 9]


def test_queues_share_a_lake(spark, filled):
    archive(archive_of(spark, [finished(4, queue="mail")]), "mail", filled)

    assert filled.queues() == ["mail", "orders"]
    assert (ids_of(filled, "mail"), ids_of(filled), ids(read(spark, filled))) == ([4], [1, 2, 3, 4], [1, 2, 3, 4])


def test_what_the_lake_has_is_deleted_from_the_archive_when_asked(spark, lake):
    kept = Archive([finished(id) for id in range(1, 8)])

    done = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert (done.added, done.deleted, kept.messages) == (7, 7, [])


def test_a_server_that_takes_few_at_a_time_is_told_of_few(spark, lake):
    kept = Archive([finished(id) for id in range(1, 30)])
    told = []

    def delete(which):
        if len(which) > 4:
            raise TooLarge("A batch may hold 4 entries.")
        told.append(len(which))
        return kept.delete(which)

    done = archive(archive_of(spark, kept.messages), "orders", lake, delete)

    assert (done.deleted, kept.messages, max(told)) == (29, [], 3)


def changed(folder, id, change):
    """Change the contents of the file that has a message."""
    [file] = [file for file in parquet_files(folder) if id in ids_in([file])]
    pq.write_table(change(pq.ParquetFile(file).read()), file, use_deprecated_int96_timestamps=True)


def test_a_message_that_the_lake_has_otherwise_stays_in_the_archive(spark, filled, folder):
    def lose_body(table):
        return table.set_column(table.column_names.index("body"), "body", pa.array(["lost"]))

    changed(folder, 2, lose_body)
    kept = Archive(MESSAGES)

    done = archive(archive_of(spark, kept.messages), "orders", filled, kept.delete)

    assert (done.added, done.deleted) == (0, 2)
    assert [message["id"] for message in kept.messages] == [2]


def test_a_damaged_message_stays_in_the_archive(spark, lake):
    kept = Archive([finished(1), finished(2, body=None), finished(3)])

    done = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)
    again = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert (done.added, done.deleted) == (3, 2)
    assert (again.added, again.deleted) == (0, 0)
    assert [message["id"] for message in kept.messages] == [2]


def test_files_that_are_older_than_the_archive_are_left_alone(spark, filled, folder):
    for file in parquet_files(folder):
        file.unlink()
    newer = Archive([finished(9, NOON + timedelta(days=9))])

    done = archive(archive_of(spark, newer.messages), "orders", filled, newer.delete)

    assert (done.added, done.deleted) == (1, 1)


def test_runs_that_were_killed_one_after_the_other_are_made_good_by_the_next(spark, lake, folder):
    kept = Archive([finished(id, NOON + timedelta(hours=id)) for id in range(1, 20)])
    archived = archive_of(spark, kept.messages)
    seen = []
    for moment in ("committing", "moving", "deleting"):
        with pytest.raises(Killed):
            archive(archived, "orders", lake, kept.delete, killed_at(moment))
        seen.append((len(ids_in(parquet_files(folder))), len(kept.messages)))

    archive(archived, "orders", lake, kept.delete)

    assert seen == [(0, 19), (0, 19), (19, 19)]
    assert ids_in(parquet_files(folder)) == ids_of(lake) == list(range(1, 20))
    assert kept.messages == []
    assert list((folder / "_staging").rglob("*.parquet")) == []


def test_a_reader_sees_what_was_committed_though_the_run_died_before_moving_it(spark, lake, folder):
    with pytest.raises(Killed):
        archive(archive_of(spark, [finished(1)]), "orders", lake, step=killed_at("moving"))

    assert parquet_files(folder) == []
    assert ids(read(spark, Lake(LocalFiles(folder)), "orders")) == [1]


def test_files_that_no_commit_names_are_not_read(spark, filled, folder):
    file = parquet_files(folder)[0]

    (file.parent / "copy.parquet").write_bytes(file.read_bytes())

    assert ids(read(spark, filled)) == [1, 2, 3]


def test_what_others_put_beside_what_is_staged_is_left_alone(spark, lake, folder):
    notes = folder / "_staging" / "orders" / "notes"
    notes.mkdir(parents=True)

    done = archive(archive_of(spark, [finished(1)]), "orders", lake)

    assert (done.added, notes.exists()) == (1, True)


def test_of_two_runs_at_a_time_one_commits(spark, lake, folder):
    archived = archive_of(spark, [finished(1), finished(2)])

    def overtake(doing):
        if doing == "committing":
            archive(archived, "orders", Lake(LocalFiles(folder)))

    with pytest.raises(LakeConflict, match="Another run has archived queue 'orders'"):
        archive(archived, "orders", lake, step=overtake)
    assert ids_in(parquet_files(folder)) == [1, 2]
    assert list((folder / "_staging").rglob("*.parquet")) == []


def test_nothing_is_deleted_while_a_file_of_the_lake_is_missing(spark, filled, folder):
    parquet_files(folder)[0].unlink()
    kept = Archive([*MESSAGES, finished(4)])

    with pytest.raises(LakeUnusable, match=r"parquet is missing from the lake\. Put it back"):
        archive(archive_of(spark, kept.messages), "orders", filled, kept.delete)

    assert len(kept.messages) == 4


def test_nothing_is_deleted_while_a_file_of_the_lake_has_too_few_messages(spark, filled, folder):
    changed(folder, 3, lambda table: table.slice(0, 1))
    kept = Archive(MESSAGES[:1])

    with pytest.raises(LakeUnusable, match="has 1 messages and must have 2"):
        archive(archive_of(spark, kept.messages), "orders", filled, kept.delete)

    assert len(kept.messages) == 1


def test_a_folder_that_is_no_lake_is_refused(spark, tmp_path):
    with pytest.raises(LakeUnusable, match="is no lake"):
        Lake(LocalFiles(tmp_path)).id  # noqa: B018


def test_a_lake_that_can_not_be_written_is_one_sentence(spark, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(LakeUnusable, match=r"file/lake can't be written: Not a directory\. Choose another folder"):
        archive(archive_of(spark, [finished(1)]), "orders", Lake(LocalFiles(tmp_path / "file" / "lake")))


@contextmanager
def largest_file(spark, size):
    """Limit the size of Java's files in this block, as on a disk that has no room for more."""
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)


def test_a_lake_without_room_is_one_sentence_and_keeps_nothing(spark, lake, folder):
    noise = random.Random(1)
    kept = Archive([finished(id, body=f'"{noise.randbytes(900).hex()}"') for id in range(1, 200)])
    archived = archive_of(spark, kept.messages)

    with (
        largest_file(spark, 65_536),
        pytest.raises(LakeUnusable, match=r"has no room left\. Free some, and run it again"),
    ):
        archive(archived, "orders", lake, kept.delete)

    assert len(kept.messages) == 199
    assert list(folder.rglob("*.parquet")) == []


def test_a_commit_that_there_is_no_room_for_leaves_nothing_behind(spark, folder):
    class Full(LocalFiles):
        def create(self, name, content):
            if "commits" in name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().create(name, content)

    with pytest.raises(LakeUnusable, match="has no room left"):
        archive(archive_of(spark, [finished(1)]), "orders", Lake(Full(folder)))

    assert list(folder.rglob("*.parquet")) == []


def test_a_damaged_commit_is_named(spark, filled, folder):
    commit = folder / "_sqew" / "commits" / "orders" / "000000000001.json"
    commit.write_bytes(commit.read_bytes()[:20])

    with pytest.raises(LakeUnusable, match=r"000000000001\.json can't be read: it is damaged"):
        read(spark, filled)


def test_hadoops_file_systems_hold_lakes_too(spark, tmp_path):
    lake = Lake(HadoopFiles(spark, tmp_path.as_uri()))
    archived = archive_of(spark, [finished(1), finished(2)])
    with pytest.raises(Killed):
        archive(archived, "orders", lake, step=killed_at("moving"))

    again = archive(archived, "orders", lake)

    assert again.added == 0
    assert ids_in(parquet_files(tmp_path)) == [1, 2]
    assert Lake(LocalFiles(tmp_path)).id == lake.id
