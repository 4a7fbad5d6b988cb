"""A cold start: the context loop on descriptor 3, in an interpreter that nobody warmed up."""

import os

from atoll_kernel import context

context.main()
os._exit(0)
