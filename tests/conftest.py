"""What every test shares: hypothesis without deadlines (the machine may be shared and slow), and on a build server always
the same examples, so that a change is judged by what it changed; at a desk every run tries new ones."""

import os

from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("server", deadline=None, derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "desk")
