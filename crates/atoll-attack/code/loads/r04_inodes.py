# Claim: the number of scratch files is limited. Bound: 2,000 empty files.
made = 0
try:
    for n in range(2000):
        os.close(os.open(f"/tmp/i{n}", os.O_CREAT | os.O_WRONLY))
        made += 1
    facts["inodes"] = "all"
except OSError as e:
    facts["inodes"] = word(e.errno)
twin("create more than 50 files", made > 50)
report()
