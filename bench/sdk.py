"""E2B's Python client against the server that the environment names. Prints milliseconds as JSON lists."""

import json
import time

from e2b_code_interpreter import Sandbox

COUNT = 50
PANDAS = (
    "import pandas as pd\nint(pd.DataFrame({'k': ['a', 'b'] * 150, 'v': range(300)}).groupby('k').v.sum().sum())"
)


def timed(work) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def first(code: str, says: str) -> float:
    """Create and run; ended, and the pool left to fill, outside of the time."""
    made = []

    def work():
        made.append(Sandbox.create())
        assert made[0].run_code(code).text == says

    took = timed(work)
    made[0].kill()
    time.sleep(0.06)
    return took


def main():
    one = [first("1+1", "2") for _ in range(COUNT)]
    pandas = [first(PANDAS, "44850") for _ in range(COUNT)]
    with Sandbox.create() as sandbox:
        live = [timed(lambda: sandbox.run_code("1+1")) for _ in range(COUNT)]
        empty = [timed(sandbox.is_running) for _ in range(COUNT)]
    print(json.dumps({"one": one, "pandas": pandas, "live": live, "empty": empty}))


main()
