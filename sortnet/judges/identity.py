"""Tell judges apart: a hash of what decides a judge's answers.

A model is known by its name, server, prompt and parameters, a program by its command. A function is
known by its name and bytecode, the values that it holds (defaults, closure, the object of a
method), and the functions and constants of its module that it uses. So a corrected function is
another judge, and the same function in a later process is the same judge.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.function import Function
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.prompts import Prompt
from sortnet.judges.request import part_of_judge

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")  # differs between processes
_UNORDERED = (set, frozenset, Mapping)
# {kind of object: function that returns the parts that decide what it does}
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    **dict.fromkeys((tuple, list, set, frozenset), iter),
    Mapping: lambda mapping: mapping.items(),
    # without the numbers of its lines
    CodeType: lambda code: (code.co_code, code.co_names, code.co_freevars, code.co_consts),
    MethodType: lambda method: (method.__func__, method.__self__),
    functools.partial: lambda call: (call.func, call.args, call.keywords),
    np.ndarray: lambda array: (array.dtype.str, array.shape, array.tolist()),
}
# A function may count its calls or collect answers. So a function's identity is computed when it is
# first asked for, and stays while the function exists.
_KNOWN: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def identity_of(judge: MachineJudge) -> str:
    """Return a hash that differs between judges that may answer differently.

    >>> longer = Function(lambda left, right: "left" if left > right else "right")
    >>> shorter = Function(lambda left, right: "left" if left < right else "right")
    >>> identity_of(longer) == identity_of(shorter)
    False
    """
    if isinstance(judge, Function):
        return _function_identity(judge.function)
    if not isinstance(judge, LanguageModel):
        return value_hash(["program", judge.command])
    request = json.dumps(part_of_judge(judge.request), sort_keys=True)
    settings = [judge.structured, judge.logprobs, judge.both_orders, judge.image_size]
    server = judge.server.rstrip("/")
    return value_hash(["model", judge.model, server, Prompt(judge.prompt).hash, request, *settings])


def value_hash(value: Any) -> str:
    """Hash a Python value such as a row of a table; equal in every process.

    >>> value_hash({"a": 1, "b": [2.0]}) == value_hash({"b": [2.0], "a": 1})
    True
    """
    return _hash(value, "", {})


def _function_identity(function: Any) -> str:
    """Hash a function, or anything else that can be called."""
    if isinstance(function, MethodType):
        owner = _function_identity(function.__self__)
        return value_hash([function.__name__, owner])
    with suppress(TypeError):  # the object may have no hash or no weak references
        if function not in _KNOWN:
            _KNOWN[function] = _hash_in_module(function)
        return _KNOWN[function]
    return _hash_in_module(function)


def _hash_in_module(function: Any) -> str:
    """Hash a function, or an object that can be called, with what it uses of its module."""
    wrapped = inspect.unwrap(function)  # the function in a wrapper such as a cache
    while isinstance(wrapped, functools.partial):
        wrapped = wrapped.func
    owner = wrapped if isinstance(wrapped, FunctionType) else type(wrapped)
    try:
        return _hash(function, owner.__module__, {})
    except RecursionError:  # the judge holds a long chain of objects
        return value_hash([owner.__module__, owner.__qualname__])


def _hash(value: Any, module: str, hashes: dict[int, tuple[str, Any]]) -> str:
    """Hash a value by its type and its parts; the same in every process.

    Args:
        value: the value. Functions and objects of the module are hashed by their content, those of
            other modules by their names.
        module: name of the judge's module; empty: no module.
        hashes: {id: (hash, object)} of the objects before. The objects are kept, so that no later
            object gets the same id.
    """
    if value is None or isinstance(value, str | bytes | int | float | complex):
        parts = [repr(value)]
    elif id(value) in hashes:
        return hashes[id(value)][0]
    else:
        hashes[id(value)] = ("a part of itself", value)
        parts = [_hash(part, module, hashes) for part in _parts(value, module)]
        if isinstance(value, _UNORDERED):
            parts.sort()
    text = repr([type(value).__name__, *parts])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    hashes[id(value)] = (digest, value)
    return digest


def _parts(value: Any, module: str) -> Iterable[Any]:
    """Return the parts that decide what a value is or does."""
    if isinstance(value, FunctionType):
        return _parts_of_function(value, module)
    for kind, parts_of in _PARTS.items():
        if isinstance(value, kind):
            return parts_of(value)
    if hasattr(value, "__wrapped__"):  # such as a function with a cache
        return (value.__wrapped__,)
    if isinstance(value, type) and value.__module__ == module:
        members = {name: one for name, one in vars(value).items() if callable(one)}
        return (value.__qualname__, value.__bases__, members)
    if type(value).__module__ == module != "builtins":
        return (type(value), object.__getstate__(value) or {})
    with suppress(Exception):  # a `repr` may raise anything
        return (_ADDRESS.sub("", repr(value)),)
    return ()


def _parts_of_function(function: FunctionType, module: str) -> Iterable[Any]:
    """Return the code of a function, and the values that a function of the module uses."""
    own_parts = (function.__module__, function.__qualname__, function.__code__)
    if function.__module__ != module:
        return own_parts
    codes = [*_all_code(function.__code__)]
    names = {name for code in codes for name in code.co_names}
    values = {name: function.__globals__[name] for name in sorted(names & {*function.__globals__})}
    values |= inspect.getclosurevars(function).nonlocals
    for code in codes:
        for instruction in dis.get_instructions(code):
            # A function gives new values to a counter of its calls, for example.
            if instruction.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                values.pop(instruction.argval, None)
    return (*own_parts, function.__defaults__, function.__kwdefaults__, values)


def _all_code(code: CodeType) -> Iterator[CodeType]:
    """Yield bytecode, and the bytecode of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
