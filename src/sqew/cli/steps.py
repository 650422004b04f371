"""Work that is done in many transactions, so that nothing waits long for it: Ctrl-C may leave a part of it done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqew.errors import SqewError
from sqew.terminal.exits import CommandError, Exit, complain
from sqew.terminal.output import plural

if TYPE_CHECKING:
    from sqew.cli.session import Queues, QueueSession
    from sqew.core.flows.steps import Stepwise
    from sqew.model import Progress


def in_steps(
    session: QueueSession, q: Queues, operation: Callable[[], Stepwise], ask: Callable[[], int], done: str, noun: str
) -> int:
    """Run an operation to its end, or ``ask`` a server to; return the number that it dealt with.

    On Ctrl-C, and on an error after the first step, it reports how far it came. ``done`` and ``noun``: what is done to
    what, as in deleted and message.
    """
    if session.url:
        try:
            return ask()
        except KeyboardInterrupt:
            raise CommandError(
                f"Interrupted: the server was asked already, and may have {done} all of them or go on.",
                Exit.INTERRUPTED,
            ) from None
    # Here, because not every command that may come to this does, and a server needs none of it.
    from sqew.cli.messages.lines import CtrlC
    from sqew.core.flows import Unchecked, run_now
    from sqew.core.flows.steps import each_step

    count, unsure = 0, ""

    def run(step: Unchecked[Progress]) -> Progress:
        nonlocal count, unsure
        with ctrl_c.held():
            unsure = " and perhaps some more"
            progress = q.run(step.operation)
            count, unsure = count + progress.count, ""
        return progress

    with CtrlC() as ctrl_c:
        try:
            run_now(each_step(operation()), run)
        except KeyboardInterrupt:
            so_far = f"{done} {plural(count, noun)}{unsure}, and left the rest"
            raise CommandError(f"Interrupted: {so_far}. Run it again to go on.", Exit.INTERRUPTED) from None
        except SqewError:
            if count:
                complain(f"Stopped: {done} {plural(count, noun)}, and left the rest.")
            raise
    return count
