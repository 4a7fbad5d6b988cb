"""The Python context of Atoll: a persistent interpreter that runs cells with IPython semantics.

It speaks length-prefixed JSON frames on descriptor 3 (`frames`) and leaves text output to the pipes on
descriptors 1 and 2, which the host reads. It is not a wall: isolation is the business of the process around
it. `context.main()` is the way in after a fork from a zygote, `python -m atoll_kernel` without one.
"""
