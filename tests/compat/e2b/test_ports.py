"""Servers inside a sandbox: HTTP and WebSocket, reached by the name of a port through the one listener."""

import base64
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request


def test_a_server_inside_is_reached_by_its_name(sandbox, server):
    sandbox.commands.run("mkdir -p www && echo hello > www/i.txt")
    sandbox.commands.run("python3 -m http.server 8000 --directory www", background=True)
    host = sandbox.get_host(8000)
    request = urllib.request.Request(f"{server['url']}/i.txt", headers={"Host": host})
    deadline = time.monotonic() + 120
    while True:
        try:
            assert urllib.request.urlopen(request).read() == b"hello\n"
            return
        except urllib.error.HTTPError as error:
            assert error.code == 502 and time.monotonic() < deadline


UPGRADES = """
import socket
listener = socket.create_server(("127.0.0.1", 9000))
print("listening", flush=True)
connection, _ = listener.accept()
head = connection.recv(65536)
connection.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: test\\r\\nConnection: Upgrade\\r\\n\\r\\n")
while said := connection.recv(65536):
    connection.sendall(said.upper())
"""


def test_after_an_upgrade_bytes_go_both_ways(sandbox, server):
    """Whatever is spoken after the upgrade: the tests of the JavaScript client speak WebSocket."""
    sandbox.files.write("up.py", UPGRADES)
    handle = sandbox.commands.run("python3 up.py", background=True)
    assert next(iter(handle))[0] == "listening\n"
    address = urllib.parse.urlsplit(server["url"])
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        ask = f"GET /x HTTP/1.1\r\nHost: {sandbox.get_host(9000)}\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n"
        connection.sendall(ask.encode())
        reader = connection.makefile("rb")
        assert b" 101 " in reader.readline()
        while reader.readline() != b"\r\n":
            pass
        for _ in range(3):
            word = base64.b64encode(os.urandom(30_000)).lower()
            connection.sendall(word)
            assert reader.read(len(word)) == word.upper()
