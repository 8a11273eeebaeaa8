"""Each planted bug must be caught: a simulator that misses one of them proves nothing."""

import subprocess
import sys

sims = sys.argv[1:]
print(f"1..{len(sims)}")
missed = 0
for number, sim in enumerate(sims, 1):
    bug = sim.rsplit("sim_", 1)[1]
    run = subprocess.run([sim, "60"], capture_output=True, text=True, check=False)
    caught = run.returncode == 1 and "not ok 1" in run.stdout
    story = [line for line in run.stdout.splitlines() if line.startswith("# ")]
    for line in story[:3]:
        print(line)
    print(f"{'ok' if caught else 'not ok'} {number} - {bug}_is_caught")
    missed += not caught
sys.exit(1 if missed else 0)
