"""What a parser says a file defines: the truth of benchmarks/verify.py. tree-sitter for all but Python."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any


def read_definitions(text: str, language: str) -> set[str]:
    """Names of functions, classes, types and macros; members as `Owner.member`."""
    if language == "python":
        try:
            return set(_read_python(ast.parse(text), ""))
        except (SyntaxError, ValueError):
            return set()
    tree = _open_parser(language).parse(text.encode())
    return set(_READERS[language](tree.root_node, ""))


@cache
def _open_parser(language: str) -> Any:
    try:
        sitter: Any = importlib.import_module("tree_sitter")
        grammar: Any = importlib.import_module(f"tree_sitter_{language}")
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"what {language} files define is read by parsers: pip install tree-sitter tree-sitter-{language}"
        ) from error
    return sitter.Parser(sitter.Language(grammar.language()))


def _read_python(tree: ast.AST, owner: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}.{node.name}" if owner else node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from _read_python(node, node.name)
        elif isinstance(node, ast.If | ast.Try):
            yield from _read_python(node, owner)


def _text(node: Any) -> str:
    return "" if node is None else str(node.text.decode("utf-8", "replace"))


def _read_javascript(node: Any, owner: str) -> Iterator[str]:
    for child in node.children:
        kind, inner = child.type, owner
        if kind in ("function_declaration", "class_declaration", "generator_function_declaration"):
            name = _text(child.child_by_field_name("name"))
            yield name
            inner = name if kind == "class_declaration" else ""
        elif kind == "method_definition":
            name = _text(child.child_by_field_name("name"))
            yield f"{owner}.{name}" if owner else name
        elif kind == "variable_declarator" and _is_function(child.child_by_field_name("value")):
            yield _text(child.child_by_field_name("name"))
        elif kind == "assignment_expression":
            left, right = child.child_by_field_name("left"), child.child_by_field_name("right")
            if left is not None and left.type == "member_expression":
                is_exported = _text(left.child_by_field_name("object")) in ("exports", "module.exports")
                if is_exported or _is_function(right):
                    yield _text(left.child_by_field_name("property"))
        yield from _read_javascript(child, inner)


def _is_function(node: Any) -> bool:
    return node is not None and node.type in ("function_expression", "arrow_function", "function", "class")


def _read_go(node: Any, owner: str) -> Iterator[str]:
    for child in node.children:
        if child.type in ("function_declaration", "type_spec", "const_spec"):
            yield _text(child.child_by_field_name("name"))
        elif child.type == "method_declaration":
            receiver = _text(child.child_by_field_name("receiver")).strip("()").split()[-1:]
            yield ".".join([*(at.lstrip("*") for at in receiver), _text(child.child_by_field_name("name"))])
        yield from _read_go(child, owner)


def _read_c(node: Any, owner: str) -> Iterator[str]:
    for child in node.children:
        if child.type == "function_definition":
            inner = child.child_by_field_name("declarator")
            while inner is not None and inner.type != "identifier":
                inner = inner.child_by_field_name("declarator")
            yield _text(inner)
        elif child.type in ("preproc_def", "preproc_function_def"):
            yield _text(child.child_by_field_name("name"))
        yield from _read_c(child, owner)


_READERS = {"javascript": _read_javascript, "go": _read_go, "c": _read_c}
