# Claim: page tables count as memory of the sandbox, even if no page is written. Bound: 96 MB of page tables.
import mmap
_libc.mmap.restype = ctypes.c_void_p
span = 48 << 30
at = _libc.mmap(None, ctypes.c_size_t(span), 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, ctypes.c_long(0))
_libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(span), 15)  # no huge pages
for offset in range(0, span, 2 << 20):
    ctypes.c_byte.from_address(at + offset).value
facts["tables"] = "all"
report()
