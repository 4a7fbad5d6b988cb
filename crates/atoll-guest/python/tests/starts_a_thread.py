"""A module that no zygote can have: its thread is there for good. Imported by `test_zygote.py`'s zygotes."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
