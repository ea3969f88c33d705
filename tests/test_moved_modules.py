"""A module that was renamed can be imported by its old name, with a warning."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from sortnet.moved_modules import NEW_NAMES


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
