"""The parts of a training run: protocol, augmentation, batch norm statistics, checkpoints."""
