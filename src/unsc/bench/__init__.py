"""Real data sets, networks and a training loop to measure unlearning with."""
