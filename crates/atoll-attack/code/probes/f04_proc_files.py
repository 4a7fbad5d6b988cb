# Claim: host-wide files in /proc are absent: memory, symbols, keys, timers, interrupts, settings, sysrq.
# Expected: ENOENT for each. Settings are opened for writing but never written.
# Control: without the /proc mask and Landlock, /proc/interrupts and /proc/version open. Safe: one byte is read.
for name in ["kcore", "kallsyms", "keys", "timer_list", "sched_debug", "interrupts", "meminfo", "version", "cmdline", "modules", "mounts_host", "diskstats", "swaps"]:
    facts["read " + name] = read_one("/proc/" + name)
for name in ["sysrq-trigger", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches", "sys/kernel/hostname", "sys/user/max_user_namespaces"]:
    facts["write " + name] = opened("/proc/" + name, os.O_WRONLY)
twin("read /proc/self/stat", read_one("/proc/self/stat") == "ok")
report()
