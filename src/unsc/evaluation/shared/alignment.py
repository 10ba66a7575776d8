"""How alike two networks' features are, whatever their basis and scale."""

from __future__ import annotations

from torch import Tensor


def linear_cka(x: Tensor, y: Tensor) -> float:
    """Linear centred kernel alignment of features `x` (n, a) and `y` (n, b) of the same samples, in [0, 1].

    Kornblith et al., "Similarity of neural network representations revisited", ICML 2019. Rotating or scaling
    either side does not change it. With fewer samples than features it is high for unrelated ones too: compare
    with what two retrained networks get. Features that are the same for all samples have an alignment of 0.
    """
    x, y = (z.double() - z.double().mean(dim=0) for z in (x, y))
    if len(x) < x.shape[1] + y.shape[1]:  # the smaller of two forms of the same sums
        x, y = x @ x.T, y @ y.T
        cross, own, other = (x * y).sum(), x.square().sum().sqrt(), y.square().sum().sqrt()
    else:
        cross, own, other = (x.T @ y).square().sum(), (x.T @ x).norm(), (y.T @ y).norm()
    norm = (own * other).item()
    return min(1.0, cross.item() / norm) if norm > 0 else 0.0
