# Claim: a packed file that unfolds to far more than it is meets the limits inside. Bound: 200 MiB out of 200 KB.
import zlib
packed = b"".join((lambda z: [z.compress(bytes(1 << 20)) for _ in range(200)] + [z.flush()])(zlib.compressobj(9)))
twin("it is small", len(packed) < 1 << 20)
facts["unfolded"] = "all" if len(zlib.decompress(packed)) == 200 << 20 else "less"
report()
