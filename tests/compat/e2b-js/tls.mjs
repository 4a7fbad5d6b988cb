// The client by a domain, a key and a CA alone, over HTTPS, as `atoll serve --tls local` tells its users. In a process
// of its own: Node reads NODE_EXTRA_CA_CERTS when it starts.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

import { launch } from './server.mjs'

test('a domain, a key and a CA are enough', async () => {
  const { key, exports, stop } = await launch({ ATOLL_TLS: 'local' })
  try {
    const { E2B_API_URL, E2B_SANDBOX_URL, ...kept } = process.env
    const env = { ...kept, ...exports, E2B_API_KEY: key }
    const { stdout } = await promisify(execFile)(process.execPath, ['tls-client.mjs'], { env, timeout: 300_000 })
    assert.deepEqual(JSON.parse(stdout), { result: '42', file: 'written', status: 200 })
  } finally {
    await stop()
  }
})
