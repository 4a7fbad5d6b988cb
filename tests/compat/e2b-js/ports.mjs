// Servers inside a sandbox, reached at `<port>-<id>.<domain>` through the one listener: HTTP and WebSocket.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { test } from 'node:test'

import { Sandbox } from '@e2b/code-interpreter'
import WebSocket from 'ws'

import { until, withSandbox } from './server.mjs'

/** Asks the listener for a host name that this machine's resolver need not know. */
function ask(host, path, { method = 'GET', body } = {}) {
  const { hostname, port } = new URL(process.env.E2B_API_URL)
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers: { Host: host } }, async (answer) => {
      let text = ''
      for await (const piece of answer) text += piece
      resolve({ status: answer.statusCode, text })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const HTTP_SERVER = `
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201); self.end_headers()
        self.wfile.write(self.path.encode() + b" " + body + b" " + str(self.headers.get("X-API-Key")).encode())
    do_GET = lambda self: (self.send_response(200), self.end_headers(), self.wfile.write(b"up"))
HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
`

test('an HTTP server', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    const host = sandbox.getHost(8000)
    assert.equal((await ask(host, '/')).status, 502, 'nobody listens yet')
    await sandbox.files.write('server.py', HTTP_SERVER)
    await sandbox.commands.run('python3 server.py', { background: true })
    await until('the server inside', 120_000, async () => (await ask(host, '/')).status === 200)
    const answer = await ask(host, '/a?b=c', { method: 'POST', body: 'hello' })
    assert.deepEqual(answer, { status: 201, text: '/a?b=c hello None' })
  }))

// The handshake and one frame, by hand: the template has no library for it.
const SOCKET_SERVER = `
import base64, hashlib, socket
listener = socket.create_server(("127.0.0.1", 9000))
print("listening", flush=True)
connection, _ = listener.accept()
head = b""
while b"\\r\\n\\r\\n" not in head:
    head += connection.recv(4096)
headers = dict(line.split(": ", 1) for line in head.decode().split("\\r\\n")[1:] if ": " in line)
lower = {name.lower(): value for name, value in headers.items()}
accept = hashlib.sha1((lower["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
connection.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                   b"Sec-WebSocket-Accept: " + base64.b64encode(accept) + b"\\r\\n\\r\\n")
while True:
    start = connection.recv(2, socket.MSG_WAITALL)
    if len(start) < 2 or start[0] & 15 == 8:
        break
    mask = connection.recv(4, socket.MSG_WAITALL)
    body = connection.recv(start[1] & 127, socket.MSG_WAITALL)
    plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
    connection.sendall(bytes([0x81, len(plain)]) + plain.upper())
`

test('a WebSocket server', () =>
  withSandbox(Sandbox, {}, async (sandbox) => {
    await sandbox.files.write('socket.server.py', SOCKET_SERVER)
    let said = ''
    await sandbox.commands.run('python3 socket.server.py', { background: true, onStdout: (text) => { said += text } })
    await until('the server inside', 120_000, () => said.includes('listening'))
    const client = new WebSocket(process.env.E2B_API_URL.replace('http', 'ws'), { headers: { Host: sandbox.getHost(9000) } })
    await once(client, 'open')
    for (const word of ['one', 'two', 'three']) {
      client.send(word)
      const [answer] = await once(client, 'message')
      assert.equal(answer.toString(), word.toUpperCase())
    }
    const closed = once(client, 'close')
    client.close()
    await closed
  }))

test('a sandbox that is not there', async () => {
  const sandbox = await Sandbox.create()
  const host = sandbox.getHost(8000)
  await sandbox.kill()
  const answer = await ask(host, '/')
  assert.deepEqual([answer.status, JSON.parse(answer.text).code], [502, 502])
})
