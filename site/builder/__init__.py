"""How the pages are made. One noun a module; all of them write through an `Effects` and read the repository.

This package lies in site/, which is no package itself (`site` is a module of the standard library): `build.py` puts the
folder on the path and imports `builder`. Nothing here is shipped or runs in a browser.
"""
