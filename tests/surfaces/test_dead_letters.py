"""Dead letters: given up, shown, brought back and deleted."""

from sqew.errors import MessageNotFound
from tests.surfaces.surface import refused


def die(surface, queue, count, **options):
    """Send messages, give them up and return their ids."""
    for value in range(count):
        surface.send(queue, value)
    held = surface.receive(queue, count)
    for one in held:
        surface.nack(queue, one.id, one.token, dead=True, **options)
    return [one.id for one in held]


def test_what_is_given_up_is_shown_with_its_reason(surface, queue):
    surface.create(queue)
    [id] = die(surface, queue, 1, reason="no such sku")

    [letter] = surface.dead_letters(queue)
    assert (letter.id, letter.value, letter.reason, letter.died_in) == (id, 0, "no such sku", queue)
    assert surface.stats(queue)["dead"] == 1
    with refused(MessageNotFound):
        surface.get(queue, id)


def test_it_can_be_brought_back_by_its_id_or_with_all(surface, queue):
    surface.create(queue)
    first, *others = die(surface, queue, 3)

    assert surface.requeue(queue, [first]) == 1
    assert [(one.id, one.attempts) for one in surface.peek(queue)] == [(first, 0)]
    assert surface.requeue(queue) == 2
    assert sorted(one.id for one in surface.peek(queue)) == sorted([first, *others])
    assert (surface.requeue(queue), surface.dead_letters(queue)) == (0, [])


def test_it_can_be_deleted_by_its_id_or_with_all(surface, queue):
    surface.create(queue)
    first, *_ = die(surface, queue, 3)

    assert surface.purge_dead(queue, [first]) == 1
    assert first not in [one.id for one in surface.dead_letters(queue)]
    assert surface.purge_dead(queue) == 2
    assert (surface.purge_dead(queue), surface.dead_letters(queue), surface.peek(queue)) == (0, [], [])
