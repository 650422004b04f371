"""Adding a topic to the text of a plainbench.yaml, with everything else in it left as it is."""

from __future__ import annotations

import json

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from plainbench.config.model import TopicConfig


def with_topic(text: str, topic: TopicConfig) -> str | None:
    """Return the text with the topic as the last one, or None if it would have to be written in another form."""
    root = yaml.compose(text, yaml.SafeLoader)
    key, topics = _topics(root)
    lines = text.splitlines()
    if key is None or topics is None:
        return "\n".join([*lines, "", "topics:", *_entry(topic, 2), ""])
    if isinstance(topics, SequenceNode) and not topics.flow_style:
        # The end of the last entry: what follows it, comments above all, belongs to the next section.
        after = _last_line(topics) + 1
        lines[after:after] = _entry(topic, topics.start_mark.column)
    elif isinstance(topics, ScalarNode) and not topics.value:
        lines[key.start_mark.line + 1 : key.start_mark.line + 1] = _entry(topic, 2)
    else:
        return None
    return "\n".join([*lines, ""])


def _topics(root: Node | None) -> tuple[Node | None, Node | None]:
    if isinstance(root, MappingNode):
        for key, value in root.value:
            if isinstance(key, ScalarNode) and key.value == "topics":
                return key, value
    return None, None


def _last_line(node: Node) -> int:
    """Return the line on which a node's last word ends."""
    match node:
        case MappingNode() if node.value and not node.flow_style:
            key, value = node.value[-1]
            return max(_last_line(key), _last_line(value))
        case SequenceNode() if node.value and not node.flow_style:
            return _last_line(node.value[-1])
    line: int = node.end_mark.line
    return line


def _entry(topic: TopicConfig, indent: int) -> list[str]:
    lines = [f"- name: {_word(topic.name)}"]
    if topic.lanes:
        lines.append("  lanes:")
        for lane in topic.lanes:
            lines += [f"    - name: {_word(lane.name)}", f"      weight: {lane.weight}"]
    if topic.fifo:
        lines.append("  fifo: true")
    attempts = "null" if topic.max_attempts is None else topic.max_attempts
    lines += [f"  max_attempts: {attempts}", f"  base_backoff_ms: {topic.base_backoff_ms}"]
    return [" " * indent + line for line in lines]


def _word(name: str) -> str:
    """Return a name as YAML: in quotes where it would be read as something else, as ``no`` and ``1`` are."""
    return name if yaml.safe_load(name) == name else json.dumps(name)
