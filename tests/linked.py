"""How well the cosine of vectors tells edges from other pairs, for tests of whole fits."""

import numpy as np

from dygcn.engine.measures import PairSet, auc, draw_negatives, one_end, pair_cosines, unit_rows


def link_auc(vectors, edges, random):
    """Return the AUC of the cosine on all edges against as many pairs that are not linked."""
    known = PairSet(edges, len(vectors))
    others = np.stack(draw_negatives(one_end(edges, random), np.unique(edges), (known,), random), axis=1)
    units = unit_rows(vectors)
    return auc(pair_cosines(units, edges), pair_cosines(units, others))
