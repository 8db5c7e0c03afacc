"""Nothing that a run computes changes by accident: see `tests.golden`.

Would catch a moved draw, another order of operations, a scale or a bound that is calibrated otherwise, a saved agent
that goes on differently, a run that a sweep would do again.
"""

from __future__ import annotations

import json

import pytest

from tests import golden

CASES = [case for case, *_ in golden.cases()]
#: One of each kind for every day; the others are slow.
QUICK = [
    *("ucbvi pooled", "dp-ucbvi pooled tree-laplace every 1", "dp-ucbvi steps factored-mr every geometric"),
    *("dp-ucbvi pooled local-sampled every 1", "pucb pooled shuffle every 10", "private-ucb-po pooled none every 1"),
    *("rlsvi pooled individual", "sdp-pe pooled batch-gaussian", "discreet-vi pooled central every None"),
    *(
        "discreet-vi pooled local every 50",
        "discreet-vi pooled shuffle every 50",
        "linopt-vi factored",
        "linopt-po local",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, marks=[] if c in QUICK else pytest.mark.slow) for c in CASES])
def test_what_a_run_computes_is_what_it_was(case):
    kept = {key: value for key, value in json.loads(golden.FILE.read_text()).items() if key.split(" | ")[0] == case}
    assert golden.compact(golden.compute(case.__eq__)) == kept


def test_runs_keep_their_identity():
    kept = json.loads(golden.FILE.read_text())
    assert golden.run_keys() == {key: value for key, value in kept.items() if key.startswith("run key")}


def test_every_case_that_is_kept_is_computed():
    assert set(QUICK) <= set(CASES)
    assert {key.split(" | ")[0] for key in json.loads(golden.FILE.read_text())} == {*CASES, "run key"}
