"""Filter policies as in SNS: they select the messages of a topic that a subscription wants.

A policy is compiled once; a published message is read once, however many filters look at it:

>>> wanted = compile_filter('{"shop": [{"prefix": "eu-"}], "price": [{"numeric": [">", 100]}]}', "MessageAttributes")
>>> wanted.matches(Content({"shop": ("String", "eu-west"), "price": ("Number", "150")}, b"..."))
True
>>> wanted.matches(Content({"shop": ("String", "eu-west"), "price": ("Number", "99")}, b"..."))
False
"""

from sqew.matching.filters.budget import Effort
from sqew.matching.filters.content import Attribute, Content
from sqew.matching.filters.policy import Filter, Scope, compile_filter

__all__ = ["Attribute", "Content", "Effort", "Filter", "Scope", "compile_filter"]
