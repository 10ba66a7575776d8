"""The paper's experiments: data sets, networks, training, tables and figures."""
