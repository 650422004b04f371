"""Names of the source use the field's words: one word for one idea, and one idea for one word."""

from __future__ import annotations

import re
from collections import defaultdict

from sqew import operations
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.operations import Operation
from tests.house.words import comments, names, old_words, summaries, trees

OLD = old_words()
ALLOWED = {
    ("trouble", "sqew/http/dialects/sqew/dialect.py"): "OpenAPI calls the schema Trouble",
    ("trouble", "sqew/spark/runtime/doctor.py"): "`sqew spark doctor --json` has the key",
    ("hub", "plainbench/run/clock.py"): "greenlet's own word",
}
"""Old words that must stay in a file, with the reason."""

ENGLISH = {
    "gather",
    "told",
    "tell",
    "tells",
    "fly",
    "drive",
    "pressure",
    "noted",
    "looking",
    "trouble",
    "flight",
    "seals",
}
"""Old words that are good English in a sentence, if not in a name."""


def test_names_use_no_old_words() -> None:
    found = [
        f"{name}: say {OLD[word]} for {word}"
        for name in names()
        for word in name.words()
        if word in OLD and (word, name.path) not in ALLOWED
    ]

    assert not found, "\n".join(["", *found])


def test_docstrings_begin_with_no_old_words() -> None:
    found = [
        f"src/{path}:{line}: {summary}: say {OLD[word]} for {word}"
        for path, line, summary in summaries()
        for word in re.findall(r"[a-z]+", re.sub(r"`[^`]*`", "", summary.lower()))
        if word in OLD.keys() - ENGLISH and (word, path) not in ALLOWED
    ]

    assert not found, "\n".join(["", *found])


def test_comments_use_no_old_words() -> None:
    found = [
        f"src/{path}:{line}: {comment}: say {OLD[word]} for {word}"
        for path, line, comment in comments()
        for word in re.findall(r"[a-z]+", comment.lower())
        if word in OLD.keys() - ENGLISH and (word, path) not in ALLOWED
    ]

    assert not found, "\n".join(["", *found])


def test_what_is_allowed_is_still_there() -> None:
    used = {(word, name.path) for name in names() for word in name.words()}

    assert not ALLOWED.keys() - used, "these need not be allowed any more"


def test_a_public_class_name_occurs_once() -> None:
    # An operation and the action of AWS that asks for it may share a name.
    actions = {
        kind.__name__ for kind in vars(operations).values() if isinstance(kind, type) and issubclass(kind, Operation)
    }
    actions |= SQS.actions.keys() | SNS.actions.keys()
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees():
        if path.startswith("sqew/"):
            for node in tree.body:
                if (
                    (name := getattr(node, "name", "_"))
                    and type(node).__name__ == "ClassDef"
                    and not name.startswith("_")
                ):
                    homes[name].append(path)

    twice = {name: places for name, places in homes.items() if len(places) > 1 and name not in actions}

    assert not twice
