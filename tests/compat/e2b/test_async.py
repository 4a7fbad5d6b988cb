"""What differs in Python's asynchronous client: streams of changes, uploads in pieces, many at once."""

import asyncio
import tempfile

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
            assert (await asyncio.wait_for(seen.get(), 120)).name == "new.txt"
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


def test_terminals_and_input():
    async def all_of_it():
        from e2b.sandbox.commands.command_handle import PtySize

        async with await AsyncSandbox.create() as s:
            handle = await s.commands.run("cat", background=True, stdin=True)
            await s.commands.send_stdin(handle.pid, "ping\n")
            await s.commands.close_stdin(handle.pid)
            assert (await handle.wait()).stdout == "ping\n"
            said = bytearray()
            terminal = await s.pty.create(PtySize(rows=24, cols=80), on_data=said.extend)
            await s.pty.resize(terminal.pid, PtySize(rows=30, cols=99))
            await s.pty.send_stdin(terminal.pid, b"stty size; exit\n")
            await terminal.wait()
            assert b"30 99" in said

    run(all_of_it())


def test_uploads_in_pieces_and_packed():
    async def all_of_it():
        async with await AsyncSandbox.create() as s:
            with tempfile.TemporaryFile() as file:
                file.write(b"x" * 3_000_000)
                file.seek(0)
                await s.files.write("stream", file)
            assert (await s.commands.run("wc -c < stream")).stdout.strip() == "3000000"
            await s.files.write("packed", "a" * 100_000, gzip=True)
            assert await s.files.read("packed") == "a" * 100_000

    run(all_of_it())


def test_life():
    async def all_of_it():
        s = await AsyncSandbox.create(metadata={"kind": "async"})
        await s.run_code("kept = 5")
        assert await s.pause() and not await s.is_running()
        same = await AsyncSandbox.connect(s.sandbox_id)
        assert (await same.run_code("kept")).text == "5"
        assert await s.kill() and not await s.kill()

    run(all_of_it())
