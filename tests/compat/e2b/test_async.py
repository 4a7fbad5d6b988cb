"""What differs in Python's asynchronous client: streams of changes, uploads in pieces, many at once."""

import asyncio

from e2b_code_interpreter import AsyncSandbox


def run(coroutine):
    return asyncio.run(coroutine)


def test_code_files_and_commands():
    async def all_of_it():
        async with await AsyncSandbox.create() as s:
            assert (await s.run_code("6 * 7")).text == "42"
            await s.files.write("a.bin", b"x" * 2_000_000)
            assert len(await s.files.read("a.bin", format="bytes")) == 2_000_000
            assert (await s.commands.run("wc -c < a.bin")).stdout.strip() == "2000000"

    run(all_of_it())


def test_changes_are_streamed():
    async def all_of_it():
        async with await AsyncSandbox.create() as s:
            seen = asyncio.Queue()
            await s.files.make_dir("w")
            handle = await s.files.watch_dir("w", on_event=seen.put_nowait)
            await s.files.write("w/new.txt", "1")
            assert (await asyncio.wait_for(seen.get(), 20)).name == "new.txt"
            await handle.stop()

    run(all_of_it())


def test_ten_at_once_do_not_meet():
    async def one(number: int) -> str:
        async with await AsyncSandbox.create() as s:
            await s.run_code(f"me = {number}")
            return (await s.run_code("me")).text

    async def all_of_it():
        assert await asyncio.gather(*map(one, range(10))) == [str(n) for n in range(10)]

    run(all_of_it())


def test_contexts_run_side_by_side():
    async def all_of_it():
        async with await AsyncSandbox.create() as s:
            one, other = await s.create_code_context(), await s.create_code_context()
            waits = "import time, pathlib\nwhile not pathlib.Path('/tmp/go').exists(): time.sleep(0.01)\n'went'"
            waiting = asyncio.create_task(s.run_code(waits, context=one))
            await s.run_code("open('/tmp/go', 'w').close()", context=other)
            assert (await waiting).text == "went"

    run(all_of_it())
