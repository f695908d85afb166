#!/bin/bash
# One run on a Slurm allocation: the first task starts it, the others join. They find its link in a file of a folder
# that all nodes share.
#
#   sbatch --nodes=4 examples/slurm.sh examples/digits.yaml
#
# SHOAL is the program (default: shoal, from the PATH), OUT the shared folder (default: ./shoal-JOBID).

#SBATCH --job-name=shoal
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00

set -euo pipefail

export RUN=${1:?usage: sbatch examples/slurm.sh RUN.yaml}
export SHOAL=${SHOAL:-shoal}
export OUT=${OUT:-$PWD/shoal-$SLURM_JOB_ID}
umask 077 # the link lets its reader join the run
mkdir -p "$OUT"
: >"$OUT/up.log" # no link of an earlier job

# task is what each task of the job does. A function, since Slurm copies this script to the first node only.
task() {
  set -euo pipefail
  local cores=${SLURM_CPUS_PER_TASK:-1} link=
  if [ "$SLURM_PROCID" -eq 0 ]; then
    "$SHOAL" up "$RUN" --peers "$SLURM_NTASKS" --cores "$cores" --report "$OUT/report" | tee "$OUT/up.log"
    return
  fi
  for _ in $(seq 600); do
    link=$(grep -m 1 -o 'shoal:[a-z2-7]*' "$OUT/up.log" || true)
    [ -n "$link" ] && break
    sleep 0.2
  done
  if [ -z "$link" ]; then
    echo "slurm.sh: no link in $OUT/up.log after 2 minutes: look there for what went wrong" >&2
    return 1
  fi
  exec "$SHOAL" join "$link" --cores "$cores" >"$OUT/join-$SLURM_PROCID.log"
}
export -f task

srun --kill-on-bad-exit=1 bash -c task
