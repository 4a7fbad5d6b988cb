"""The client by a domain, a key and a CA alone, over HTTPS, as `atoll serve --tls local` tells its users."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import serving

CLIENT = r"""
import os, socket, ssl
from e2b_code_interpreter import Sandbox

SERVER = '''
import http.server
server = http.server.HTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler)
print("listening", flush=True)
server.serve_forever()
'''

def ask(host, port):
    # By hand: only E2B's client resolves names below `localhost` on every host.
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        with ssl.create_default_context().wrap_socket(connection, server_hostname=host) as secured:
            secured.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            return secured.makefile("rb").readline().split()[1].decode()

with Sandbox.create() as sandbox:
    print(sandbox.run_code("6 * 7").text)
    sandbox.files.write("a.txt", "written")
    print(sandbox.files.read("a.txt"), sandbox.commands.run("cat a.txt").stdout)
    sandbox.files.write("server.py", SERVER)
    handle = sandbox.commands.run("python3 server.py", background=True)
    assert next(iter(handle))[0] == "listening\n"
    host, port = sandbox.get_host(8000).split(":")
    assert os.environ["E2B_DOMAIN"].endswith(f":{port}")
    print(ask(host, int(port)))
"""


@pytest.mark.skipif(find_spec("pyqwest") is None, reason="older clients leave names to the host's resolver")
def test_a_domain_a_key_and_a_ca_are_enough():
    with serving(ATOLL_TLS="local") as place:
        replaced = ("E2B_API_URL", "E2B_SANDBOX_URL", "SSL_CERT_DIR")
        kept = {name: value for name, value in os.environ.items() if name not in replaced}
        client = [sys.executable, "-c", CLIENT]
        done = subprocess.run(client, env={**kept, **place}, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stdout) == (0, "42\nwritten written\n200\n"), done.stderr
