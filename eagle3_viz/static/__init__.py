"""Cycles over buffers that stay where they are, for GPUs: CUDA graphs replay them.

A cycle is one copy to the device, replays, and one copy back: the only thing that the host waits
for. What is computed is what the other loop computes: that which builds trees and that which runs
the models is recorded, not written again.
"""
