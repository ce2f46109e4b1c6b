"""One folder a product: `view.py`, `charts.py`, templates, `examples.json`. What a folder must hold is in `render.py`."""
