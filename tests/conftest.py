"""What every test shares: how hard Hypothesis tries."""

from datetime import timedelta

from hypothesis import HealthCheck, settings

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

# The same examples every time, so that a red build is always about the change that turned it red.
settings.register_profile(
    "fast", derandomize=True, database=None, deadline=None, suppress_health_check=_PATIENT, print_blob=True
)
# Other examples every time: what it finds becomes a test of its own.
settings.register_profile("soak", deadline=timedelta(seconds=5), suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("fast")
