"""One folder a product: `view.py`, `charts.py`, templates, `examples.json`. `render.py` says what it must hold."""
