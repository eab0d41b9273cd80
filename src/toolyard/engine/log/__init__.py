"""The logs of conversations in this process: written by their owner, read and followed by everybody else."""
