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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sortnet.judges.any_judge import MachineJudge
from sortnet.judges.function import Function
from sortnet.judges.language_model import LanguageModel
from sortnet.judges.prompts import LARGEST_SIDE, Prompt
from sortnet.judges.request import part_of_judge

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")  # differs between processes
# {kind of object: function that returns the parts that decide what it does}
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    **dict.fromkeys((tuple, list, set, frozenset), lambda container: container),
    Mapping: lambda mapping: mapping.items(),
    # without the numbers of its lines
    CodeType: lambda code: (code.co_code, code.co_names, code.co_freevars, code.co_consts),
    ModuleType: lambda module: (module.__name__,),
    functools.partial: lambda call: (call.func, call.args, call.keywords),
    MethodType: lambda method: (method.__func__, method.__self__),
    BuiltinFunctionType: lambda function: (function.__qualname__, function.__self__),
    property: lambda member: (member.fget,),
    np.ndarray: lambda array: (
        array.dtype.str,
        array.shape,
        array.tolist() if array.dtype == object else array.tobytes(),
    ),
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
        return _hash(["program", judge.command])
    model: list[Any] = ["model", judge.model, judge.server.rstrip("/"), Prompt(judge.prompt).hash]
    model += [part_of_judge(judge.request), judge.structured, judge.logprobs, judge.both_orders]
    if judge.image_size != LARGEST_SIDE:
        model.append(judge.image_size)
    return _hash(json.loads(json.dumps(model, sort_keys=True)))


def value_hash(value: Any) -> str:
    """Hash a Python value such as a row of a table; equal in every process.

    >>> value_hash({"a": 1, "b": [2.0]}) == value_hash({"b": [2.0], "a": 1})
    True
    """
    return _hash(_Description("").of(value))


def _hash(description: Any) -> str:
    """Hash nested lists of texts and numbers."""
    return hashlib.sha256(repr(description).encode("utf-8", "surrogatepass")).hexdigest()


def _function_identity(function: Any) -> str:
    """Hash a function, or anything else that can be called."""
    if isinstance(function, MethodType):
        return _hash([*map(_function_identity, (function.__func__, function.__self__))])
    if isinstance(function, functools.partial):
        values = value_hash([function.args, function.keywords])
        return _hash([_function_identity(function.func), values])
    with suppress(TypeError):  # of an object that has no hash or no weak references
        if function not in _KNOWN:
            _KNOWN[function] = _hash(_described_judge(function))
        return _KNOWN[function]
    return _hash(_described_judge(function))


def _described_judge(judge: Any) -> Any:
    """Describe a function, or an object that can be called."""
    function = inspect.unwrap(judge)  # of a wrapper such as a cache
    owner = function if isinstance(function, FunctionType) else type(judge)
    try:
        return _Description(owner.__module__).of(judge)
    except RecursionError:  # the judge holds a long chain of objects
        return [owner.__module__, owner.__qualname__]


class _Description:
    """Describes Python values as nested lists whose `repr` is the same in every process.

    Functions and objects of the judge's own module are described by their content, those of other
    modules by their names.

    Args:
        module: name of the judge's module; empty: no module.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        # The objects are kept, so that no later object gets the same id.
        self._seen: dict[int, tuple[int, object]] = {}

    def of(self, value: Any) -> Any:
        """Describe a value by its type and its parts.

        An object that was described before is described by its number.
        """
        kind = type(value).__name__
        if value is None or isinstance(value, str | bytes | int | float | complex):
            return [kind, repr(value)]
        # Equal constants are one object or several, as the compiler likes.
        if not isinstance(value, tuple | frozenset | CodeType):
            if id(value) in self._seen:
                return ["seen", self._seen[id(value)][0]]
            self._seen[id(value)] = (len(self._seen), value)
        described_parts = [self.of(part) for part in self._parts(value)]
        if isinstance(value, set | frozenset | Mapping):
            described_parts.sort(key=repr)
        return [kind, *described_parts]

    def _parts(self, value: Any) -> Iterable[Any]:
        """Return the parts that decide what a value is or does."""
        for kind, parts_of in _PARTS.items():
            if isinstance(value, kind):
                return parts_of(value)
        if isinstance(value, FunctionType):
            return self._parts_of_function(value)
        if isinstance(value, type):
            return (value.__module__, value.__qualname__, *self._parts_of_class(value))
        if hasattr(value, "__wrapped__"):  # such as a function with a cache
            return (value.__wrapped__,)
        if type(value).__module__ == self._module:
            return (type(value), object.__getstate__(value) or {})
        with suppress(Exception):  # of a `repr`
            return (_ADDRESS.sub("", repr(value)),)
        return ()

    def _parts_of_class(self, kind: type) -> Sequence[Any]:
        """Return the base classes and the members of a class of the judge's module."""
        if kind.__module__ != self._module:
            return ()
        members = {
            name: member
            for name, member in vars(kind).items()
            if callable(member) or not (name.startswith("__") and name.endswith("__"))
        }
        return (kind.__bases__, members)

    def _parts_of_function(self, function: FunctionType) -> Sequence[Any]:
        """Return the code of a function, and the values that a function of the module uses."""
        own_parts = (function.__module__, function.__qualname__, function.__code__)
        if function.__module__ != self._module:
            return own_parts
        codes = [*_all_code(function.__code__)]
        names = {name for code in codes for name in code.co_names}
        values = {name: function.__globals__[name] for name in names & {*function.__globals__}}
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # of a name that has no value yet
                values[name] = cell.cell_contents
        for instruction in chain.from_iterable(map(dis.get_instructions, codes)):
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
