"""The rule that says which numbers of replicas a form fits is the one that its graph keeps."""

from __future__ import annotations

import pytest
from forms import FORMS

from hvd_gossip.graphs import schedule


@pytest.mark.parametrize("form", FORMS)
def test_a_form_fits_exactly_the_numbers_for_which_its_graph_is_made(form: str) -> None:
    for n in range(1, 17 if form.startswith("matcha") else 50):
        if FORMS[form](n):
            assert schedule(form, n).n == n
        else:
            with pytest.raises(ValueError, match=f"^graph '{form.partition(':')[0]}"):
                schedule(form, n)
