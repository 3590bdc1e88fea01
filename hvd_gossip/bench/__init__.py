"""Measuring exchanges and training steps beside their rivals, in one run, interleaved."""
