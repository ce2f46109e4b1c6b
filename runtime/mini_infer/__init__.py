"""mini-infer: the engine in plain torch. `pycore.serving` decides every step; here it is computed."""
