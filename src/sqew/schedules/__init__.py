"""Schedule expressions: the forms that people write, the form that is stored, and the times at which they fire.

Every form is explained in docs/schedule-expressions.md.
"""

from sqew.model import ExpressionKind
from sqew.schedules.rules import Rule, is_instant, rule_from, understand
from sqew.schedules.zones import local_time

__all__ = ["ExpressionKind", "Rule", "is_instant", "local_time", "rule_from", "understand"]
