"""Handwritten digits, 8 x 8 pixels, bundled with scikit-learn: no download."""

from __future__ import annotations

import numpy as np

from hvd_gossip.tasks.base import Task, normalized_pair

TEST_SAMPLES = 360


def digits(folder: str | None = None) -> Task:
    """1,437 training and 360 test images of the digits 0 to 9, split by a fixed shuffle.

    Args:
        folder: not needed, the data comes with scikit-learn.

    Raises:
        ValueError: scikit-learn is not installed.

    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, doi:10.24432/C50P49.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ValueError("task 'digits' needs scikit-learn: pip install 'hvd_gossip[tasks]'") from error
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    pixels, labels = pixels[order].reshape(-1, 1, 8, 8) / 16.0, labels[order]
    train, test = normalized_pair(
        (pixels[TEST_SAMPLES:], labels[TEST_SAMPLES:]), (pixels[:TEST_SAMPLES], labels[:TEST_SAMPLES])
    )
    return Task("digits", train, test, 10, "cnn", source="scikit-learn, doi:10.24432/C50P49; recipe: our own")
