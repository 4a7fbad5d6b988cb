// Commands and terminals: output, ends, background, input, signals, time limits, git.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Sandbox } from '@e2b/code-interpreter'
import { CommandExitError, InvalidArgumentError, NotFoundError, TimeoutError } from 'e2b'

import { until, withSandbox } from './server.mjs'

test('commands', () =>
  withSandbox(Sandbox, {}, async ({ commands }) => {
    const heard = []
    const done = await commands.run('echo out; echo err >&2', { onStdout: (text) => heard.push(text) })
    assert.deepEqual([done.exitCode, done.stdout, done.stderr, heard], [0, 'out\n', 'err\n', ['out\n']])
    await assert.rejects(commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3)
    await assert.rejects(commands.run('pwd', { cwd: '/does/not/exist' }), InvalidArgumentError)
    assert.equal((await commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
    assert.equal((await commands.run('echo $B', { envs: { B: 'b' } })).stdout, 'b\n')
    const big = await commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert.equal(big.stdout.length, 3_000_000)
  }))

test('in the background, connected again, killed', () =>
  withSandbox(Sandbox, {}, async ({ commands }) => {
    const handle = await commands.run('sleep 100', { background: true })
    assert.ok((await commands.list()).some((one) => one.pid === handle.pid && one.cmd === '/bin/bash'))
    await handle.disconnect()
    const again = await commands.connect(handle.pid)
    assert.equal(await again.kill(), true)
    await assert.rejects(again.wait(), CommandExitError)
    assert.equal(await commands.kill(999_999), false)
    const after = await commands.run(`kill -0 ${handle.pid} 2>/dev/null || echo gone`)
    assert.equal(after.stdout, 'gone\n')
    await assert.rejects(commands.connect(999_999), NotFoundError)
  }))

test('standard input', () =>
  withSandbox(Sandbox, {}, async ({ commands }) => {
    const handle = await commands.run('cat', { background: true, stdin: true })
    await commands.sendStdin(handle.pid, 'ping\n')
    await commands.closeStdin(handle.pid)
    assert.equal((await handle.wait()).stdout, 'ping\n')
  }))

test('the time limit of a command', () =>
  withSandbox(Sandbox, {}, ({ commands }) => assert.rejects(commands.run('sleep 600', { timeoutMs: 1_000 }), TimeoutError)))

test('a command of a sandbox that is killed ends with an error', async () => {
  const sandbox = await Sandbox.create()
  const handle = await sandbox.commands.run('sleep 100', { background: true })
  const refused = assert.rejects(handle.wait())
  await sandbox.kill()
  await refused
})

test('a terminal', () =>
  withSandbox(Sandbox, {}, async ({ pty }) => {
    let said = ''
    const onData = (bytes) => { said += Buffer.from(bytes).toString() }
    const handle = await pty.create({ rows: 24, cols: 80, onData, envs: { NAME: 'value' } })
    await pty.resize(handle.pid, { rows: 30, cols: 99 })
    await pty.sendInput(handle.pid, Buffer.from('stty size; echo "<$NAME>"\n'))
    await until('the answer of the terminal', 120_000, () => said.includes('30 99') && said.includes('<value>'))
    await handle.disconnect()
    const again = await pty.connect(handle.pid, { onData })
    await pty.sendInput(handle.pid, Buffer.from('exit 0\n'))
    assert.equal((await again.wait()).exitCode, 0)
    const other = await pty.create({ rows: 24, cols: 80, onData, timeoutMs: 0 })
    const ended = assert.rejects(other.wait(), CommandExitError)
    assert.equal(await pty.kill(other.pid), true)
    await ended
  }))
