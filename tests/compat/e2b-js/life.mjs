// A sandbox's life: made, found, listed, prolonged, paused, resumed, ended; and what this server refuses.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Sandbox } from '@e2b/code-interpreter'
import { AuthenticationError, Sandbox as Plain, SandboxError, SandboxNotFoundError } from 'e2b'

import { until, withSandbox } from './server.mjs'

test('the client without the interpreter', () =>
  withSandbox(Plain, {}, async (sandbox) => {
    assert.equal((await sandbox.commands.run('echo hello')).stdout, 'hello\n')
    assert.equal(await sandbox.isRunning(), true)
  }))

test('info, list and deadlines', () =>
  withSandbox(Sandbox, { timeoutMs: 300_000, metadata: { 'a b': 'c/d' } }, async (sandbox) => {
    const info = await sandbox.getInfo()
    assert.deepEqual([info.metadata, info.state], [{ 'a b': 'c/d' }, 'running'])
    await sandbox.setTimeout(600_000)
    const later = await sandbox.getInfo()
    assert.ok(later.endAt > info.endAt)
    const connected = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
    assert.deepEqual((await connected.getInfo()).endAt, later.endAt)
    const found = Sandbox.list({ query: { metadata: { 'a b': 'c/d' } } })
    assert.deepEqual((await found.nextItems()).map((one) => one.sandboxId), [sandbox.sandboxId])
    assert.equal(found.hasNext, false)
    assert.deepEqual(await Sandbox.list({ query: { metadata: { x: 'y' } } }).nextItems(), [])
    assert.equal((await sandbox.getMetrics()).length, 1)
  }))

test('a list comes in pages', async () => {
  const metadata = { page: 'yes' }
  const made = await Promise.all([1, 2, 3].map(() => Sandbox.create({ metadata })))
  const pages = Sandbox.list({ query: { metadata }, limit: 2 })
  const seen = []
  while (pages.hasNext) seen.push((await pages.nextItems()).map((one) => one.sandboxId))
  await Promise.all(made.map((sandbox) => sandbox.kill()))
  assert.deepEqual(seen.map((page) => page.length), [2, 1])
  assert.deepEqual(seen.flat().sort(), made.map((one) => one.sandboxId).sort())
})

test('paused and resumed, memory intact', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    await sandbox.runCode('kept = 5')
    assert.equal(await sandbox.pause(), true)
    assert.equal(await sandbox.pause(), false)
    assert.equal(await sandbox.isRunning(), false)
    assert.ok((await Sandbox.list({ query: { state: ['paused'] } }).nextItems()).length >= 1)
    const resumed = await sandbox.connect()
    assert.equal((await resumed.runCode('kept')).text, '5')
  }))

test('the end', async () => {
  const sandbox = await Sandbox.create()
  await sandbox.setTimeout(0)
  await until('the end', 120_000, async () => !(await sandbox.isRunning()))
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
  await assert.rejects(Sandbox.getInfo(sandbox.sandboxId), SandboxNotFoundError)
  await assert.rejects(sandbox.commands.run('true'))
  await assert.rejects(sandbox.runCode('1'))
})

const LOOP = "import time\nprint('on', flush=True)\nwhile True: time.sleep(1)"

for (const [what, wait] of [
  ['code', (sandbox, onStdout) => sandbox.runCode(LOOP, { onStdout, timeoutMs: 0 })],
  ['a command', (sandbox, onStdout) => sandbox.commands.run('echo on; sleep 600', { onStdout, timeoutMs: 0 })],
]) {
  test(`a sandbox whose time is over says so to who waits for ${what}`, async () => {
    const sandbox = await Sandbox.create()
    let told = false
    // The older clients pass on the end of a command's connection as it is.
    const ended = assert.rejects(wait(sandbox, () => { told = true }), /sandbox was killed|\[unknown\] terminated/)
    await until('the first output', 120_000, () => told)
    await sandbox.setTimeout(1_000)
    await ended
    assert.equal(await sandbox.isRunning(), false)
  })
}

test('a pause in time ends what is in flight and says so', () =>
  withSandbox(Sandbox, { timeoutMs: 600_000, lifecycle: { onTimeout: 'pause' } }, async (sandbox) => {
    await sandbox.runCode('kept = 5')
    let told = false
    const running = sandbox.runCode(LOOP, { onStdout: () => { told = true }, timeoutMs: 0 })
    await until('the first output', 120_000, () => told)
    await sandbox.setTimeout(0)
    assert.equal((await running).error.name, 'SandboxPaused')
    await sandbox.connect({ timeoutMs: 600_000 })
    assert.equal((await sandbox.runCode('kept')).text, '5')
  }))

test('a wrong key is refused', () =>
  assert.rejects(Sandbox.create({ apiKey: `e2b_${'0'.repeat(40)}` }), AuthenticationError))

/** Old clients ask for the internet in every call, new ones only when they are told to. */
function createByHand(path, options) {
  const { E2B_API_URL, E2B_API_KEY } = process.env
  const headers = { 'X-API-Key': E2B_API_KEY, 'Content-Type': 'application/json' }
  return fetch(E2B_API_URL + path, { method: 'POST', headers, body: JSON.stringify({ templateID: 'base', ...options }) })
}

test('what this server cannot do is said, not ignored', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    await assert.rejects(sandbox.createSnapshot(), SandboxError)
    assert.deepEqual(await sandbox.listSnapshots().nextItems(), [])
    assert.equal(await Sandbox.deleteSnapshot('none:default'), false)
    assert.equal((await createByHand('/v2/sandboxes', { allow_internet_access: true })).status, 400)
    await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] })
    await assert.rejects(sandbox.updateNetwork({ allowOut: ['8.8.8.8'] }), SandboxError)
  }))
