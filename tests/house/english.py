"""Lint for docstrings: a function's begins with a verb, a class's and a module's with a noun.

`python3 dev check` runs it over `src`; `python tests/house/english.py FOLDER …` over other folders. What a docstring
should look like, before and after, is in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RIDDLES = frozenset(
    """
    also although another any anybody anyone anything as because both but each either everybody everyone everything few
    he her here him his how however i if it its itself just like many me mine more most much my neither never nobody none
    nor nothing now of one others our ours same several she so some somebody someone something such than that their theirs
    them then there these they this those though thus us we what whatever when whenever where wherever whether which
    whichever while who whoever whom whose why you your yours
    """.split()
)
"""Words that a docstring never begins with: pronouns, and words that point to something not said yet."""

VERBS = frozenset(
    """
    abort accept ack acknowledge acquire activate add adjust advance advise afford aggregate align allocate allow alter
    analyse answer appear append apply approximate archive arm arrange ask assemble assert assign assume attach attempt
    authenticate authorize await back bear become begin bind block book borrow bound break bring build bury bump
    calculate call cancel canonicalize cap capture carry cast catch change charge check choose claim clamp classify clean
    clear clip clone close coalesce collapse collect colour combine come commit compact compare compile complain complete
    compose compress compute concatenate configure confirm connect consider consume contain continue convert copy correct
    count cover create crash cross cut date deactivate deal debit decide declare decode decompress decrease decrypt
    deduplicate default defer define delay delete deliver demand deny describe deserialize detach detect determine die
    disable discard disconnect dispatch display distribute divide do double download drain draw drive drop dump duplicate
    echo edit eject emit empty emulate enable encode encrypt end enforce enqueue ensure enter enumerate erase escape
    establish estimate evaluate examine exchange exclude execute exit expand expect expire explain export expose extend
    extract fail fall feed fetch fill filter find finish fire fit fix flag flatten flip flush fold follow forbid force
    forget fork form format forward free freeze gather generate get give go grant group grow guard guess halt hand handle
    hang hash have heal hide hit hold host identify ignore implement import include increase increment indent index infer
    inherit inject insert inspect install interpolate interpret interrupt intersect invalidate invert invoke isolate issue
    iterate jitter join jump keep kill label land launch lay lead learn lease leave lend let lift limit link lint list
    listen load locate lock log look loop lose lower maintain make manage map mark match measure meet mend merge meter
    migrate mirror mix modify monitor mount move mutate nack name narrow negotiate nest normalize note notice notify
    number obey observe obtain occupy offer offset omit open operate order outline output overflow overlap override
    overwrite own pack pad page paginate paint parse partition pass patch pause pay peek perform permit persist pick pin
    place plan play plot poll pop populate position post postpone prefer prefix prepare present preserve press prevent
    preview print probe process produce profile project prolong promote prompt propagate propose protect prove provide
    prune publish pull pump purge push put quantize quarantine query queue quiet quote raise randomize rank rate reach
    read rebuild recall receive recognize recompute reconnect reconstruct record recover recreate recur redact redate
    redeliver redirect redraw redrive reduce refer refill refresh refuse register reject relay release reload remember
    remind remove rename render renew reopen reorder repair repeat replace replay reply report represent reproduce request
    requeue require reread reschedule reserve reset resize resolve respond rest restart restore restrict resume retire
    retry return reuse reverse revert review revise revoke rewind rewrite roll rotate round route run sample satisfy save
    say scale scan schedule score scrape scroll seal search see seed seek select send separate serialize serve set settle
    shape share shed shift ship shorten show shrink shut sign signal simplify simulate size skip sleep slice slide slow
    smooth snapshot solve sort spawn specify spell spend split spread stack stage stall stamp stand start state stay steal
    step stop store stream strip submit subscribe subtract suggest sum supply support suppress suspend swallow swap sweep
    switch synchronize tag tail take tell terminate test throttle throw tick tie time toggle tolerate touch trace track
    transfer transform translate trap treat trigger trim truncate try tune turn unbind undelete undo unfold unify
    uninstall unlock unpack unregister unsubscribe untag unwrap update upgrade upload use validate vary verify view visit
    void wait wake walk want warm warn wash watch weigh widen wind withdraw withhold work wrap write yield zip
    """.split()
)
"""Verbs that a function's docstring may begin with. Add one that is missing; a noun or an adjective is none."""

# Decorators under which a function reads as an attribute, whose docstring is a noun's.
_ATTRIBUTES = re.compile(r"(^|\.)(cached_)?property$|\.(setter|getter)$")
# A class that names an action, such as the operation Send, may say what it does.
_ACTIONS = re.compile(r"(^|\.)Operation(\[|$)")
_FIRST_WORD = re.compile(r"[\W_]*([^\W_][\w'’-]*)")


class Finding(NamedTuple):
    """A docstring that begins with the wrong kind of word."""

    path: Path
    line: int
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.reason}"


def findings_in(path: Path) -> Iterator[Finding]:
    """Yield the docstrings of a file that begin with the wrong kind of word."""
    tree = ast.parse(path.read_text(), str(path))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        doc = ast.get_docstring(node)
        reason = None if doc is None else _reason(node, doc)
        if reason is not None:
            line, name = (1, "module") if isinstance(node, ast.Module) else (node.lineno, node.name)
            yield Finding(path, line, name, reason)


def _reason(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, doc: str) -> str | None:
    """Return why a docstring begins badly, or None if it begins well."""
    # Code, such as ``a.b`` or an option, names a thing: that is as good as a noun, not as a verb.
    is_code = doc.lstrip()[:1] in ("`", "-", "{", "/")
    word = (match.group(1) if (match := _FIRST_WORD.match(doc)) else "").lower()
    if not is_code and word in RIDDLES:
        return f"begins with “{word}”: name the thing that it is about"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_attribute(node):
        if is_code or word not in VERBS:
            return f"begins with “{word}”: begin a function's docstring with a verb, such as “Return”"
        return None
    if is_code or _is_action(node):
        return None
    if word in VERBS_ALONE or _third_person(word):
        return f"begins with the verb “{word}”: begin with a noun here"
    return None


NOUNS_TOO = frozenset(
    """
    answer archive back block book bound break cap call capture cast catch change charge check claim clip clone code colour
    commit copy count cover crash cross cut date deal default delay demand display double drain draw drive drop dump echo
    edit empty end escape estimate exchange exit export extract fail fall feed fill filter find fire fit fix flag fold
    force fork form format forward free freeze grant group guard guess halt hand handle hash hold host hit import
    increase index insert issue join jump label land launch lay lead lease limit link list load lock log look loop lower
    map mark match measure meter mirror mix mount move name narrow nest note notice number offer offset open order outline
    output overflow overlap override own pack pad page partition pass patch pause pay peek permit pick pin place plan play
    plot poll pop position post prefix present press preview print probe process produce profile project prompt purge push
    queue quiet quote raise rank rate reach read record redirect refill reject relay release repair repeat replay reply
    report request reserve reset rest restart result resume retry return reuse reverse review rewrite roll round route run
    sample save scale scan schedule score scroll seal search seed set shape share shed shift ship show shut sign signal
    size skip sleep slice slide slow smooth snapshot sort spawn spell split spread stack stage stall stamp stand start
    state stay step stop store stream strip sum supply support swap sweep switch tag tail take test throttle tick tie time
    touch trace track transfer trap treat trigger trim turn update upgrade upload use view visit void wait wake walk want
    warm wash watch wind work wrap yield
    """.split()
)
"""Words that are verbs and nouns, or adjectives, alike: a class's docstring may begin with them."""

VERBS_ALONE = VERBS - NOUNS_TOO


def _third_person(word: str) -> bool:
    """Return True for “reads” and “carries”, which say what a class does before the class is named."""
    stems = {word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ies") + "y"} - {word, word + "y"}
    return bool(stems & VERBS_ALONE)


def _is_attribute(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_ATTRIBUTES.search(ast.unparse(decorator)) for decorator in node.decorator_list)


def _is_action(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(node, ast.ClassDef) and any(_ACTIONS.search(ast.unparse(base)) for base in node.bases)


def main(folders: list[str]) -> int:
    """Print each finding and their number; return 1 if there are any."""
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    findings = [finding for path in files for finding in findings_in(path)]
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(f"{len(findings)} docstrings of {len(files)} files begin with the wrong kind of word\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
