"""A store as a service: HTTP and JSON, and a page to try it.

Starlette routes, uvicorn listens; both come with the extra ``serve`` and are imported on use.
"""

from __future__ import annotations

from simdb.serve.limits import Limits
from simdb.serve.running import serve

__all__ = ["Limits", "serve"]
