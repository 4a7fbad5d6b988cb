// Every call that E2B's JavaScript clients make, against a real server: one server for all topics.

import { after, before } from 'node:test'

import { start } from './server.mjs'

let server

before(async () => {
  server = await start()
})

after(() => server.stop())

await import('./code.mjs')
await import('./files.mjs')
await import('./commands.mjs')
await import('./life.mjs')
await import('./ports.mjs')
await import('./tls.mjs')
