"""Array types that annotations of the models share.

Axes: B texts of a batch, L tokens.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Array, Bool, Int

AnyArray = Array | np.ndarray  # on a device or on the host
TokenIds = Int[AnyArray, "B L"]
# 1 or True where a token stands. Where a row holds several texts, the number of
# the text of each token, from 1.
TokenMask = Int[AnyArray, "B L"] | Bool[AnyArray, "B L"]
