"""A module that was renamed can be imported by its old name, with a warning."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from sortnet.moved_modules import MOVED_FUNCTIONS, NEW_NAMES


@pytest.mark.parametrize("old_name", sorted({*NEW_NAMES} - {"sortnet.experiments"}))  # empty
def test_the_old_name_gives_the_objects_of_the_new_module(old_name):
    new_module = import_module(NEW_NAMES[old_name])
    public = [name for name in vars(new_module) if not name.startswith("_")]
    old_module = import_module(old_name)
    with pytest.warns(DeprecationWarning, match=NEW_NAMES[old_name]):
        objects = [getattr(old_module, name) for name in public]
    assert objects == [getattr(new_module, name) for name in public]


def test_a_name_that_never_was_is_not_found():
    assert find_spec("sortnet.experimentss") is None
    with pytest.raises(ImportError), pytest.warns(DeprecationWarning):
        from sortnet.types import NoSuchName  # noqa: F401


def test_no_old_name_is_a_module_again():
    assert not set(NEW_NAMES) & set(NEW_NAMES.values())


@pytest.mark.parametrize(
    ("module", "name", "new_module"),
    [(m, name, new) for m, names in MOVED_FUNCTIONS.items() for name, new in names.items()],
)
def test_a_function_that_moved_is_given_by_its_old_module(module, name, new_module):
    with pytest.warns(DeprecationWarning, match=f"{new_module}.{name} now"):
        function = getattr(import_module(module), name)
    assert function is getattr(import_module(new_module), name)


def test_a_module_has_no_other_names_than_it_had():
    with pytest.raises(AttributeError, match="has no attribute 'fit_rankers'"):
        import_module("sortnet.rankers.base").fit_rankers  # noqa: B018
