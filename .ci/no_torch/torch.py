"""Stand-in for torch in an environment without it: a test that imports torch is skipped.

`.ci/pythons` puts this folder into the path of modules.
"""

import pytest

pytest.skip("torch is not installed", allow_module_level=True)
