// What `tls.mjs` starts: code, files and a server inside, by names that only this process resolves.

import dns from 'node:dns'

import { Sandbox } from '@e2b/code-interpreter'

import { until, withSandbox } from './server.mjs'

const { lookup } = dns
dns.lookup = (host, options, done) => lookup(host.endsWith('.localhost') ? '127.0.0.1' : host, options, done)

await withSandbox(Sandbox, {}, async (sandbox) => {
  const result = (await sandbox.runCode('6 * 7')).text
  await sandbox.files.write('file.txt', 'written')
  const file = await sandbox.files.read('file.txt')
  await sandbox.commands.run('python3 -m http.server 8000 --bind 127.0.0.1', { background: true })
  let status
  await until('the server inside', 120_000, async () => {
    status = (await fetch(`https://${sandbox.getHost(8000)}/`)).status
    return status === 200
  })
  console.log(JSON.stringify({ result, file, status }))
})
