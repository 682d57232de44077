"""Logs and metrics of running systems, to windows."""

from stationary.ingest.access_logs import apache, envoy, nginx
from stationary.ingest.prometheus import windows_from_prometheus

__all__ = ["apache", "envoy", "nginx", "windows_from_prometheus"]
