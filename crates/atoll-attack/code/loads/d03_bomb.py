# Claim: a decompression bomb is stopped by the sandbox's memory limit. Bound: 200 MiB from 200 KB.
import zlib
packed = b"".join((lambda z: [z.compress(bytes(1 << 20)) for _ in range(200)] + [z.flush()])(zlib.compressobj(9)))
twin("the compressed data is smaller than 1 MiB", len(packed) < 1 << 20)
facts["unfolded"] = "all" if len(zlib.decompress(packed)) == 200 << 20 else "less"
report()
