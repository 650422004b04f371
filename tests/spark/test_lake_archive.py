"""Finished messages go to the lake once each, whatever happens to the run that takes them there."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from lakes import NOON, archive_of, finished, ids_in, parquet_files

from sqew.errors import LakeConflict, LakeUnusable
from sqew.spark.jobs.archive import archive
from sqew.spark.lake.commits import Lake
from sqew.spark.lake.files import HadoopFiles, LocalFiles
from sqew.spark.lake.reading import read


class Killed(BaseException):
    """What ends a run as a kill does: nothing that the run would do afterwards is done."""


def killed_at(moment):
    def step(doing):
        if doing == moment:
            raise Killed

    return step


@pytest.fixture
def lake(tmp_path):
    return Lake(LocalFiles(tmp_path / "lake"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "lake"


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


def test_messages_are_in_the_lake_by_queue_and_day(spark, lake, folder):
    messages = [finished(1), finished(2, NOON + timedelta(hours=12)), finished(3, reason="no use", outcome="dead")]

    done = archive(archive_of(spark, messages), "orders", lake)

    assert (done.queue, done.added, done.deleted, done.commit) == ("orders", 3, 0, 1)
    assert {str(path.parent.relative_to(folder)) for path in parquet_files(folder)} == {
        "queue=orders/day=2026-03-01",
        "queue=orders/day=2026-03-02",
    }
    assert ids_in(parquet_files(folder)) == [1, 2, 3]


def test_days_are_utc_whatever_the_time_zone_of_the_session(spark, lake, folder):
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        archive(archive_of(spark, [finished(1)]), "orders", lake)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [path.parent.name for path in parquet_files(folder)] == ["day=2026-03-01"]


def test_the_lake_gives_back_what_the_archive_had(spark, lake):
    messages = [finished(1, group="g", key="k", priority=3), finished(2, outcome="dead", reason="no use")]
    archived = archive_of(spark, messages)

    archive(archived, "orders", lake)

    kept = read(spark, lake, "orders").drop("day").select(*archived.columns)
    assert sorted(kept.collect(), key=lambda row: row["id"]) == archived.collect()


def test_a_second_run_adds_nothing(spark, lake, folder):
    archived = archive_of(spark, [finished(id) for id in range(1, 50)])
    archive(archived, "orders", lake)

    again = archive(archived, "orders", lake)

    assert (again.added, again.commit) == (0, None)
    assert ids_in(parquet_files(folder)) == list(range(1, 50))


def test_a_message_that_finishes_late_is_added_though_later_ones_are_there(spark, lake, folder):
    archive(archive_of(spark, [finished(2), finished(9)]), "orders", lake)

    done = archive(
        archive_of(spark, [finished(2), finished(5, NOON + timedelta(hours=1)), finished(9)]), "orders", lake
    )

    assert (done.added, done.commit) == (1, 2)
    assert ids_in(parquet_files(folder)) == [2, 5, 9]


def test_a_dead_message_that_was_requeued_is_in_the_lake_with_both_its_ends(spark, lake):
    archive(archive_of(spark, [finished(7, outcome="dead")]), "orders", lake)

    archive(archive_of(spark, [finished(7, NOON + timedelta(minutes=5))]), "orders", lake)

    outcomes = read(spark, lake, "orders").orderBy("finished_at").select("id", "outcome").collect()
    assert [tuple(row) for row in outcomes] == [(7, "dead"), (7, "done")]


def test_queues_share_a_lake(spark, lake):
    archive(archive_of(spark, [finished(1)]), "orders", lake)

    archive(archive_of(spark, [finished(2, queue="mail")]), "mail", lake)

    assert lake.queues() == ["mail", "orders"]
    assert (ids(read(spark, lake, "mail")), ids(read(spark, lake))) == ([2], [1, 2])


def test_what_the_lake_has_is_deleted_from_the_archive_when_asked(spark, lake):
    kept = Archive([finished(id) for id in range(1, 8)])

    done = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert (done.added, done.deleted, kept.messages) == (7, 7, [])


def test_a_damaged_message_stays_in_the_archive(spark, lake):
    kept = Archive([finished(1), finished(2, body=None), finished(3)])

    done = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)
    again = archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert (done.added, done.deleted) == (3, 2)
    assert (again.added, again.deleted) == (0, 0)
    assert [message["id"] for message in kept.messages] == [2]


def test_files_that_are_older_than_the_archive_are_left_alone(spark, lake, folder):
    archive(archive_of(spark, [finished(1)]), "orders", lake)
    parquet_files(folder)[0].unlink()
    newer = Archive([finished(2, NOON + timedelta(days=9))])

    done = archive(archive_of(spark, newer.messages), "orders", lake, newer.delete)

    assert (done.added, done.deleted) == (1, 1)


@pytest.mark.parametrize("moment", ["committing", "moving", "deleting"])
def test_a_run_that_was_killed_is_made_good_by_the_next(spark, lake, folder, moment):
    kept = Archive([finished(id, NOON + timedelta(hours=id)) for id in range(1, 20)])
    with pytest.raises(Killed):
        archive(archive_of(spark, kept.messages), "orders", lake, kept.delete, killed_at(moment))
    seen_meanwhile = ids_in(parquet_files(folder))
    count_meanwhile = len(kept.messages)

    archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert count_meanwhile == 19
    assert seen_meanwhile in ([], list(range(1, 20)))
    assert ids_in(parquet_files(folder)) == ids(read(spark, lake)) == list(range(1, 20))
    assert kept.messages == []
    assert list((folder / "_staging").rglob("*.parquet")) == []


def test_a_reader_sees_what_was_committed_though_the_run_died_before_moving_it(spark, lake, folder):
    with pytest.raises(Killed):
        archive(archive_of(spark, [finished(1)]), "orders", lake, step=killed_at("moving"))

    assert parquet_files(folder) == []
    assert ids(read(spark, Lake(LocalFiles(folder)), "orders")) == [1]


def test_files_that_no_commit_names_are_not_read(spark, lake, folder):
    archive(archive_of(spark, [finished(1)]), "orders", lake)
    [file] = parquet_files(folder)

    (file.parent / "copy.parquet").write_bytes(file.read_bytes())

    assert ids(read(spark, lake)) == [1]


def test_of_two_runs_at_a_time_one_commits(spark, lake, folder):
    archived = archive_of(spark, [finished(1), finished(2)])

    def overtake(doing):
        if doing == "committing":
            archive(archived, "orders", Lake(LocalFiles(folder)))

    with pytest.raises(LakeConflict, match="Another run has archived queue 'orders'"):
        archive(archived, "orders", lake, step=overtake)
    assert ids_in(parquet_files(folder)) == [1, 2]
    assert list((folder / "_staging").rglob("*.parquet")) == []


def test_nothing_is_deleted_while_a_file_of_the_lake_is_missing(spark, lake, folder):
    archive(archive_of(spark, [finished(1)]), "orders", lake)
    parquet_files(folder)[0].unlink()
    kept = Archive([finished(1), finished(2)])

    with pytest.raises(LakeUnusable, match=r"parquet is missing from the lake\. Put it back"):
        archive(archive_of(spark, kept.messages), "orders", lake, kept.delete)

    assert len(kept.messages) == 2


def test_nothing_is_deleted_while_a_file_of_the_lake_has_too_few_messages(spark, lake, folder):
    archive(archive_of(spark, [finished(1), finished(2)]), "orders", lake)
    archive(archive_of(spark, [finished(3)]), "orders", lake)
    long, short = sorted(parquet_files(folder), key=lambda file: len(ids_in([file])), reverse=True)
    long.write_bytes(short.read_bytes())
    (long.parent / f".{long.name}.crc").unlink(missing_ok=True)
    kept = Archive([finished(1), finished(2), finished(3)])

    with pytest.raises(LakeUnusable, match="has 1 messages and must have 2"):
        archive(archive_of(spark, kept.messages[2:]), "orders", lake, kept.delete)

    assert len(kept.messages) == 3


def test_a_folder_that_is_no_lake_is_refused(spark, tmp_path):
    with pytest.raises(LakeUnusable, match="is no lake"):
        Lake(LocalFiles(tmp_path)).id  # noqa: B018


def test_a_lake_that_can_not_be_written_is_one_sentence(spark, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(LakeUnusable, match=r"file/lake can't be written: Not a directory\. Choose another folder"):
        archive(archive_of(spark, [finished(1)]), "orders", Lake(LocalFiles(tmp_path / "file" / "lake")))


def test_a_damaged_commit_is_named(spark, lake, folder):
    archive(archive_of(spark, [finished(1)]), "orders", lake)
    commit = folder / "_sqew" / "commits" / "orders" / "000000000001.json"
    commit.write_bytes(commit.read_bytes()[:20])

    with pytest.raises(LakeUnusable, match=r"000000000001\.json can't be read: it is damaged"):
        read(spark, lake)


def test_hadoops_file_systems_hold_lakes_too(spark, folder):
    lake = Lake(HadoopFiles(spark, Path(folder).as_uri()))
    archived = archive_of(spark, [finished(1), finished(2)])
    with pytest.raises(Killed):
        archive(archived, "orders", lake, step=killed_at("moving"))

    again = archive(archived, "orders", lake)

    assert (again.added, ids(read(spark, lake))) == (0, [1, 2])
    assert ids_in(parquet_files(folder)) == [1, 2]
    assert Lake(LocalFiles(folder)).id == lake.id
