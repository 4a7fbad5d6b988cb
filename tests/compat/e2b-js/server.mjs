// A real server for the real clients: on free ports, with a key of its own, in a directory of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

/** Starts `atoll serve`, waits until it is ready, and points the clients at it. */
export async function start() {
  const server = await launch()
  const { key, url } = server
  Object.assign(process.env, { E2B_API_KEY: key, E2B_API_URL: url, E2B_SANDBOX_URL: url })
  return server
}

/** Starts `atoll serve` with these settings besides and waits until it is ready. */
export async function launch(more = {}) {
  const home = await mkdtemp(join(tmpdir(), 'atoll-e2b-js-'))
  await symlink(join(process.env.ATOLL_HOME, 'templates'), join(home, 'templates'))
  const settings = { ATOLL_HOME: home, ATOLL_LISTEN: '127.0.0.1:0', ATOLL_ADMIN_LISTEN: '127.0.0.1:0' }
  const child = spawn(process.env.ATOLL_BIN, ['serve'], {
    env: { ...process.env, ...settings, ...more },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const { key, url, metrics, exports } = await greeting(child)
  await untilReady(metrics.replace(/\/metrics$/, ''))
  return { key, url, exports, stop: () => stop(child, home) }
}

/** What the server prints, with the variables that it tells users to export. */
async function greeting(child) {
  const exports = {}
  const found = { exports }
  const names = { key: 'first key:', url: 'listening on', metrics: 'metrics on' }
  for await (const line of createInterface({ input: child.stdout })) {
    const exported = line.match(/^export (\w+)='(.*)'/)
    if (exported) exports[exported[1]] = exported[2]
    for (const [as, name] of Object.entries(names)) {
      const match = line.match(new RegExp(`${name} (\\S+)`))
      if (match) found[as] = match[1]
    }
    if (found.key && found.url && found.metrics) return found
  }
  throw new Error('the server ended before it listened')
}

async function untilReady(url) {
  await until('the server to become ready', 300_000, async () => {
    const answer = await fetch(`${url}/readyz`).catch(() => undefined)
    return answer?.status === 200
  })
}

async function stop(child, home) {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const [code] = await ended
  await rm(home, { recursive: true, force: true })
  if (code !== 0) throw new Error(`the server ended with ${code}`)
}

/** Asks again and again until the answer is true; what it waits for is in the error. */
export async function until(what, milliseconds, ask) {
  const deadline = Date.now() + milliseconds
  while (!(await ask())) {
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await pause(20)
  }
}

/** Runs `work` with a new sandbox and ends it in any case. */
export async function withSandbox(Sandbox, options, work) {
  const sandbox = await Sandbox.create(options)
  try {
    return await work(sandbox)
  } finally {
    await sandbox.kill()
  }
}
