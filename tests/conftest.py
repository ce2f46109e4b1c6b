"""What every test shares: no deadline for hypothesis, since the machine may be shared and slow."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
