"""Writers: messages sent in whole epochs."""

from sqew.errors import AlreadyPromoted, BadValue, PartIncomplete, QueueNotFound
from tests.surfaces.surface import refused


def test_an_epoch_appears_together_and_once(program, queue):
    program.create(queue)

    assert program.stage(queue, "load", 0, "p", [1, 2]) == 2
    assert program.stage(queue, "load", 0, "q", ["x"]) == 1
    assert (program.peek(queue), program.writers(queue)) == ([], [("load", None, 3)])
    assert program.promote(queue, "load", 0, {"p": 2}) == (2, False)
    assert program.promote(queue, "load", 0, {"p": 2}) == (2, True)
    assert [one.value for one in program.peek(queue)] == [1, 2]
    assert program.writers(queue) == [("load", 0, 0)]


def test_what_is_aborted_never_appears(surface, queue, aside):
    surface.create(queue)
    aside.stage(queue, "load", 3, "p", [1])

    assert surface.writers(queue) == [("load", None, 1)]
    surface.abort(queue, "load", 3)

    assert surface.writers(queue)[:1] in ([], [("load", None, 0)])
    with refused(PartIncomplete):
        aside.promote(queue, "load", 3, {"p": 1})
    aside.promote(queue, "load", 3, {})
    with refused(AlreadyPromoted):
        surface.abort(queue, "load", 3)


def test_bad_values_and_unknown_names_are_refused(program, queue):
    program.create(queue)

    with refused(QueueNotFound):
        program.stage("nowhere", "load", 0, "p", [1])
    with refused(BadValue):
        program.stage(queue, "load", -1, "p", [1])
    with refused(PartIncomplete):
        program.promote(queue, "load", 0, {"p": 1})
    with refused(QueueNotFound):
        program.promote("nowhere", "load", 0, {})
    with refused(BadValue):
        program.promote(queue, "load", 0, {"p": -1})
    assert program.peek(queue) == []
