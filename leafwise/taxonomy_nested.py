"""Trees as nested mappings, and these as JSON and YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leafwise.exceptions import TaxonomyError
from leafwise.taxonomy import Taxonomy, own_keywords
from leafwise.taxonomy_names import shorten


class Pairs(list[tuple[str, Any]]):
    """A mapping as the file has it: in order, repeated keys kept."""


class Text(str):
    """A string and the line it stands on."""

    line: int


_RESERVED = {"name", "keywords", "children"}


def read_nested(nested: Any) -> Taxonomy:
    """Tree of nested mappings; see `Taxonomy.from_dict`."""
    names, parent, keywords, where = [""], [-1], [None], [""]
    ignored: dict[str, None] = {}
    content = [_nested_root(nested, names, ignored)]
    node = 0
    while node < len(content):
        keywords[node], children = _nested_node(names[node], content[node], ignored)
        for name, value in children:
            if isinstance(value, Mapping | list) and value:
                _check_not_inside_itself(name, value, node, parent, content)
            names.append(name)
            parent.append(node)
            keywords.append(None)
            where.append(f"line {name.line}" if isinstance(name, Text) else "")
            content.append(value)
        node += 1
    notes = [f"ignored in the nodes: {', '.join(ignored)}"] if ignored else []
    return Taxonomy(names, parent, keywords, notes=notes, where=where)


def _nested_root(nested: Any, names: list[str], ignored: dict[str, None]) -> Any:
    """The root's content; sets its name where the form has one."""
    if isinstance(nested, list | tuple) and not isinstance(nested, Pairs):
        return {"children": list(nested)}
    if not isinstance(nested, Mapping | Pairs):
        raise TaxonomyError(f"A tree is a mapping of names, not {_describe(nested)}.")
    keys = {str(key) for key, _ in _pairs(nested)}
    if keys >= {"name", "children"}:
        value = dict(_pairs(nested))
        if keys <= _RESERVED or isinstance(value["children"], list):
            [(names[0], content)] = _nested_list("the root", [nested], ignored)
            return content
    return nested


def _nested_node(name: str, value: Any, ignored: dict[str, None]) -> tuple[Any, list[Any]]:
    """Keywords (None: not given) of a node and its children as (name, value)."""
    if value is None or isinstance(value, str):
        return value, []
    if isinstance(value, Mapping | Pairs):
        pairs = _pairs(value)
        keys = [str(key) for key, _ in pairs]
        if not keys or not {"keywords", "children"}.issuperset(keys):
            return None, pairs
        if len(set(keys)) < len(keys):
            raise TaxonomyError(f'{_show(name)} has "keywords" or "children" twice.')
        form = dict(zip(keys, (value for _, value in pairs)))
        children = form.get("children")
        if isinstance(children, Mapping | Pairs) or children is None:
            family = _pairs(children or {})
        elif isinstance(children, list | tuple):
            family = _nested_list(_show(name), children, ignored)
        else:
            raise TaxonomyError(f"The children of {_show(name)} must be a mapping or a list.")
        return _nested_keywords(name, form.get("keywords")), family
    return _nested_keywords(name, value), []


def _nested_keywords(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or isinstance(value, Pairs):
        raise TaxonomyError(
            f"The value of {_show(name)} must be nothing, keywords or a mapping of children, "
            f"not {_describe(value)}."
        )
    for word in value:
        if not isinstance(word, str):
            raise TaxonomyError(
                f"The list below {_show(name)} must hold keywords, not {_describe(word)}. "
                "Children are written as a mapping."
            )
    return value


def _nested_list(
    family: str, items: Sequence[Any], ignored: dict[str, None]
) -> list[tuple[str, Any]]:
    """Children given as a list of names or of ``{"name": ...}`` objects, as (name, value)."""
    children: list[tuple[str, Any]] = []
    for item in items:
        if isinstance(item, str):
            children.append((item, None))
            continue
        form = dict(_pairs(item)) if isinstance(item, Mapping | Pairs) else {}
        if not isinstance(form.get("name"), str):
            raise TaxonomyError(
                f'The children of {family} in a list must be names or objects with a "name", '
                f"not {_describe(item)}."
            )
        ignored.update(dict.fromkeys(f'"{key}"' for key in form if key not in _RESERVED))
        rest = Pairs([("keywords", form.get("keywords")), ("children", form.get("children"))])
        children.append((form["name"], rest))
    return children


def _pairs(mapping: Any) -> list[tuple[str, Any]]:
    pairs = list(mapping if isinstance(mapping, Pairs) else mapping.items())
    for k, (name, value) in enumerate(pairs):
        if isinstance(name, int | float):
            pairs[k] = (str(name), value)
        elif not isinstance(name, str):
            raise TaxonomyError(f"A name must be text, not {_describe(name)}.")
    return pairs


def _describe(value: Any) -> str:
    if isinstance(value, Mapping | Pairs):
        return f"a mapping of {len(value)}"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else shorten(str(value))


def _show(name: str) -> str:
    place = f" (line {name.line})" if isinstance(name, Text) else ""
    return f"{shorten(name)}{place}" if name else "the root"


def _check_not_inside_itself(
    name: str, value: Any, node: int, parent: list[int], content: list[Any]
) -> None:
    while node >= 0:
        if content[node] is value:
            raise TaxonomyError(f"{_show(name)} holds itself, in a cycle.")
        node = parent[node]


def write_nested(tree: Taxonomy, every: bool = False) -> dict[str, Any]:
    """Nested mappings of a tree; see `Taxonomy.to_dict`."""
    content: list[Any] = [None] * len(tree)
    family: list[dict[str, Any]] = [{} for _ in content]
    parent = tree.parent.tolist()
    for i in range(len(tree) - 1, -1, -1):  # children come after their parent
        children = dict(reversed(family[i].items()))
        own = own_keywords(tree, i, every)
        unclear = children.keys() <= _RESERVED or children.keys() >= {"name", "children"}
        if not children and i:
            content[i] = None if own is None else list(own)
        elif own is None and not (unclear and children) and (i or not tree.names[0]):
            content[i] = children
        else:
            head = {"name": tree.names[0]} if i == 0 else {}
            words = {} if own is None else {"keywords": list(own)}
            content[i] = {**head, **words, "children": children}
        if i:
            family[parent[i]][tree.names[i]] = content[i]
    return content[0]


# ---- JSON and YAML ------------------------------------------------------------------------------


def read_json(text: str) -> Taxonomy:
    try:
        nested = json.loads(text, object_pairs_hook=Pairs, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise TaxonomyError(f"line {error.lineno}: not valid JSON: {error.msg}.") from None
    except RecursionError:
        raise TaxonomyError("It is nested too deep for JSON; use YAML or CSV.") from None
    return read_nested(nested)


def write_json(tree: Taxonomy, every: bool) -> str:
    try:
        return json.dumps(write_nested(tree, every), ensure_ascii=False, indent=2) + "\n"
    except RecursionError:
        raise TaxonomyError("The tree is too deep for JSON; use YAML or CSV.") from None


def read_yaml(text: str) -> Taxonomy:
    import yaml

    # Events, not objects: they carry the line and the text of each name as it was typed, so that
    # "no" and "1.0" stay what they are and repeated keys are seen.
    documents: list[Any] = []
    value: Any
    opened: list[Any] = []  # a mapping is the list of its keys and values in turn until it ends
    is_mapping: list[bool] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append([])
                is_mapping.append(isinstance(event, yaml.MappingStartEvent))
                continue
            if isinstance(event, yaml.ScalarEvent):
                is_value = not opened or (is_mapping[-1] and len(opened[-1]) % 2 == 1)
                value = _yaml_scalar(event, is_value)
            elif isinstance(event, yaml.CollectionEndEvent):
                value = opened.pop()
                if is_mapping.pop():
                    value = Pairs(zip(value[::2], value[1::2]))
            elif isinstance(event, yaml.AliasEvent):
                raise TaxonomyError(f"line {_line(event)}: write *{event.anchor} out in full.")
            else:
                continue
            (opened[-1] if opened else documents).append(value)
    except yaml.YAMLError as error:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
            line, problem = error.problem_mark.line + 1, error.problem
        else:  # a character that YAML does not allow
            line = text.count("\n", 0, getattr(error, "position", 0)) + 1
            problem = str(error).splitlines()[0]
        raise TaxonomyError(f"line {line}: not valid YAML: {problem}.") from None
    if len(documents) > 1:
        raise TaxonomyError("It holds several YAML documents; a tree is one.")
    return read_nested(documents[0] if documents else {})


def _yaml_scalar(event: Any, is_value: bool) -> Text | None:
    if is_value and event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL"):
        return None
    text = Text(event.value)
    text.line = _line(event)
    return text


def _line(event: Any) -> int:
    return event.start_mark.line + 1


def write_yaml(tree: Taxonomy, every: bool) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.emit(
        _yaml_events(write_nested(tree, every)), Dumper=dumper, allow_unicode=True, width=1000
    )


def _yaml_events(nested: dict[str, Any]) -> Iterator[Any]:
    from yaml import events, nodes
    from yaml.resolver import Resolver

    resolver = Resolver()

    def scalar(text: str) -> Any:
        # Text that another reader would take for a number or a truth value gets quotes.
        plain = resolver.resolve(nodes.ScalarNode, text, (True, False)).endswith(":str")
        return events.ScalarEvent(None, None, (plain, True), text)

    yield events.StreamStartEvent()
    yield events.DocumentStartEvent(explicit=False)
    todo: list[Any] = [nested]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield events.MappingStartEvent(None, None, True, flow_style=not item)
            todo.append(events.MappingEndEvent())
            for name, value in reversed(item.items()):
                todo += [value, name]
        elif isinstance(item, list):
            yield events.SequenceStartEvent(None, None, True, flow_style=True)
            todo += [events.SequenceEndEvent(), *reversed(item)]
        elif item is None:
            yield events.ScalarEvent(None, None, (True, False), "")
        else:
            yield scalar(item) if isinstance(item, str) else item
    yield events.DocumentEndEvent(explicit=False)
    yield events.StreamEndEvent()
