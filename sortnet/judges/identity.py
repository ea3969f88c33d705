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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
_PARTS: dict[type, Callable[[Any], Sequence[Any]]] = {
    functools.partial: lambda call: (call.func, call.args, call.keywords),
    MethodType: lambda method: (method.__func__, method.__self__),
    BuiltinFunctionType: lambda function: (function.__qualname__, function.__self__),
    property: lambda member: (member.fget,),
    np.ndarray: lambda array: (array.dtype.str, array.shape, _content(array)),
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
    try:
        known = _KNOWN.get(function)
    except TypeError:  # the object has no hash or no weak references
        return _hash(_Description.of_judge(function))
    if known is None:
        known = _hash(_Description.of_judge(function))
        with suppress(TypeError):
            _KNOWN[function] = known
    return known


def _content(array: np.ndarray[Any, Any]) -> Any:
    """Hash the values of an array; return the values themselves if they are objects."""
    if array.dtype == object:
        return array.tolist()
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


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

    @classmethod
    def of_judge(cls, judge: Any) -> Any:
        """Describe a function, or an object that can be called."""
        function = inspect.unwrap(judge)  # of a wrapper such as a cache
        named = function if isinstance(function, FunctionType) else type(judge)
        try:
            return cls(named.__module__).of(judge)
        except RecursionError:  # the judge holds a long chain of objects
            return [named.__module__, named.__qualname__]

    def of(self, value: Any) -> Any:
        """Describe a value; an object that was described before is described by its number."""
        if value is None or isinstance(value, str | bytes | int | float | complex):
            return [type(value).__name__, repr(value)]
        # Equal constants are one object or several, as the compiler likes.
        if isinstance(value, CodeType):  # without the numbers of its lines
            constants = self.of(value.co_consts)
            return [value.co_code.hex(), value.co_names, value.co_freevars, constants]
        if isinstance(value, tuple | frozenset):
            return self._container(value)
        if id(value) in self._seen:
            return ["seen", self._seen[id(value)][0]]
        self._seen[id(value)] = (len(self._seen), value)
        if isinstance(value, list | set):
            return self._container(value)
        if isinstance(value, Mapping):
            pairs = [[self.of(key), self.of(item)] for key, item in value.items()]
            return [type(value).__name__, *sorted(pairs, key=repr)]
        return self._object(value)

    def _container(self, value: Any) -> list[Any]:
        """Describe a tuple, a list, a set or a frozen set by its kind and its elements."""
        kind = next(kind for kind in (tuple, list, set, frozenset) if isinstance(value, kind))
        elements = [*map(self.of, value)]
        if kind in (set, frozenset):
            elements = sorted(map(repr, elements))
        return [kind.__name__, *elements]

    def _object(self, value: Any) -> Any:
        """Describe a function, a class, an array or another object."""
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        for kind, parts_of in _PARTS.items():
            if isinstance(value, kind):
                return [kind.__name__, *map(self.of, parts_of(value))]
        if isinstance(value, type):
            own = vars(value) if value.__module__ == self._module else {}
            members = {
                name: member
                for name, member in own.items()
                if callable(member) or not (name.startswith("__") and name.endswith("__"))
            }
            parts = [value.__bases__, members] if own else []
            return ["class", value.__module__, value.__qualname__, [*map(self.of, parts)]]
        if hasattr(value, "__wrapped__"):  # such as a function with a cache
            return ["wrapper", type(value).__qualname__, self.of(value.__wrapped__)]
        if type(value).__module__ == self._module:
            return ["object", self.of(type(value)), self.of(object.__getstate__(value) or {})]
        with suppress(Exception):  # of a `repr`
            return [type(value).__qualname__, _ADDRESS.sub("", repr(value))]
        return [type(value).__qualname__, ""]

    def _function(self, function: FunctionType) -> Any:
        """Describe the code of a function, and the values that a function of the module uses."""
        description = [function.__module__, function.__qualname__, self.of(function.__code__)]
        if function.__module__ != self._module:
            return description
        description += [self.of(function.__defaults__), self.of(function.__kwdefaults__)]
        codes = [*_all_code(function.__code__)]
        names = {name for code in codes for name in code.co_names}
        held = dict(_closure(function))
        used = {name: function.__globals__[name] for name in names if name in function.__globals__}
        for instruction in chain.from_iterable(map(dis.get_instructions, codes)):
            # A function gives new values to a counter of its calls, for example.
            if instruction.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                held.pop(instruction.argval, None)
                used.pop(instruction.argval, None)
        return [*description, self.of(held), self.of(used)]


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in a function's closure, without names that have no value yet."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def _all_code(code: CodeType) -> Iterator[CodeType]:
    """Yield bytecode, and the bytecode of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
